"""What an agent is told between its decisions: its fills, what became of its orders, trades and quotes that change, each when it can know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.failures import returned
from bellwether.replay.agents.records import fills_of, trades_of, updates_of

if TYPE_CHECKING:
    from bellwether.replay.agents.context import AgentContext

Rows = list[list[int]]
#: Rows of fills, of updates of orders, of trades, and codes of the markets whose best prices changed.
News = tuple[Rows, Rows, Rows, list[int]]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Which callbacks an agent has."""

    on_fill: bool = False
    on_order: bool = False
    on_trade: bool = False
    on_book: bool = False

    @classmethod
    def of(cls, agent: type[Agent]) -> Callbacks:
        """Those that a class defines."""
        return cls(**{name: getattr(agent, name) is not getattr(Agent, name) for name in CALLBACKS})

    def functions(self, agent: type[Agent]) -> dict[str, Any]:
        """Those of a class by their names."""
        return {name: getattr(agent, name) for name in CALLBACKS if getattr(self, name)}

    @classmethod
    def named(cls, text: str) -> Callbacks:
        """Of a text of names; the reverse of `str`."""
        words = text.split()
        return cls(**{name: name in words for name in CALLBACKS})

    def __str__(self) -> str:
        return " ".join(name for name in CALLBACKS if getattr(self, name))

    def __bool__(self) -> bool:
        return any(astuple(self))


#: Their names, in the order of calls.
CALLBACKS = tuple(field.name for field in fields(Callbacks))


def tell(  # noqa: PLR0917
    agent: Agent,
    ctx: AgentContext,
    fills: Sequence[Sequence[int]],
    orders: Sequence[Sequence[int]],
    trades: Sequence[Sequence[int]],
    books: Sequence[int],
) -> None:
    """Call `on_fill` for each fill, `on_order` for each update of an order, `on_trade` for each trade, then `on_book` for each market whose best prices
    changed.
    """
    for fill in fills_of(fills, ctx.tickers):
        if (answer := agent.on_fill(ctx, fill)) is not None:  # type: ignore[func-returns-value]
            raise returned(answer, "on_fill")
    for update in updates_of(orders, ctx.tickers):
        if (answer := agent.on_order(ctx, update)) is not None:  # type: ignore[func-returns-value]
            raise returned(answer, "on_order")
    for trade in trades_of(trades, ctx.tickers):
        if (answer := agent.on_trade(ctx, trade)) is not None:  # type: ignore[func-returns-value]
            raise returned(answer, "on_trade")
    for code in books:
        if (answer := agent.on_book(ctx, ctx.tickers[code])) is not None:  # type: ignore[func-returns-value]
            raise returned(answer, "on_book")
