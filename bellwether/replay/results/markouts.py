"""Markouts: value of a contract some time after a fill, less the price of the fill.

The best prices of a tape are indexed once, in a compiled pass. The index is cached with the tape and used for the fills of all backtests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bellwether.replay.engine.compilation import compiled_allocating
from bellwether.replay.tape.layout import CLOSE, INVALID, KIND_MASK, LEVEL, SETTLE, TRADED, VALID, VOID, Tape, cache_per_tape, unpack
from bellwether.replay.units import BUY, DOLLAR, MICROS, SECOND, YES

#: Null in int64 columns of this module.
NONE = np.iinfo(np.int64).min
#: Time of the payment of a market that the tape does not settle.
NEVER = np.iinfo(np.int64).max

#: Micro-dollars of a contract per $0.0001, and per half of it.
_UNIT, _HALF = MICROS // DOLLAR, MICROS // DOLLAR // 2


@dataclass(frozen=True, slots=True, eq=False)
class Tops:
    """Values of all markets' contracts after each change of their best prices: arrays with one entry per change, market by market.

    A row is valid from its time on, with all events of that time applied. Rows of a market are in chronological order.

    Attributes:
        first: Index of the first row of each market, int64[T + 1], with the number of rows last.
        ts: Times, int64, ns UTC.
        worth: Value of a YES contract, int64, micro-dollars: the midpoint of bid and ask, after settlement the payout, `NONE` if unknown.
        until: Time up to which the tape has books, ns UTC.
    """

    first: np.ndarray
    ts: np.ndarray
    worth: np.ndarray
    until: int


@cache_per_tape
def tops_of(tape: Tape) -> Tops:
    """Return the values of all markets of a tape after each change of their best prices. The result is cached with the tape."""
    count = len(tape.tickers)
    rows = tuple(np.empty(len(tape), dtype) for dtype in (np.int32, np.int64, np.int64))
    used = _tops(tape.ts, tape.event, (tape.starts, tape.prices), count, rows)
    ticker = rows[0][:used]
    order = np.argsort(ticker, kind="stable")
    first = np.searchsorted(ticker[order], np.arange(count + 1))
    ts, worth = (column[order] for column in rows[1:])
    last = int(tape.ts[-1]) if len(tape) else tape.end
    return Tops(first, ts, worth, max(tape.end, last))


@cache_per_tape
def payments(tape: Tape) -> np.ndarray:
    """Return the time of each market's first settlement or void, int64[T], ns UTC; `NEVER` without one. The result is cached with the tape."""
    kind = tape.event & KIND_MASK
    rows = np.flatnonzero((kind == SETTLE) | (kind == VOID))
    _, ticker, *_ = unpack(tape.event[rows])
    times = np.full(len(tape.tickers), NEVER, np.int64)
    np.minimum.at(times, ticker, tape.ts[rows])
    return times


@cache_per_tape
def quote_times(tape: Tape) -> np.ndarray:
    """Return the times at which the best prices of any market change, int64, ns UTC, ascending."""
    return np.unique(tops_of(tape).ts)


def markouts(tape: Tape, fills: np.ndarray, seconds: Sequence[int]) -> np.ndarray:
    """Compute the markout of each fill after each horizon, int64[fills, horizons], micro-dollars per contract; `NONE` where undefined.

    The markout of a purchase is the worth of its side at the end of the horizon less its price; that of a sale its price less that worth. It
    is negative if the market moved against the fill. Worth is the midpoint of the recorded book, or the payout after settlement. It is
    undefined if a side is empty, the book is invalid, the market is closed but not settled, it was voided, or the tape has ended.

    Args:
        tape: Tape of the fills.
        fills: Fills of the engine, records `codes.FILL`.
        seconds: Horizons, seconds.
    """
    tops, paid_at = tops_of(tape), payments(tape)
    horizons = np.array([second * SECOND for second in seconds], np.int64)
    result = np.full((len(fills), len(horizons)), NONE, np.int64)
    for market in np.unique(fills["market"]).tolist():
        rows = np.flatnonzero(fills["market"] == market)
        own, times = fills[rows], tops.ts[tops.first[market] : tops.first[market + 1]]
        at = own["ts"][:, None] + horizons
        # Row 0 stands for the time before the first change.
        worth = np.append(NONE, tops.worth[tops.first[market] : tops.first[market + 1]])[np.searchsorted(times, at, side="right")]
        is_known = (worth != NONE) & ((at <= tops.until) | (at >= paid_at[market]))
        of_side = np.where(own["side"][:, None] == YES, worth, MICROS - worth)
        gain = np.where(own["action"][:, None] == BUY, 1, -1) * (of_side - own["price"][:, None] * _UNIT)
        result[rows] = np.where(is_known, gain, NONE)
    return result


@compiled_allocating
def _tops(ts, event, levels, tickers, columns):  # type: ignore[no-untyped-def]
    """Store the market and the columns of each row of `Tops` in chronological order. Returns the number of rows."""
    out_ticker, out_ts, out_worth = columns
    start, prices = levels
    rows = 0
    size = np.zeros((2, len(prices)), np.int32)
    best = np.zeros((tickers, 2), np.int64)
    paid = np.full(tickers, NONE, np.int64)
    latest = np.full(tickers, -1, np.int64)
    invalid, closed = np.zeros(tickers, np.bool_), np.zeros(tickers, np.bool_)
    for index in range(len(ts)):
        kind, ticker, side, level, value = unpack(event[index])
        if kind in (LEVEL, TRADED):
            size[side, start[ticker] + level] = value
            top = best[ticker, side]
            if level < top or (level == top and value > 0) or (level > top and value == 0):
                continue
            while value == 0 and level > 0 and size[side, start[ticker] + level] == 0:
                level -= 1
            best[ticker, side] = level
        elif kind in (INVALID, VALID):
            invalid[ticker] = kind == INVALID
        elif kind in (CLOSE, SETTLE, VOID):
            closed[ticker] = True
            if kind == SETTLE and paid[ticker] == NONE:
                paid[ticker] = value
        else:
            continue
        if latest[ticker] < 0 or out_ts[latest[ticker]] != ts[index]:
            latest[ticker] = rows
            rows += 1
        row = latest[ticker]
        dark = invalid[ticker] or closed[ticker]
        bid = -1 if dark or best[ticker, 0] == 0 else prices[start[ticker] + best[ticker, 0]]
        ask = -1 if dark or best[ticker, 1] == 0 else DOLLAR - prices[start[ticker] + best[ticker, 1]]
        out_ticker[row], out_ts[row] = ticker, ts[index]
        if paid[ticker] != NONE:
            out_worth[row] = paid[ticker]
        else:
            out_worth[row] = (bid + ask) * _HALF if bid >= 0 and ask >= 0 else NONE
    return rows
