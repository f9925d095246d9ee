"""Candles of any period from a market's tape (quotes and trades at the start of each slot of half an hour), in the format of the live
endpoints.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bellwether.sandbox.timestamps import MINUTE, SECOND
from bellwether.sandbox.world.tape import DOLLAR, Ints, MarketTape

#: Candle in the format of the live endpoints.
Candle = dict[str, Any]

#: Price in tenths of a cent -> its text.
PRICES = [f"0.{mills:03d}0" for mills in range(DOLLAR)] + ["1.0000"]


def format_contracts(hundredths: int) -> str:
    """Format hundredths of a contract as contracts with two decimals."""
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def format_dollars(ten_thousandths: int) -> str:
    """Format 1/10000 dollars as dollars with four decimals."""
    return f"{ten_thousandths // 10_000}.{ten_thousandths % 10_000:04d}"


def _quote_bars(values: Ints, starts: Ints, ends: Ints) -> dict[str, list[int]]:
    """Compute open, high, low and close of a bid or ask by candle. values: the quote by slot. starts, ends: first and last slot of each
    candle.

    A candle opens with the quote at its beginning.
    """
    opens = values[np.maximum(starts - 1, 0)]
    columns = {
        "open_dollars": opens,
        "high_dollars": np.maximum(np.maximum.reduceat(values, starts), opens),
        "low_dollars": np.minimum(np.minimum.reduceat(values, starts), opens),
        "close_dollars": values[ends],
    }
    return {name: column.tolist() for name, column in columns.items()}


def _trade_bars(tape: MarketTape, starts: Ints, ends: Ints) -> tuple[dict[str, list[int]], list[int], list[int]]:
    """Compute open, high, low and close of the trades by candle, their mean (in 1/10000 dollar), and the last price before the candle; 0
    without one.
    """
    traded = tape.price > 0
    slots = np.arange(len(traded))
    first = np.minimum.reduceat(np.where(traded, slots, len(traded)), starts)
    sizes = np.add.reduceat(tape.size, starts)
    worth = np.add.reduceat(tape.price * tape.size, starts) * 10
    columns = {
        "open_dollars": np.append(tape.price, 0)[first],
        "high_dollars": np.maximum.reduceat(tape.price, starts),
        "low_dollars": np.minimum.reduceat(np.where(traded, tape.price, DOLLAR), starts),
        "close_dollars": tape.last[ends],
    }
    means = (worth + sizes // 2) // np.maximum(sizes, 1)
    previous = np.where(starts > 0, tape.last[starts - 1], 0)
    return {name: column.tolist() for name, column in columns.items()}, means.tolist(), previous.tolist()


def build_candles(tape: MarketTape, period: int, start: int, end: int) -> list[Candle]:
    """Build candles of `period` minutes that end within [start, end] (instants).

    A candle covers (end - period, end] and exists if it has a quote change, a trade or the opening.
    """
    length = period * MINUTE
    close = -(-tape.times // length) * length
    starts = np.flatnonzero(np.diff(close, prepend=close[0] - 1))
    ends = np.append(starts[1:], len(close)) - 1
    is_new = (tape.price > 0) | (np.diff(tape.bid, prepend=-1) != 0) | (np.diff(tape.ask, prepend=-1) != 0)
    exists = np.logical_or.reduceat(is_new, starts) & (close[starts] >= start) & (close[starts] <= end)
    bids, asks = _quote_bars(tape.bid, starts, ends), _quote_bars(tape.ask, starts, ends)
    trades, means, previous = _trade_bars(tape, starts, ends)
    volumes = np.add.reduceat(tape.size, starts).tolist()
    interest = tape.open_interest[ends].tolist()
    stamps = (close[starts] // SECOND).tolist()

    def price(i: int) -> dict[str, str]:
        bar = {name: PRICES[values[i]] for name, values in trades.items()} if volumes[i] else {}
        mean = {"mean_dollars": format_dollars(means[i])} if volumes[i] else {}
        last = {"previous_dollars": PRICES[previous[i]]} if previous[i] else {}
        return {**bar, **mean, **last}

    return [
        {
            "end_period_ts": stamps[i],
            "open_interest_fp": format_contracts(interest[i]),
            "price": price(i),
            "volume_fp": format_contracts(volumes[i]),
            "yes_ask": {name: PRICES[values[i]] for name, values in asks.items()},
            "yes_bid": {name: PRICES[values[i]] for name, values in bids.items()},
        }
        for i in np.flatnonzero(exists).tolist()
    ]
