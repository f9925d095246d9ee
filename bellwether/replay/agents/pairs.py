"""Agent that buys pairs of YES and NO for less than a dollar."""

from __future__ import annotations

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, cents, contracts
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.records import EpisodeInfo, Fill, OrderUpdate
from bellwether.replay.agents.views import Order
from bellwether.replay.units import DOLLAR, NO, YES

_SIDES = {"yes": YES, "no": NO}


class Pairs(Agent):
    """Agent that joins the best bids for YES and NO where a pair costs at most a limit, and completes each pair after a fill.

    A complete pair pays a dollar. After a fill of one side, the bid for the other side is raised to the limit less the price of the fill; it
    may trade at once. Bids of markets with an incomplete pair stay unchanged. size: contracts of a bid. most_cents: maximum cost of a pair.
    """

    def __init__(self, *, size: float = 5, most_cents: float = 98) -> None:
        self._size, self._most = contracts(size, "size"), cents(most_cents, "most_cents")
        if self._size < 1 or not 2 <= self._most < DOLLAR:
            raise ConfigError(f"making the agent Pairs: found {self.params}; size is above 0, most_cents below a dollar")

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Set up the register of the agent's bids."""
        self._bids: dict[tuple[str, int], Order] = {}

    def act(self, ctx: AgentContext) -> None:
        """In each market without an incomplete pair, join the best bids for YES and NO, or cancel the agent's bids if a pair costs too much."""
        for market in ctx.markets():
            if market.yes_position != market.no_position:
                continue
            best = (market.yes_bid or 0, market.no_bid or 0)
            wanted = market.is_active and min(best) > 0 and sum(best) <= self._most
            for side in (YES, NO):
                self._bid(ctx, market.ticker, side, best[side] if wanted else 0)

    def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
        """Bid for the opposite side to complete the pair, at the limit less the price of the fill."""
        other = NO if _SIDES[fill.side] == YES else YES
        position = ctx.position(fill.ticker)
        missing = abs(position.yes_lots - position.no_lots)
        if missing and (position.yes_lots < position.no_lots) == (other == YES):
            self._cancel(ctx, fill.ticker, other)
            self._bids[fill.ticker, other] = ctx.buy(fill.ticker, other, missing, self._most - fill.price)

    def on_order(self, ctx: AgentContext, update: OrderUpdate) -> None:
        """Remove a bid that has ended from the register."""
        side = _SIDES[update.side]
        bid = self._bids.get((update.ticker, side))
        if bid is not None and bid.id == update.order and update.status != "resting":
            del self._bids[update.ticker, side]

    def _bid(self, ctx: AgentContext, ticker: str, side: int, price: int) -> None:
        """Keep a bid at a price; 0 cancels the bid."""
        bid = self._bids.get((ticker, side))
        if bid is not None and bid.price == price:
            return
        self._cancel(ctx, ticker, side)
        if price:
            self._bids[ticker, side] = ctx.place(ticker, side, "buy", price, self._size, "post_only")

    def _cancel(self, ctx: AgentContext, ticker: str, side: int) -> None:
        bid = self._bids.pop((ticker, side), None)
        if bid is not None:
            ctx.cancel(bid)
