"""Depth of the recorded books at chosen instants, summed over steps of price: the values of a heat map."""

from __future__ import annotations

import numpy as np
from numba import njit

from bellwether.replay.engine.compiling import stamped
from bellwether.replay.tape.layout import CLOSE, INVALID, LEVEL, PRICES, SETTLE, TRADED, VALID, VOID, Tape, unpack
from bellwether.replay.units import DOLLAR, NO


def depth(tape: Tape, markets: np.ndarray, times: np.ndarray, step: int = 10) -> np.ndarray:
    """Lots displayed at each instant, int64 (markets, 2, DOLLAR // step + 1, times): YES bids, then YES asks, by price of YES.

    markets: codes. times: ns, ascending; all events up to the instant count. step: mills that are summed; index k holds the prices from
    k x step up to the next. Zero while the book is not to be trusted or the market is closed.
    """
    slot = np.full(len(tape.tickers), -1, np.int64)
    slot[markets] = np.arange(len(markets))
    result = np.zeros((len(times), len(markets), 2, DOLLAR // step + 1), np.int64)
    _depth(tape.ts, tape.event, slot, np.ascontiguousarray(times, dtype=np.int64), step, result)
    return result.transpose(1, 2, 3, 0)


@stamped
@njit(cache=True, nogil=True)
def _depth(ts, event, slot, times, step, result):  # type: ignore[no-untyped-def]  # noqa: PLR0917
    markets = result.shape[1]
    size = np.zeros((markets, 2, PRICES), np.int64)
    summed = np.zeros(result.shape[1:], np.int64)
    invalid, closed = np.zeros(markets, np.bool_), np.zeros(markets, np.bool_)
    index = 0
    for at in range(len(times)):
        while index < len(ts) and ts[index] <= times[at]:
            kind, ticker, side, price, value = unpack(event[index])
            index += 1
            market = slot[ticker]
            if market < 0:
                continue
            if kind in (LEVEL, TRADED):
                row = (DOLLAR - price if side == NO else price) // step
                summed[market, side, row] += value - size[market, side, price]
                size[market, side, price] = value
            elif kind in (INVALID, VALID):
                invalid[market] = kind == INVALID
            elif kind in (CLOSE, SETTLE, VOID):
                closed[market] = True
        for market in range(markets):
            if not (invalid[market] or closed[market]):
                # Element by element: for a row as a whole, numba compiles what words the error of one that does not fit, as long as all the rest.
                for side in range(2):
                    for row in range(summed.shape[2]):
                        result[at, market, side, row] = summed[market, side, row]
