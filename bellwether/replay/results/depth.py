"""Recorded books at given times: the lots at every price, and the best prices with the lots at and near them."""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.compilation import compiled, compiled_allocating
from bellwether.replay.tape.layout import CLOSE, INVALID, LEVEL, SETTLE, TRADED, VALID, VOID, Tape, unpack
from bellwether.replay.units import CENT, DOLLAR, NO
from bellwether.tables.replay import BOOK_LEVELS

#: Columns of `tops_at`.
BID, ASK, BID_SIZE, ASK_SIZE, BID_DEPTH, ASK_DEPTH, IS_VALID = range(7)


def depth(tape: Tape, markets: np.ndarray, times: np.ndarray, step: int = CENT) -> np.ndarray:
    """Return the displayed lots by market, side (YES bids, YES asks), price of YES and time: int64[M, 2, DOLLAR // step + 1, N].

    They are 0 while a book is invalid or its market is closed.

    Args:
        tape: Tape.
        markets: Codes of the markets, int64[M].
        times: Times, int64[N], ns UTC, ascending. Events at a time are included.
        step: Width of a price bin, $0.0001; bin k starts at k x step.
    """
    slot = np.full(len(tape.tickers), -1, np.int64)
    slot[markets] = np.arange(len(markets))
    result = np.zeros((len(times), len(markets), 2, DOLLAR // step + 1), np.int64)
    _depth(tape.ts, tape.event, slot, tape.starts, tape.prices, np.ascontiguousarray(times, dtype=np.int64), step, result)
    return result.transpose(1, 2, 3, 0)


@compiled_allocating
def _depth(ts, event, slot, first, prices, times, step, result):  # type: ignore[no-untyped-def]  # noqa: PLR0917
    markets = result.shape[1]
    size = np.zeros((2, len(prices)), np.int64)
    summed = np.zeros(result.shape[1:], np.int64)
    dark = np.zeros((2, markets), np.bool_)
    index = 0
    for at in range(len(times)):
        while index < len(ts) and ts[index] <= times[at]:
            kind, ticker, side, level, value = unpack(event[index])
            index += 1
            market = slot[ticker]
            if market < 0:
                continue
            if kind in (LEVEL, TRADED):
                place = first[ticker] + level
                row = (DOLLAR - prices[place] if side == NO else prices[place]) // step
                summed[market, side, row] += value - size[side, place]
                size[side, place] = value
            else:
                _darken(dark, market, kind)
        for market in range(markets):
            if not (dark[0, market] or dark[1, market]):
                # Element by element: numba compiles the error message of a slice assignment for as long as the rest of the function.
                for side in range(2):
                    for row in range(summed.shape[2]):
                        result[at, market, side, row] = summed[market, side, row]


@compiled
def _darken(dark, market, kind):  # type: ignore[no-untyped-def]
    """Update `dark`, which marks the markets whose book is invalid (row 0) or that are closed (row 1), for an event of type `kind`."""
    if kind in (INVALID, VALID):
        dark[0, market] = kind == INVALID
    elif kind in (CLOSE, SETTLE, VOID):
        dark[1, market] = True


def tops_at(tape: Tape, times: np.ndarray) -> np.ndarray:
    """Return best prices, lots and validity of each market's book at each time, int64[markets, times, 7]. times: ns UTC, ascending.

    Columns: best bid and ask of YES ($0.0001, -1 for an empty side), lots at them, lots at the best `BOOK_LEVELS` prices of each side, and 1 if
    the book is valid: recorded, not lost, and its market not closed. All other columns of an invalid book are -1.
    """
    result = np.full((len(tape.tickers), len(times), 7), -1, np.int64)
    _tops_at(tape.ts, tape.event, tape.starts, tape.prices, tape.begins, np.ascontiguousarray(times, dtype=np.int64), BOOK_LEVELS, result)
    return result


@compiled_allocating
def _tops_at(ts, event, first, prices, begins, times, most, result):  # type: ignore[no-untyped-def]  # noqa: PLR0917
    markets = len(result)
    size = np.zeros((2, len(prices)), np.int64)
    best = np.zeros((markets, 2), np.int64)
    dark = np.zeros((2, markets), np.bool_)
    fresh = np.ones(markets, np.bool_)
    index = 0
    for at in range(len(times)):
        while index < len(ts) and ts[index] <= times[at]:
            kind, market, side, level, value = unpack(event[index])
            index += 1
            if kind in (LEVEL, TRADED):
                place = first[market] + level
                size[side, place] = value
                if value > 0:
                    best[market, side] = max(best[market, side], level)
                fresh[market] = True
            else:
                _darken(dark, market, kind)
        for market in range(markets):
            is_valid = times[at] >= begins[market] and not (dark[0, market] or dark[1, market])
            result[market, at, IS_VALID] = int(is_valid)
            if not is_valid:
                fresh[market] = True
                continue
            if not fresh[market]:
                for column in range(IS_VALID):
                    result[market, at, column] = result[market, at - 1, column]
                continue
            fresh[market] = False
            for side in range(2):
                place = first[market]
                while best[market, side] > 0 and size[side, place + best[market, side]] == 0:
                    best[market, side] -= 1
                top = best[market, side]
                result[market, at, side] = -1 if top == 0 else DOLLAR - prices[place + top] if side == NO else prices[place + top]
                result[market, at, BID_SIZE + side] = size[side, place + top]
                result[market, at, BID_DEPTH + side] = _near(size[side], place, top, most)


@compiled
def _near(size, place, level, most):  # type: ignore[no-untyped-def]
    """Return the total lots at the best `most` prices that have orders, from `level` down. size: lots by price. place: index of the
    market's first price.
    """
    lots = 0
    while level > 0 and most > 0:
        if size[place + level] > 0:
            lots += size[place + level]
            most -= 1
        level -= 1
    return lots
