"""Market makers with inventory control. The scalar, array and compiled versions send the same orders.

The policy, for each market with a bid on both sides, and for each side s of it (YES, NO): with b the best bid for s, o the best bid for the other
side, and v the position in s less that in the other side, in contracts,

    want = (b + 1 - o) / 2  -  spread / 2  -  skew * v / size,    at most one tick below the ask 1 - o (in dollars),

with the shift rounded to a tenth of a cent and the price rounded down to the tick. The bid is half the spread below the mid price, shifted against
the inventory: the linear approximation of Avellaneda and Stoikov, "High-frequency trading in a limit order book" (2008). A bid for NO at p
is an offer of YES at 1 - p. The agent does not bid for a side at its `max_position`. A bid that already rests at its price keeps its
queue position; other bids are cancelled and replaced, post-only.
"""

from __future__ import annotations

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, cents, contracts
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.views import Market
from bellwether.replay.units import DOLLAR, MILL, NO, YES


class QuotingPolicy(Agent):
    """Base class of market makers: parameters of the quoting policy.

    Args:
        spread_cents: Distance between bid and ask.
        size: Contracts of a quote.
        max_position: Maximum contracts of a side, net of the other side.
        skew_cents: Shift of both quotes per `size` contracts of inventory.
        tick_cents: Step of quoted prices.
    """

    def __init__(
        self, *, spread_cents: float = 4, size: float = 10, max_position: float = 100, skew_cents: float = 0.5, tick_cents: float = 1
    ) -> None:
        self._spread, self._skew = cents(spread_cents, "spread_cents"), cents(skew_cents, "skew_cents")
        self._size, self._most = contracts(size, "size"), contracts(max_position, "max_position")
        self._tick = cents(tick_cents, "tick_cents")
        if self._spread < 0 or self._skew < 0 or self._size < 1 or self._most < 1 or not 1 <= self._tick <= DOLLAR // 2:
            raise ConfigError(
                f"making the agent {type(self).__name__}: found {self.params}; spread_cents and skew_cents are 0 or more, the others above 0"
            )


class MarketMaker(QuotingPolicy):
    """Market maker that loops over `markets()` and sends each quote with `quote`."""

    def act(self, ctx: AgentContext) -> None:
        """Update the quotes of every market."""
        for market in ctx.markets():
            bid, no_bid = self._bid_price(market, YES), self._bid_price(market, NO)
            ctx.quote(market.ticker, bid, None if no_bid is None else DOLLAR - no_bid, self._size)

    def _bid_price(self, market: Market, side: int) -> int | None:
        own, other = market.yes_bid, market.no_bid
        inventory = market.yes_position - market.no_position
        if own is None or other is None or not market.is_active:
            return None
        if side == NO:
            own, other, inventory = other, own, -inventory
        if inventory >= self._most:
            return None
        twice = own + DOLLAR - other - self._spread - 2 * self._skew * inventory // (MILL * self._size) * MILL
        price = min(twice // (2 * self._tick), (DOLLAR - 1 - other) // self._tick) * self._tick
        return price if price >= self._tick else None


class VectorMarketMaker(QuotingPolicy):
    """Market maker that computes all quotes as arrays and sends them with `quote_many`."""

    def act(self, ctx: AgentContext) -> None:
        """Update the quotes of all markets."""
        ctx.quote_many(self._bid_prices(ctx), self._size)

    def _bid_prices(self, ctx: AgentContext) -> np.ndarray:
        """Return the bid price for each market and side, int64[T, 2], $0.0001; 0 for no bid."""
        own, positions = ctx.bids, ctx.positions
        other, inventory = own[:, ::-1], positions - positions[:, ::-1]
        price = own - other
        price += DOLLAR - self._spread
        price -= 2 * self._skew * inventory // (MILL * self._size) * MILL
        price //= 2 * self._tick
        price = np.minimum(price, (DOLLAR - 1 - other) // self._tick) * self._tick
        price *= (own * other > 0) & (inventory < self._most) & (price > 0) & ctx.active[:, None]
        return price
