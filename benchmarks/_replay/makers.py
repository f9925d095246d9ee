"""One market maker in four forms: compiled; in plain Python; in Python with NumPy over all markets at once; compiled and driven by events.

At each decision the maker wants a post-only order of `size` at both best prices of every market that is open and has both sides, except on a side
where the position is at the limit. An order that is already there stays; an order at another price is cancelled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bellwether.replay import Agent, AgentContext, CompiledAgent
from bellwether.replay.engine.kernel import best_bid, fills_of, next_step, position, quote, strategy, ticker_status, tickers
from bellwether.replay.units import CONTRACT, DOLLAR


@strategy
def requote(sim, params, ticker):
    """Update the quotes of one market. params: lots of an order, and the limit of the position in lots."""
    lots, limit = params[0], params[1]
    yes, no = best_bid(sim, ticker, 0), best_bid(sim, ticker, 1)
    if yes == 0 or no == 0 or yes + no >= DOLLAR or ticker_status(sim, ticker) != 0:
        return
    held = position(sim, ticker, 0) - position(sim, ticker, 1)
    quote(sim, ticker, yes if held < limit else 0, no if held > -limit else 0, lots)


@strategy
def maker(sim, params):
    """Run the whole backtest: at each decision, requote every market. sim: the engine's state. params: as for `requote`."""
    while next_step(sim):
        for ticker in range(tickers(sim)):
            requote(sim, params, ticker)


@strategy
def follow(sim, params):
    """Do nothing at decisions, since the callbacks `requote` and `refill` update the quotes."""
    while next_step(sim):
        pass


@strategy
def refill(sim, params, fill):
    """Update the quotes of the market in which a fill occurred."""
    requote(sim, params, fills_of(sim)[fill].market)


class CompiledMaker(CompiledAgent):
    """The maker as a compiled strategy, which decides at a fixed cadence."""

    name = "bench-compiled-maker"
    strategy = maker

    def __init__(self, size: int = 10, limit: int = 200) -> None:
        self.lots, self.limit = size * CONTRACT, limit * CONTRACT

    def numbers(self, episode: Any, seed: int) -> np.ndarray:
        return np.array([self.lots, self.limit], np.int64)


class CompiledFollower(CompiledMaker):
    """The maker as a compiled strategy, which acts at each change of a best price and at each fill."""

    name = "bench-compiled-follower"
    strategy = follow
    on_book, on_fill = requote, refill


class Watcher(Agent):
    """Agent that does nothing."""

    name = "bench-watcher"

    def act(self, ctx: AgentContext) -> None:
        pass


class PlainMaker(Agent):
    """The maker in plain Python, market by market."""

    name = "bench-plain-maker"

    def __init__(self, size: int = 10, limit: int = 200) -> None:
        self.lots, self.limit = size * CONTRACT, limit * CONTRACT

    def act(self, ctx: AgentContext) -> None:
        for market in ctx.markets():
            bid, ask = market.yes_bid, market.yes_ask
            if bid is None or ask is None or bid >= ask or not market.is_active:
                continue
            held = market.yes_position - market.no_position
            ctx.quote(market.ticker, bid if held < self.limit else None, ask if held > -self.limit else None, self.lots)


class VectorMaker(Agent):
    """The maker in Python, with NumPy over all markets at once."""

    name = "bench-vector-maker"

    def __init__(self, size: int = 10, limit: int = 200) -> None:
        self.lots, self.limit = size * CONTRACT, limit * CONTRACT

    def act(self, ctx: AgentContext) -> None:
        bids, held = ctx.bids, ctx.positions
        good = (bids[:, 0] * bids[:, 1] > 0) & (bids[:, 0] + bids[:, 1] < DOLLAR) & ctx.active
        wanted = bids * (held - held[:, ::-1] < self.limit)
        wanted[~good] = -1
        ctx.quote_many(wanted, self.lots)
