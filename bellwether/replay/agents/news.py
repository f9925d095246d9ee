"""What an agent is told between its decisions: its fills and the trades, each when it can know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.failures import returned
from bellwether.replay.agents.records import fills_of, trades_of

if TYPE_CHECKING:
    from bellwether.replay.agents.context import AgentContext

Rows = list[list[int]]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Which of `on_fill` and `on_trade` an agent has."""

    on_fill: bool = False
    on_trade: bool = False

    @classmethod
    def of(cls, agent: type[Agent]) -> Callbacks:
        """Those that a class defines."""
        return cls(agent.on_fill is not Agent.on_fill, agent.on_trade is not Agent.on_trade)

    @classmethod
    def named(cls, text: str) -> Callbacks:
        """Of a text of names; the reverse of `str`."""
        words = text.split()
        return cls("on_fill" in words, "on_trade" in words)

    def __str__(self) -> str:
        return " ".join(name for name in ("on_fill", "on_trade") if getattr(self, name))

    def __bool__(self) -> bool:
        return self.on_fill or self.on_trade


def tell(agent: Agent, ctx: AgentContext, fills: Sequence[Sequence[int]], trades: Sequence[Sequence[int]]) -> None:
    """Call `on_fill` for each fill, then `on_trade` for each trade."""
    for fill in fills_of(fills, ctx.tickers):
        if (answer := agent.on_fill(ctx, fill)) is not None:  # type: ignore[func-returns-value]
            raise returned(answer, "on_fill")
    for trade in trades_of(trades, ctx.tickers):
        if (answer := agent.on_trade(ctx, trade)) is not None:  # type: ignore[func-returns-value]
            raise returned(answer, "on_trade")
