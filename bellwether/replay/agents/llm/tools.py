"""Tools of a model agent: pydantic models of their arguments, executed with an `AgentContext`.

Every result is text for the model, including a refusal of the exchange or an error. Prices are in cents, sizes in contracts, money in dollars.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AwareDatetime, Field, create_model
from pydantic.json_schema import SkipJsonSchema

from bellwether.errors import OrderError
from bellwether.models.tool_calls import ToolArguments, ToolError
from bellwether.replay.agents.arguments import EPOCH
from bellwether.replay.agents.limits import BudgetError
from bellwether.replay.agents.llm.trajectory import ToolCall
from bellwether.replay.engine.codes import Reason
from bellwether.replay.rules import PMB
from bellwether.replay.units import CENT, CONTRACT, MICROS
from bellwether.units import Lots, MicroDollars

if TYPE_CHECKING:
    from bellwether.replay.agents.context import AgentContext
    from bellwether.replay.agents.records import EpisodeInfo
    from bellwether.replay.agents.views import Market, Order

#: Maximum executed tool calls per answer.
MOST_CALLS = 50

Result = dict[str, Any]

Ticker = Annotated[str, Field(description="ticker of a market")]
OrderId = Annotated[int, Field(ge=0, le=10**15, description="id that place_order gave")]
#: Exact in the engine's units of $0.0001 and 0.01 contract.
Cents = Annotated[Decimal, Field(ge=Decimal("0.01"), le=Decimal("99.99"), decimal_places=2)]
Contracts = Annotated[Decimal, Field(ge=Decimal("0.01"), le=10_000_000, decimal_places=2)]


class Tool(ToolArguments, ABC):
    """Call of a tool: its arguments, and their execution. The docstring of a subclass is the description that the model reads."""

    @abstractmethod
    def _run(self, ctx: AgentContext) -> Result:
        """Execute the call. Raises `OrderError` for invalid arguments, `BudgetError` beyond the budget of the decision."""


class GetMarkets(Tool):
    """Best bids and asks of all markets, with sizes."""

    tool = "get_markets"

    def _run(self, ctx: AgentContext) -> Result:
        return {"markets": [_quote(market) for market in ctx.markets()]}


class GetOrderbook(Tool):
    """Order book of a market: [price in cents, contracts] per level, best first."""

    tool = "get_orderbook"
    ticker: Ticker
    depth: Annotated[int, Field(ge=1, le=100)] | SkipJsonSchema[None] = Field(None, description="levels per side; 10 when left out")

    def _run(self, ctx: AgentContext) -> Result:
        book = ctx.book(self.ticker, self.depth or 10)
        sides = {name: getattr(book, name) for name in ("yes_bids", "yes_asks", "no_bids", "no_asks")}
        return {"ticker": book.ticker} | {
            name: [[to_cents(price), to_contracts(lots)] for price, lots in levels] for name, levels in sides.items()
        }


class GetPositions(Tool):
    """Contracts that you hold."""

    tool = "get_positions"

    def _run(self, ctx: AgentContext) -> Result:
        positions = zip(ctx.tickers, ctx.positions.tolist(), strict=True)
        return {
            "positions": [
                {"ticker": ticker, "yes_contracts": to_contracts(yes), "no_contracts": to_contracts(no)}
                for ticker, (yes, no) in positions
                if yes or no
            ]
        }


class GetCash(Tool):
    """Cash, what of it is free for new orders, and equity, in dollars."""

    tool = "get_cash"

    def _run(self, ctx: AgentContext) -> Result:
        return {
            "cash_dollars": to_dollars(ctx.cash),
            "available_dollars": to_dollars(ctx.available),
            "equity_dollars": to_dollars(ctx.equity),
        }


class PlaceSimpleOrder(Tool):
    """Send an order. The result says at once what was filled."""

    tool = "place_order"
    ticker: Ticker
    side: Literal["yes", "no"] = Field(description="the contract")
    action: Literal["buy", "sell"] = Field(description="whether to buy or sell contracts of that side")
    type: Literal["limit", "market"] | SkipJsonSchema[None] = Field(None, description="a market order takes whatever price there is")
    count: Contracts = Field(description="contracts")
    price_cents: Cents | SkipJsonSchema[None] = Field(
        None, description="limit price in cents of that side, such as 45 or 45.5; not for a market order"
    )
    time_in_force: Literal["gtc", "ioc", "post_only"] | SkipJsonSchema[None] = Field(
        None,
        description="gtc (default of a limit order): an order that trades nothing at once stays in the book; ioc (default of a market order): "
        "nothing stays; post_only: refused when it would trade at once",
    )

    def _run(self, ctx: AgentContext) -> Result:
        return self._send(ctx, None)

    def _send(self, ctx: AgentContext, expires: datetime | None) -> Result:
        if (self.type == "market") != (self.price_cents is None):
            raise OrderError("a limit order needs price_cents, and a market order has none")
        price = None if self.price_cents is None else int(self.price_cents * CENT)
        lots = int(self.count * CONTRACT)
        send = ctx.buy if self.action == "buy" else ctx.sell
        return _order(send(self.ticker, self.side, lots, price, self.time_in_force, expires))


class PlaceOrder(PlaceSimpleOrder):
    """Send an order. The result says at once what was filled."""

    time_in_force: Literal["gtc", "ioc", "fok", "post_only", "gtd"] | SkipJsonSchema[None] = Field(  # type: ignore[assignment]
        None,
        description="gtc (default of a limit order): the rest stays in the book; ioc (default of a market order): the rest is dropped; "
        "fok: all or nothing; post_only: refused when it would trade at once; gtd: like gtc until expires_at",
    )
    expires_at: AwareDatetime | SkipJsonSchema[None] = Field(None, description="for gtd: ISO 8601 time with zone")

    def _run(self, ctx: AgentContext) -> Result:
        return self._send(ctx, self.expires_at)


class CancelOrder(Tool):
    """Take a resting order out of the book."""

    tool = "cancel_order"
    order_id: OrderId

    def _run(self, ctx: AgentContext) -> Result:
        cancelled = ctx.cancel(self.order_id)
        return {"order_id": self.order_id, "cancelled": cancelled} | ({} if cancelled else {"refused": "it is not in the book any more"})


class AmendOrder(Tool):
    """Change price or size of a resting order. Only a smaller size at the same price keeps its place in the queue."""

    tool = "amend_order"
    order_id: OrderId
    price_cents: Cents = Field(description="limit price in cents of that side, such as 45 or 45.5")
    count: Contracts = Field(description="contracts that are to remain")

    def _run(self, ctx: AgentContext) -> Result:
        refused = ctx.amend(self.order_id, int(self.price_cents * CENT), int(self.count * CONTRACT))
        return {"order_id": self.order_id, "refused": Reason[refused.upper()].text} if refused else _order(ctx.order(self.order_id))


class GetRestingOrders(Tool):
    """Your orders in the book."""

    tool = "get_resting_orders"
    ticker: Ticker | SkipJsonSchema[None] = None

    def _run(self, ctx: AgentContext) -> Result:
        return {"orders": [resting_order(order) for order in ctx.resting(self.ticker)]}


class GetExogenous(Tool):
    """Latest points of a series of outside data, as known now."""

    tool = "get_exogenous"
    name: str = Field(description="the series")
    last: Annotated[int, Field(ge=1, le=100)] | SkipJsonSchema[None] = Field(
        None, description="how many of the latest points; 1 when left out"
    )

    def _run(self, ctx: AgentContext) -> Result:
        ts, values = ctx.exogenous(self.name)
        first = -(self.last or 1)
        points = zip(ts[first:].tolist(), values[first:].tolist(), strict=True)
        return {
            "name": self.name,
            "points": [{"time": format_time(at), "value": value if math.isfinite(value) else None} for at, value in points],
        }


class Done(Tool):
    """End this step."""

    tool = "done"
    note: Annotated[str, Field(max_length=1000)] | SkipJsonSchema[None] = Field(None, description="why, in a sentence")

    def _run(self, ctx: AgentContext) -> Result:
        return {"ok": True}


class Toolbox:
    """Tools that a model can call in an episode under its rules.

    Attributes:
        definitions: Tools in the format of the OpenAI API.
    """

    def __init__(self, episode: EpisodeInfo) -> None:
        orders: list[type[Tool]] = [PlaceSimpleOrder, CancelOrder] if episode.rules == PMB else [PlaceOrder, CancelOrder, AmendOrder]
        tools: list[type[Tool]] = [GetMarkets, GetOrderbook, GetPositions, GetCash, *orders, GetRestingOrders]
        if episode.exogenous:
            names: Any = Literal.__getitem__(episode.exogenous)
            tools.append(create_model("GetExogenous", __base__=GetExogenous, name=(names, Field(description="the series"))))
        tools.append(Done)
        self._tools = {tool.tool: tool for tool in tools}
        self.definitions: list[dict[str, Any]] = [tool.definition() for tool in self._tools.values()]

    def execute_calls(self, ctx: AgentContext, calls: Sequence[ToolCall]) -> tuple[list[ToolCall], bool]:
        """Execute calls in order; calls after `done` are skipped. Returns the calls with their results, and True if `done` ended the step."""
        finished: list[ToolCall] = []
        done = False
        for call in calls:
            result: Result
            if done or len(finished) >= MOST_CALLS:
                why = f"{Done.tool}() was called before" if done else f"an answer may call {MOST_CALLS} tools"
                result, status = {"error": f"not carried out: {why}"}, "skipped"
            else:
                result, status = self._execute(ctx, call)
                done = call.name == Done.tool and status == "ok"
            finished.append(call.model_copy(update={"result": json.dumps(result), "status": status}))
        return finished, done

    def _execute(self, ctx: AgentContext, call: ToolCall) -> tuple[Result, str]:
        tool = self._tools.get(call.name)
        if tool is None:
            return {"error": f"there is no tool {call.name[:60]!r}; there are {', '.join(self._tools)}"}, "unknown"
        try:
            result = tool.parse(call.arguments)._run(ctx)
        except (OrderError, BudgetError, ToolError) as error:
            return {"error": f"{call.name}: {error}"}, "error"
        return result, "rejected" if result.get("status") == "rejected" or "refused" in result else "ok"


# --- results -----------------------------------------------------------------------------------------------------------


def _quote(market: Market) -> Result:
    return {
        "ticker": market.ticker,
        "status": market.status,
        "yes_bid_cents": to_cents(market.yes_bid),
        "yes_bid_contracts": to_contracts(market.yes_bid_lots),
        "yes_ask_cents": to_cents(market.yes_ask),
        "yes_ask_contracts": to_contracts(market.no_bid_lots),
        "no_bid_cents": to_cents(market.no_bid),
        "no_bid_contracts": to_contracts(market.no_bid_lots),
        "no_ask_cents": to_cents(market.no_ask),
        "no_ask_contracts": to_contracts(market.yes_bid_lots),
        "seconds_to_close": None if market.seconds_to_close is None else int(market.seconds_to_close),
    }


def _order(order: Order) -> Result:
    if order.id < 0:
        return {"order_id": None, "status": order.status, "reason": order.explanation}
    result: Result = {
        "order_id": order.id,
        "status": order.status,
        "filled_contracts": to_contracts(order.filled),
        "resting_contracts": to_contracts(order.remaining),
        "fees_dollars": to_dollars(order.fees),
    }
    if order.filled:
        result["average_price_cents"] = round(abs(order.cost) / (CENT * order.filled), 4)
    return result | ({"reason": order.explanation} if order.reason else {})


def resting_order(order: Order) -> Result:
    """Return a resting order as the fields, by name, that tool results and the state text contain."""
    return {
        "order_id": order.id,
        "ticker": order.ticker,
        "side": order.side,
        "action": order.action,
        "price_cents": to_cents(order.price),
        "resting_contracts": to_contracts(order.remaining),
        "filled_contracts": to_contracts(order.filled),
    }


# --- units -------------------------------------------------------------------------------------------------------------


def to_cents(price: int | None) -> float | None:
    """Convert a price ($0.0001) to cents: an int if it is whole, else a float."""
    return None if price is None else price // CENT if price % CENT == 0 else price / CENT


def to_contracts(lots: Lots) -> float:
    """Convert lots to contracts: an int if they are whole, else a float."""
    return lots // CONTRACT if lots % CONTRACT == 0 else lots / CONTRACT


def to_dollars(micros: MicroDollars) -> float:
    """Convert micro-dollars to the nearest float in dollars."""
    return micros / MICROS


def format_time(ns: int) -> str:
    """Format ns UTC as ISO 8601, truncated to microseconds."""
    text = (EPOCH + timedelta(microseconds=ns // 1000)).isoformat()
    return text.replace("+00:00", "Z")
