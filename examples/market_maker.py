"""Market maker that quotes around the middle of every market, and leans against its inventory.

bellwether backtest --agent examples/market_maker.py:Maker --cadence 5 --episode KXMLBGAME-26SEP282300NYYBOS
bellwether backtest --agent examples/market_maker.py:Maker --grid half_spread_cents=1..4 --cadence 5 --episode KXMLBGAME-26SEP282300NYYBOS
"""

from __future__ import annotations

from bellwether.replay import CENT, CONTRACT, DOLLAR, Agent, AgentContext, Market


class Maker(Agent):
    """Market maker that bids below the middle and offers above it, in whole cents, and never crosses the book.

    half_spread_cents: distance of a quote from the middle. size: contracts of a quote. max_position: contracts of a side at which it stops buying
    that side. lean_cents: shift of both quotes per `size` contracts of inventory.
    """

    def __init__(self, *, half_spread_cents: int = 2, size: int = 10, max_position: int = 50, lean_cents: int = 1) -> None:
        self._half_spread, self._lean = half_spread_cents * CENT, lean_cents * CENT
        self._size, self._limit = size * CONTRACT, max_position * CONTRACT

    def act(self, ctx: AgentContext) -> None:
        """Update the quotes of every market. An unchanged quote keeps its queue position."""
        for market in ctx.markets():
            bid, offer = self.quotes(market)
            ctx.quote(market.ticker, bid, offer, self._size)

    def quotes(self, market: Market) -> tuple[int | None, int | None]:
        """Return the prices of YES at which to bid and to offer; None where there is no quote."""
        if not market.is_active or market.yes_bid is None or market.yes_ask is None:
            return None, None
        inventory = market.yes_position - market.no_position
        middle = (market.yes_bid + market.yes_ask) // 2 - self._lean * inventory // self._size
        bid = min(middle - self._half_spread, market.yes_ask - CENT) // CENT * CENT
        offer = -(-max(middle + self._half_spread, market.yes_bid + CENT) // CENT) * CENT
        return (
            bid if bid >= CENT and inventory < self._limit else None,
            offer if offer <= DOLLAR - CENT and inventory > -self._limit else None,
        )
