"""Recorded books at given times: the lots at every price, and the best prices with the lots at and near them."""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.compilation import compiled, compiled_allocating
from bellwether.replay.tape.layout import CLOSE, INVALID, LEVEL, SETTLE, TRADED, VALID, VOID, Tape, unpack
from bellwether.replay.units import CENT, DOLLAR, NO
from bellwether.tables.replay import BOOK_LEVELS

#: Columns of the best prices.
BID, ASK, BID_SIZE, ASK_SIZE, BID_DEPTH, ASK_DEPTH, IS_VALID = range(7)


def sample_books(tape: Tape, markets: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best prices and the displayed lots of books at given times. Events at a time are included.

    The best prices are int64[M, N, 7]: best bid and ask of YES ($0.0001, -1 for an empty side), lots at them, lots at the best `BOOK_LEVELS`
    prices of each side, and 1 if the book is valid: recorded, not lost, and its market not closed. All other columns of an invalid book are
    -1. The lots are int64[M, 2, 101, N], by market, side (YES bids, YES asks), price of YES in whole cents, rounded down, and time; 0 while a
    book is invalid or its market is closed.

    Args:
        tape: Tape.
        markets: Codes of the markets, int64[M].
        times: Times, int64[N], ns UTC, ascending.
    """
    slot = np.full(len(tape.tickers), -1, np.int64)
    slot[markets] = np.arange(len(markets))
    tops = np.full((len(markets), len(times), 7), -1, np.int64)
    tops[:, :, IS_VALID] = 0
    lots = np.zeros((len(times), len(markets), 2, DOLLAR // CENT + 1), np.int64)
    grid = slot, tape.starts, tape.prices, tape.begins
    _sample(tape.ts, tape.event, grid, np.ascontiguousarray(times, dtype=np.int64), tops, lots)
    return tops, lots.transpose(1, 2, 3, 0)


@compiled_allocating
def _sample(ts, event, grid, times, tops, lots):  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0917
    slot, first, prices, begins = grid
    size, summed = np.zeros((2, len(prices)), np.int64), np.zeros(lots.shape[1:], np.int64)
    best, dark = np.zeros((len(tops), 2), np.int64), np.zeros((2, len(tops)), np.bool_)
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
                summed[market, side, _price_of_yes(prices, place, side) // CENT] += value - size[side, place]
                size[side, place] = value
                if value > 0:
                    best[market, side] = max(best[market, side], level)
            elif kind in (INVALID, VALID):
                dark[0, market] = kind == INVALID
            elif kind in (CLOSE, SETTLE, VOID):
                dark[1, market] = True
        for ticker in range(len(slot)):
            market = slot[ticker]
            if market < 0 or dark[0, market] or dark[1, market]:
                continue
            # Element by element: numba compiles the error message of a slice assignment for as long as the rest of the function.
            for side in range(2):
                for row in range(summed.shape[2]):
                    lots[at, market, side, row] = summed[market, side, row]
            if times[at] < begins[ticker]:
                continue
            row, place = tops[market, at], first[ticker]
            row[IS_VALID] = 1
            for side in range(2):
                while best[market, side] > 0 and size[side, place + best[market, side]] == 0:
                    best[market, side] -= 1
                top = best[market, side]
                row[side] = -1 if top == 0 else _price_of_yes(prices, place + top, side)
                row[BID_SIZE + side] = size[side, place + top]
                row[BID_DEPTH + side] = _near(size[side], place, top)


@compiled
def _price_of_yes(prices, place, side):  # type: ignore[no-untyped-def]
    return DOLLAR - prices[place] if side == NO else prices[place]


@compiled
def _near(size, place, level):  # type: ignore[no-untyped-def]
    """Return the total lots at the best `BOOK_LEVELS` prices that have orders, from `level` down. size: lots by price. place: index of the
    market's first price.
    """
    lots, left = 0, BOOK_LEVELS
    while level > 0 and left > 0:
        if size[place + level] > 0:
            lots += size[place + level]
            left -= 1
        level -= 1
    return lots
