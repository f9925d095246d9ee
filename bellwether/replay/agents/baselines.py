"""Baseline agents: passive, buy and hold, and random."""

from __future__ import annotations

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, contracts
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.records import EpisodeInfo
from bellwether.replay.agents.views import Order
from bellwether.replay.units import CENT_MICROS, NO, YES


class Passive(Agent):
    """Agent that never trades. Its P&L is 0."""

    def act(self, ctx: AgentContext) -> None:
        """Do nothing."""


class BuyAndHold(Agent):
    """Agent that buys one side of every market at the best ask, and holds it until settlement.

    side: yes or no. size: contracts per market. Later decisions buy the unfilled remainder, once the fills of the previous order are known.
    """

    def __init__(self, side: str = "yes", size: float = 10) -> None:
        if side not in ("yes", "no"):
            raise ConfigError(f"making the agent BuyAndHold: side is {side!r:.60}; give yes or no")
        self._side, self._size = (YES if side == "yes" else NO), contracts(size, "size")

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Set the size to buy in each market."""
        self._left: dict[str, int] = dict.fromkeys(episode.tickers, self._size)
        self._sent: dict[str, Order] = {}

    def act(self, ctx: AgentContext) -> None:
        """Buy the remaining size of each market at the best ask."""
        if not self._left:
            return
        for market in ctx.markets():
            lots = self._remaining_lots(market.ticker)
            ask = market.yes_ask if self._side == YES else market.no_ask
            if lots and ask is not None and market.is_active:
                self._sent[market.ticker] = ctx.buy(market.ticker, self._side, lots, ask, "ioc")

    def _remaining_lots(self, ticker: str) -> int:
        """Return the lots to buy in a market now; 0 while an order is pending."""
        order = self._sent.get(ticker)
        if order is None:
            return self._left.get(ticker, 0)
        if order.status == "pending":
            return 0
        del self._sent[ticker]
        self._left[ticker] -= order.filled
        if not self._left[ticker]:
            del self._left[ticker]
        return self._left.get(ticker, 0)


class RandomAgent(Agent):
    """Agent that sends a small market order on a random side of a random quoted market (PredictionMarketBench, section 5.2).

    trade_probability: probability of an order per decision. max_position: position, in contracts, from which the agent sells a side.
    max_size: maximum contracts of an order. The agent sends no order with less than a dollar of cash.
    """

    def __init__(self, trade_probability: float = 0.1, max_position: float = 10, max_size: int = 3) -> None:
        if not 0 <= trade_probability <= 1 or max_size < 1:
            raise ConfigError(
                f"making the agent RandomAgent: trade_probability is {trade_probability}, max_size {max_size}; "
                "give a probability from 0 to 1, and a size of 1 or more"
            )
        self._probability, self._most, self._max_size = trade_probability, contracts(max_position, "max_position"), max_size

    def act(self, ctx: AgentContext) -> None:
        """Send at most one random order."""
        draw = ctx.random
        if draw.random() > self._probability or ctx.cash < 100 * CENT_MICROS:
            return
        quoted = [market for market in ctx.markets() if market.spread is not None]
        if not quoted:
            return
        market = draw.choice(quoted)
        side = YES if draw.random() < 0.5 else NO
        position = market.yes_position if side == YES else market.no_position
        if position < self._most:
            ctx.buy(market.ticker, side, self._size(ctx))
        elif position > -self._most:
            ctx.sell(market.ticker, side, self._size(ctx))

    def _size(self, ctx: AgentContext) -> int:
        return contracts(ctx.random.randint(1, self._max_size))
