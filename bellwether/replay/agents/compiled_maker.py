"""The market maker of `market_maker`, compiled: it sends the same orders."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from bellwether.replay.agents.agent import CompiledAgent, EpisodeInfo
from bellwether.replay.agents.market_maker import Quoting
from bellwether.replay.agents.views import BLOCKING
from bellwether.replay.engine.codes import Status, Tif
from bellwether.replay.engine.kernel import best_bid, cancel, next_step, order_status, place, position, strategy, ticker_status, tickers
from bellwether.replay.units import BUY, DOLLAR

_RESTING, _POST_ONLY = int(Status.RESTING), int(Tif.POST_ONLY)


@strategy
def wanted(sim: Any, ticker: int, side: int, params: np.ndarray) -> int:
    """The price to bid for a side, mills; 0 for none. params: spread, size, most, skew, tick."""
    spread, size, most, skew, tick = params[0], params[1], params[2], params[3], params[4]
    own, other = best_bid(sim, ticker, side), best_bid(sim, ticker, 1 - side)
    if own == 0 or other == 0 or ticker_status(sim, ticker) & BLOCKING:
        return 0
    held = position(sim, ticker, side) - position(sim, ticker, 1 - side)
    if held >= most:
        return 0
    twice = own + DOLLAR - other - spread - 2 * skew * held // size
    price = min(twice // (2 * tick), (DOLLAR - 1 - other) // tick) * tick
    return max(price, 0)


@njit(cache=True, nogil=True)
def make_market(sim: Any, params: np.ndarray) -> None:
    """Quote every market anew at every decision."""
    count = tickers(sim)
    _quote(sim, params, np.full((count, 2), -1), np.zeros((count, 2), np.int64))


@strategy
def _quote(sim: Any, params: np.ndarray, orders: np.ndarray, prices: np.ndarray) -> None:
    while next_step(sim):
        for ticker in range(len(orders)):
            for side in range(2):
                price, order = wanted(sim, ticker, side, params), orders[ticker, side]
                rests = order >= 0 and order_status(sim, order) == _RESTING
                if rests and prices[ticker, side] != price:
                    cancel(sim, order)
                if not rests or prices[ticker, side] != price:
                    orders[ticker, side] = -1
                prices[ticker, side] = price
            for side in range(2):
                if orders[ticker, side] < 0 and prices[ticker, side] > 0:
                    orders[ticker, side] = place(sim, ticker, side, BUY, prices[ticker, side], params[1], _POST_ONLY, 0)


class CompiledMarketMaker(Quoting, CompiledAgent):
    """The market maker compiled: parameters as `MarketMaker`."""

    strategy = make_market

    def numbers(self, episode: EpisodeInfo, seed: int) -> np.ndarray:
        """int64[5]: spread, size, most, skew, tick, in mills and lots."""
        return np.array([self._spread, self._size, self._most, self._skew, self._tick], np.int64)
