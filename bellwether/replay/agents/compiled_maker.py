"""Market maker of the module `market_maker`, with its decisions compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from bellwether.replay.agents.agent import CompiledAgent
from bellwether.replay.agents.market_maker import QuotingPolicy
from bellwether.replay.agents.records import EpisodeInfo
from bellwether.replay.agents.views import BLOCKING
from bellwether.replay.engine.kernel import best_bid, next_step, position, quote, strategy, ticker_status, tickers
from bellwether.replay.units import DOLLAR, MILL


@strategy
def bid_price(sim: Any, ticker: int, side: int, params: np.ndarray) -> int:
    """Return the bid price for a side, $0.0001; 0 for no bid. params: array of spread, size, max_position, skew and tick."""
    spread, size, most, skew, tick = params[0], params[1], params[2], params[3], params[4]
    own, other = best_bid(sim, ticker, side), best_bid(sim, ticker, 1 - side)
    if own == 0 or other == 0 or ticker_status(sim, ticker) & BLOCKING:
        return 0
    inventory = position(sim, ticker, side) - position(sim, ticker, 1 - side)
    if inventory >= most:
        return 0
    twice = own + DOLLAR - other - spread - 2 * skew * inventory // (MILL * size) * MILL
    price = min(twice // (2 * tick), (DOLLAR - 1 - other) // tick) * tick
    return max(price, 0)


@strategy
def make_market(sim: Any, params: np.ndarray) -> None:
    """Run the strategy through an episode: update the quotes of every market at every decision."""
    while next_step(sim):
        for ticker in range(tickers(sim)):
            quote(sim, ticker, bid_price(sim, ticker, 0, params), bid_price(sim, ticker, 1, params), params[1])


class CompiledMarketMaker(QuotingPolicy, CompiledAgent):
    """Compiled market maker, with the parameters of `MarketMaker`."""

    strategy = make_market

    def numbers(self, episode: EpisodeInfo, seed: int) -> np.ndarray:
        """Return the parameters as int64[5]: spread, size, max_position, skew and tick, in $0.0001 and lots."""
        return np.array([self._spread, self._size, self._most, self._skew, self._tick], np.int64)
