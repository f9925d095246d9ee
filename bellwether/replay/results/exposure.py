"""How long a backtest held positions, from its fills and the settlements on the tape."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from bellwether.replay.engine.codes import F_ACTION, F_LOTS, F_SIDE, F_TICKER, F_TS
from bellwether.replay.results.per_tape import per_tape
from bellwether.replay.tape.layout import SETTLE, VOID, Tape, unpack
from bellwether.replay.units import BUY


class Settlements(NamedTuple):
    """The first settlement or void of each market in order of time: int64 (k,) ns and market."""

    ts: np.ndarray
    ticker: np.ndarray


@per_tape
def settlements_of(tape: Tape) -> Settlements:
    """The settlements of a tape, found when first asked for."""
    return Settlements(*_settlements(tape.ts, tape.event, len(tape.tickers)))


def time_in_market(tape: Tape, fills: np.ndarray, *, apart: bool) -> float | None:
    """Share of the time from the tape's start to its end during which a position was open; null for a tape without duration.

    fills: int64 (m, F_COLS) in order of time. apart: YES and NO of a market are held beside each other and may be short; else they net.
    """
    until = max(tape.end, int(tape.ts[-1])) if len(tape) else tape.end
    if until <= tape.start:
        return None
    if not len(fills):
        return 0.0
    columns = tuple(np.ascontiguousarray(fills[:, column]) for column in (F_TS, F_TICKER, F_SIDE, F_ACTION, F_LOTS))
    return _time_held(columns, tuple(settlements_of(tape)), (tape.start, until), len(tape.tickers), apart) / (until - tape.start)


@njit(cache=True, nogil=True)
def _settlements(ts, event, tickers):  # type: ignore[no-untyped-def]
    done = np.zeros(tickers, np.bool_)
    at, ticker, count = np.zeros(tickers, np.int64), np.zeros(tickers, np.int64), 0
    for index in range(len(ts)):
        kind, market, _side, _price, _value = unpack(event[index])
        if kind in (SETTLE, VOID) and not done[market]:
            done[market] = True
            at[count], ticker[count] = ts[index], market
            count += 1
    return at[:count], ticker[:count]


@njit(cache=True, nogil=True)
def _time_held(fills, settlements, window, tickers, apart):  # type: ignore[no-untyped-def]
    """Nanoseconds with a position; a fill at the instant of a settlement was made before it."""
    ts, ticker, side, action, lots = fills
    paid_ts, paid = settlements
    position = np.zeros((tickers, 2), np.int64)
    held, start, open_markets, settled = 0, window[0], 0, 0
    for index in range(len(ts) + 1):
        at = ts[index] if index < len(ts) else window[1]
        while settled < len(paid) and (paid_ts[settled] < at or index == len(ts)):
            if open_markets:
                held += paid_ts[settled] - start
            start = paid_ts[settled]
            open_markets -= _is_open(position, paid[settled])
            position[paid[settled]] = 0
            settled += 1
        if open_markets:
            held += at - start
        start = at
        if index == len(ts):
            break
        market = ticker[index]
        open_markets -= _is_open(position, market)
        _fill(position[market], side[index], action[index], lots[index], apart)
        open_markets += _is_open(position, market)
    return held


@njit(cache=True, nogil=True)
def _is_open(position, market):  # type: ignore[no-untyped-def]
    return int(position[market, 0] != 0 or position[market, 1] != 0)


@njit(cache=True, nogil=True)
def _fill(position, side, action, lots, apart):  # type: ignore[no-untyped-def]
    if apart:
        position[side] += lots if action == BUY else -lots
        return
    position[side if action == BUY else 1 - side] += lots
    both = min(position[0], position[1])
    position[0] -= both
    position[1] -= both
