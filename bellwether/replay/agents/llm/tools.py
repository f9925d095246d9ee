"""Tools of a model agent: JSON schemas, and their execution with an `AgentContext`.

Every result of a call is text for the model, also a refusal of the exchange or an error. Prices are in cents, sizes in contracts, money in
dollars.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bellwether.replay.agents.limits import BudgetError, OrderError
from bellwether.replay.agents.llm import arguments as args
from bellwether.replay.agents.llm.arguments import ArgumentError, Field, build_schema, format_value, read_arguments
from bellwether.replay.agents.llm.steps import CalledTool, ToolCallStatus
from bellwether.replay.engine.codes import Reason
from bellwether.replay.units import CENT, CONTRACT, MICROS, MILL
from bellwether.units import Lots, MicroDollars

if TYPE_CHECKING:
    from bellwether.replay.agents.context import AgentContext
    from bellwether.replay.agents.records import EpisodeInfo
    from bellwether.replay.agents.views import Market, Order

#: Maximum executed tool calls per answer.
MOST_CALLS = 50
DEEPEST, MOST_POINTS = 100, 100
DONE = "done"
TIFS = ("gtc", "ioc", "fok", "post_only", "gtd")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Values = Mapping[str, Any]
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """Tool of a model: name, description for the model, function and arguments."""

    name: str
    description: str
    run: Callable[[AgentContext, Values], Result]
    fields: Mapping[str, Field]

    def definition(self) -> dict[str, Any]:
        """Return the tool in the format of the OpenAI API."""
        function = {"name": self.name, "description": self.description, "parameters": build_schema(self.fields)}
        return {"type": "function", "function": function}


class Toolbox:
    """Tools that a model can call in an episode.

    Args:
        episode: Description of the episode.
        step: Smallest price step of the model's orders, $0.0001.

    Attributes:
        definitions: Tools in the format of the OpenAI API.
    """

    def __init__(self, episode: EpisodeInfo, step: int = MILL) -> None:
        self._tools = {tool.name: tool for tool in _tools(episode, step)}
        self.definitions: list[dict[str, Any]] = [tool.definition() for tool in self._tools.values()]

    def execute_calls(self, ctx: AgentContext, calls: Sequence[CalledTool]) -> tuple[tuple[CalledTool, ...], bool]:
        """Execute calls in order; calls after `done` are skipped. Returns the calls with their results, and True if `done` ended the step."""
        finished: list[CalledTool] = []
        done = False
        for call in calls:
            result: Result
            status: ToolCallStatus
            if done or len(finished) >= MOST_CALLS:
                why = f"{DONE}() was called before" if done else f"an answer may call {MOST_CALLS} tools"
                result, status = {"error": f"not carried out: {why}"}, "skipped"
            else:
                result, status = self._execute(ctx, call)
                done = call.name == DONE and status == "ok"
            finished.append(CalledTool(call.id, call.name, call.arguments, json.dumps(result), status))
        return tuple(finished), done

    def _execute(self, ctx: AgentContext, call: CalledTool) -> tuple[Result, ToolCallStatus]:
        tool = self._tools.get(call.name)
        if tool is None:
            return {"error": f"there is no tool {format_value(call.name)}; there are {', '.join(self._tools)}"}, "unknown"
        try:
            result = tool.run(ctx, read_arguments(call.arguments, tool.fields))
        except (ArgumentError, OrderError, BudgetError) as error:
            return {"error": f"{call.name}: {error}"}, "error"
        return result, "rejected" if result.get("status") == "rejected" or "refused" in result else "ok"


def _tools(episode: EpisodeInfo, step: int) -> list[Tool]:
    ticker = _ticker(episode.tickers)
    order_id = args.integer_field(0, 10**15, "id that place_order gave")
    price, count = args.price_field("limit price in cents of that side, such as 45 or 45.5", step), args.count_field("contracts")
    order = {
        "ticker": ticker,
        "side": args.choice_field(("yes", "no"), "the contract"),
        "action": args.choice_field(("buy", "sell"), "whether to buy or sell contracts of that side"),
        "type": args.choice_field(("limit", "market"), "a market order takes whatever price there is", required=False),
        "count": count,
        "price_cents": args.price_field(
            "limit price in cents of that side, such as 45 or 45.5; not for a market order", step, required=False
        ),
        "time_in_force": args.choice_field(
            TIFS,
            "gtc (default of a limit order): the rest stays in the book; ioc (default of a market order): the rest is dropped; "
            "fok: all or nothing; post_only: refused when it would trade at once; gtd: like gtc until expires_at",
            required=False,
        ),
        "expires_at": args.time_field("for gtd: ISO 8601 time with zone", required=False),
    }
    tools = [
        Tool("get_markets", "Best bids and asks of all markets, with sizes.", _markets, {}),
        Tool(
            "get_orderbook",
            "Order book of a market: [price in cents, contracts] per level, best first.",
            _orderbook,
            {"ticker": ticker, "depth": args.integer_field(1, DEEPEST, "levels per side; 10 when left out", required=False)},
        ),
        Tool("get_positions", "Contracts that you hold.", _positions, {}),
        Tool("get_cash", "Cash, what of it is free for new orders, and equity, in dollars.", _cash, {}),
        Tool("place_order", "Send an order. The result says at once what was filled.", _place, order),
        Tool("cancel_order", "Take a resting order out of the book.", _cancel, {"order_id": order_id}),
        Tool(
            "amend_order",
            "Change price or size of a resting order. Only a smaller size at the same price keeps its place in the queue.",
            _amend,
            {"order_id": order_id, "price_cents": price, "count": args.count_field("contracts that are to remain")},
        ),
        Tool("get_resting_orders", "Your orders in the book.", _resting, {"ticker": _ticker(episode.tickers, required=False)}),
    ]
    if episode.exogenous:
        series = {
            "name": args.choice_field(episode.exogenous, "the series"),
            "last": args.integer_field(1, MOST_POINTS, "how many of the latest points; 1 when left out", required=False),
        }
        tools.append(Tool("get_exogenous", "Latest points of a series of outside data, as known now.", _exogenous, series))
    note = {"note": args.text_field("why, in a sentence", required=False)}
    return [*tools, Tool(DONE, "End this step.", lambda ctx, values: {"ok": True}, note)]


def _ticker(tickers: Sequence[str], *, required: bool = True) -> Field:
    names = frozenset(tickers)

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ArgumentError(f"there is no such market; there are {', '.join(tickers[:10])}{', …' if len(tickers) > 10 else ''}")
        return value

    return Field({"type": "string", "description": "ticker of a market"}, read, required)


# --- functions of the tools --------------------------------------------------------------------------------------------


def _markets(ctx: AgentContext, values: Values) -> Result:
    return {"markets": [_quote(market) for market in ctx.markets()]}


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


def _orderbook(ctx: AgentContext, values: Values) -> Result:
    book = ctx.book(values["ticker"], values.get("depth", 10))
    sides = {name: getattr(book, name) for name in ("yes_bids", "yes_asks", "no_bids", "no_asks")}
    return {"ticker": book.ticker} | {
        name: [[to_cents(price), to_contracts(lots)] for price, lots in levels] for name, levels in sides.items()
    }


def _positions(ctx: AgentContext, values: Values) -> Result:
    positions = zip(ctx.tickers, ctx.positions.tolist(), strict=True)
    return {
        "positions": [
            {"ticker": ticker, "yes_contracts": to_contracts(yes), "no_contracts": to_contracts(no)}
            for ticker, (yes, no) in positions
            if yes or no
        ]
    }


def _cash(ctx: AgentContext, values: Values) -> Result:
    return {"cash_dollars": to_dollars(ctx.cash), "available_dollars": to_dollars(ctx.available), "equity_dollars": to_dollars(ctx.equity)}


def _place(ctx: AgentContext, values: Values) -> Result:
    kind, tif = values.get("type", "limit"), values.get("time_in_force")
    price, expires = values.get("price_cents"), values.get("expires_at")
    if kind == "limit" and price is None:
        raise ArgumentError("a limit order needs price_cents")
    if kind == "market" and (price is not None or tif not in (None, "ioc", "fok")):
        raise ArgumentError("a market order has no price_cents, and its time_in_force is ioc or fok")
    if (tif == "gtd") != (expires is not None):
        raise ArgumentError("gtd, and no other time_in_force, needs expires_at")
    return _order(ctx.place(values["ticker"], values["side"], values["action"], price, values["count"], tif, expires))


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


def _cancel(ctx: AgentContext, values: Values) -> Result:
    if ctx.cancel(values["order_id"]):
        return {"order_id": values["order_id"], "cancelled": True}
    return {"order_id": values["order_id"], "cancelled": False, "refused": "it is not in the book any more"}


def _amend(ctx: AgentContext, values: Values) -> Result:
    number = values["order_id"]
    refused = ctx.amend(number, values["price_cents"], values["count"])
    return {"order_id": number, "refused": Reason[refused.upper()].text} if refused else _order(ctx.order(number))


def _resting(ctx: AgentContext, values: Values) -> Result:
    return {"orders": [resting_order(order) for order in ctx.resting(values.get("ticker"))]}


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


def _exogenous(ctx: AgentContext, values: Values) -> Result:
    ts, points = ctx.exogenous(values["name"])
    last = values.get("last", 1)
    latest = zip(ts[-last:].tolist(), points[-last:].tolist(), strict=True)
    return {
        "name": values["name"],
        "points": [{"time": format_time(at), "value": value if math.isfinite(value) else None} for at, value in latest],
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
    text = (_EPOCH + timedelta(microseconds=ns // 1000)).isoformat()
    return text.replace("+00:00", "Z")
