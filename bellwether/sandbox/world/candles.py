"""Candles of any period from a market's tape (quotes and trades at the start of each slot of ten minutes), in the format of the live
endpoints.
"""

from __future__ import annotations

import numpy as np

from bellwether.sandbox.source import Candle
from bellwether.sandbox.timestamps import MINUTE, SECOND
from bellwether.sandbox.world.tape import DOLLAR, Ints, MarketTape

#: Price in tenths of a cent -> its text.
PRICES = [f"0.{mills:03d}0" for mills in range(DOLLAR)] + ["1.0000"]


def format_contracts(hundredths: int) -> str:
    """Format hundredths of a contract as contracts with two decimals."""
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def format_dollars(ten_thousandths: int) -> str:
    """Format 1/10000 dollars as dollars with four decimals."""
    return f"{ten_thousandths // 10_000}.{ten_thousandths % 10_000:04d}"


def _bars(values: Ints, starts: Ints) -> list[dict[str, str]]:
    """Compute open, high, low and close of a bid or ask. values: the quote by slot. starts: first slot of each candle."""
    ends = np.append(starts[1:], len(values)) - 1
    opens = values[np.maximum(starts - 1, 0)]
    highs = np.maximum(np.maximum.reduceat(values, starts), opens)
    lows = np.minimum(np.minimum.reduceat(values, starts), opens)
    return [
        {"close_dollars": PRICES[close], "high_dollars": PRICES[high], "low_dollars": PRICES[low], "open_dollars": PRICES[opened]}
        for opened, high, low, close in zip(opens.tolist(), highs.tolist(), lows.tolist(), values[ends].tolist(), strict=True)
    ]


def _trades(tape: MarketTape, starts: Ints) -> list[dict[str, str]]:
    """Compute open, high, low, close and mean of the trades in each candle, and the previous close; missing values are left out. starts:
    first slot of each candle.
    """
    traded = tape.price > 0
    ends = np.append(starts[1:], len(tape.price)) - 1
    highs = np.maximum.reduceat(tape.price, starts)
    lows = np.minimum.reduceat(np.where(traded, tape.price, DOLLAR), starts)
    first = np.minimum.reduceat(np.where(traded, np.arange(len(traded)), len(traded)), starts)
    opens = np.append(tape.price, 0)[first]
    sizes = np.add.reduceat(tape.size, starts)
    worth = np.add.reduceat(tape.price.astype(np.int64) * tape.size, starts) * 10
    means = (worth + sizes // 2) // np.maximum(sizes, 1)
    previous = np.where(starts > 0, tape.last[starts - 1], 0)
    columns = (opens, highs, lows, tape.last[ends], means, sizes, previous)
    bars = []
    for opened, high, low, close, mean, size, last in zip(*(column.tolist() for column in columns), strict=True):
        bar = {}
        if size:
            bar = {
                "close_dollars": PRICES[close],
                "high_dollars": PRICES[high],
                "low_dollars": PRICES[low],
                "mean_dollars": format_dollars(mean),
                "open_dollars": PRICES[opened],
            }
        if last:
            bar["previous_dollars"] = PRICES[last]
        bars.append(bar)
    return bars


def build_candles(tape: MarketTape, period: int, start: int, end: int) -> list[Candle]:
    """Build candles of `period` minutes that end within [start, end] (instants).

    A candle covers (end - period, end] and exists if it has a quote change, a trade or the opening.
    """
    length = period * MINUTE
    close = -(-tape.times // length) * length
    starts = np.flatnonzero(np.diff(close, prepend=close[0] - 1))
    previous = np.maximum(np.arange(len(close)) - 1, 0)
    news = (tape.price > 0) | (tape.bid != tape.bid[previous]) | (tape.ask != tape.ask[previous])
    news[0] = True
    exists = np.logical_or.reduceat(news, starts) & (close[starts] >= start) & (close[starts] <= end)
    if not exists.any():
        return []
    first, last = np.flatnonzero(exists)[[0, -1]]
    cut = slice(max(int(starts[first]) - 1, 0), int(starts[last + 1]) if last + 1 < len(starts) else len(close))
    part = tape.part(cut)
    local = starts[first : last + 1] - cut.start
    exists = exists[first : last + 1]
    bids, asks, trades = _bars(part.bid, local), _bars(part.ask, local), _trades(part, local)
    ends = np.append(local[1:], len(part.price)) - 1
    volumes = np.add.reduceat(part.size, local).tolist()
    interest = part.open_interest[ends].tolist()
    stamps = (close[starts[first : last + 1]] // SECOND).tolist()
    return [
        {
            "end_period_ts": stamps[i],
            "open_interest_fp": format_contracts(interest[i]),
            "price": trades[i],
            "volume_fp": format_contracts(volumes[i]),
            "yes_ask": asks[i],
            "yes_bid": bids[i],
        }
        for i in np.flatnonzero(exists).tolist()
    ]
