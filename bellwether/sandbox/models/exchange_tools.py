"""Trading of a model with the tools of an exchange: it queries the market, acts on its beliefs, and calls `done`.

Quotes, positions and resting orders are read from the results of earlier calls. The same request gives the same calls.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bellwether.sandbox.timestamps import parse_time

if TYPE_CHECKING:
    from bellwether.sandbox.models.request import ChatRequest
    from bellwether.sandbox.world.random_draws import RandomDraws

#: Contracts of an order, and maximum contracts on one side of a market.
CONTRACTS, MOST_HELD = 10.0, 50.0
#: Minimum difference between belief and price for an order, in dollars; about the error of the market's prices.
EDGE = 0.03
#: Minimum difference between belief and price for a resting bid, in dollars.
STALE = 0.02
#: Probability that the random trader does nothing.
IDLE = 0.5

_TIME = re.compile(r"^Time: *(\S+)", re.MULTILINE)
_PLACE, _CANCEL, _AMEND, _DONE = "place_order", "cancel_order", "amend_order", "done"
_LOOKS, _ACTS = ("get_markets", "get_positions", "get_resting_orders"), (_PLACE, _CANCEL, _AMEND)

Belief = Callable[[str], float]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Call of a tool, with the text of its arguments."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolQuote:
    """Best bid and ask of YES in dollars; None if missing."""

    ticker: str
    yes_bid: float | None
    yes_ask: float | None

    def bid(self, side: str) -> float | None:
        """Return the price for which a contract of a side can be sold; None if missing."""
        return self.yes_bid if side == "yes" else _other(self.yes_ask)

    def ask(self, side: str) -> float | None:
        """Return the price for which a contract of a side can be bought; None if missing."""
        return self.yes_ask if side == "yes" else _other(self.yes_bid)


@dataclass(frozen=True, slots=True)
class ToolOrder:
    """Resting order. price: of its side, in dollars. count: remaining contracts."""

    order_id: Any
    ticker: str
    side: str
    action: str
    price: float
    count: float


@dataclass(frozen=True, slots=True)
class ExchangeTools:
    """Content of a trading model's request: the offered tools, and the quotes, positions and orders in their results.

    tools: names. at: simulated instant; None if not stated. positions: contracts by (ticker, side). has_queried, has_acted: a tool that
    queries, or that changes orders, was called since the last user message.
    """

    tools: frozenset[str]
    at: int | None
    quotes: tuple[ToolQuote, ...]
    positions: Mapping[tuple[str, str], float]
    resting: tuple[ToolOrder, ...]
    has_queried: bool
    has_acted: bool

    def query(self) -> list[ToolUse]:
        """Build one call of each offered tool that only queries."""
        return [ToolUse(name, "{}") for name in _LOOKS if name in self.tools]

    def end_step(self) -> list[ToolUse]:
        """Build the call of the tool that ends the step, if the request offers that tool."""
        return [ToolUse(_DONE, "{}")] if _DONE in self.tools else []

    def order(self, ticker: str, side: str, price: float, *, tif: str, action: str = "buy", count: float = CONTRACTS) -> ToolUse:
        """Build the call that places a limit order."""
        size = {"type": "limit", "count": _plain(count), "price_cents": _cents(price), "time_in_force": tif}
        return ToolUse(_PLACE, json.dumps({"ticker": ticker, "side": side, "action": action, **size}, ensure_ascii=False))

    def cancel(self, order: ToolOrder) -> ToolUse:
        """Build the call that cancels a resting order."""
        return ToolUse(_CANCEL, json.dumps({"order_id": order.order_id}))

    def amend(self, order: ToolOrder, price: float) -> ToolUse:
        """Build the call that moves a resting order to another price."""
        return ToolUse(_AMEND, json.dumps({"order_id": order.order_id, "price_cents": _cents(price), "count": _plain(order.count)}))


def _other(price: float | None) -> float | None:
    return None if price is None else round(1 - price, 4)


def _cents(price: float) -> float:
    return round(100 * price, 4)


def _plain(count: float) -> float:
    """Return a whole number as an integer, and any other number unchanged."""
    return int(count) if count == int(count) else count


def read_exchange_tools(request: ChatRequest) -> ExchangeTools | None:
    """Parse the request of a trading model; None unless it offers tools that place and cancel orders."""
    if not {_PLACE, _CANCEL} <= request.tools:
        return None
    objects = list(_objects(request.tool_results))
    used = request.used_tools
    return ExchangeTools(
        tools=request.tools,
        at=_time(request.question),
        quotes=tuple({quote.ticker: quote for item in objects if (quote := _quote(item))}.values()),
        positions=_positions(objects),
        resting=tuple(order for item in objects if (order := _resting(item))),
        has_queried=not used.isdisjoint(_LOOKS),
        has_acted=not used.isdisjoint(_ACTS),
    )


def _time(text: str) -> int | None:
    stated = _TIME.search(text)
    try:
        return parse_time(stated[1]) if stated else None
    except ValueError:
        return None


def _objects(texts: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects in the lists of the tools' results."""
    for text in texts:
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            continue
        parts = whole.values() if isinstance(whole, dict) else [whole]
        for part in parts:
            yield from (item for item in part if isinstance(item, dict)) if isinstance(part, list) else ()


def _dollars(item: Mapping[str, Any], name: str) -> float | None:
    value = item.get(name)
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 100
    return round(value / 100, 4) if good and value is not None else None


def _quote(item: Mapping[str, Any]) -> ToolQuote | None:
    has_quote = "ticker" in item and {"yes_bid_cents", "yes_ask_cents"} & item.keys()
    if not has_quote or item.get("status", "open") not in ("open", "active"):
        return None
    return ToolQuote(str(item["ticker"]), _dollars(item, "yes_bid_cents"), _dollars(item, "yes_ask_cents"))


def _positions(objects: list[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Return the held contracts by (ticker, side) from the tools' results."""
    return {
        (str(item["ticker"]), side): float(item[f"{side}_contracts"])
        for item in objects
        for side in ("yes", "no")
        if "ticker" in item and isinstance(item.get(f"{side}_contracts"), int | float)
    }


def _resting(item: Mapping[str, Any]) -> ToolOrder | None:
    price, count = _dollars(item, "price_cents"), item.get("resting_contracts")
    if "order_id" not in item or price is None or not isinstance(count, int | float):
        return None
    ticker, side, action = (str(item.get(name, "")) for name in ("ticker", "side", "action"))
    return ToolOrder(item["order_id"], ticker, side, action, price, float(count))


Trader = Callable[[ExchangeTools, Belief, "RandomDraws"], list[ToolUse]]


def choose_trader(manner: str) -> Trader:
    """Return the trading function of a personality. manner: how its answers are, such as malformed or random."""
    return {"malformed": garble_calls, "random": trade_randomly}.get(manner, trade_beliefs)


def trade_beliefs(exchange: ExchangeTools, belief: Belief, draw: RandomDraws) -> list[ToolUse]:
    """Cancel overpriced bids and sell overpriced contracts; then buy the most underpriced contract or, without any, place one bid below the
    believed value.
    """
    if not exchange.has_queried:
        return exchange.query()
    if exchange.has_acted:
        return exchange.end_step()
    fair = {quote.ticker: {"yes": p, "no": 1 - p} for quote in exchange.quotes for p in (belief(quote.ticker),)}
    calls = [*_adjust_bids(exchange, fair), *_sales(exchange, fair), *(_purchase(exchange, fair) or _bid(exchange, fair))]
    return calls or exchange.end_step()


Fair = Mapping[str, Mapping[str, float]]


def _adjust_bids(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    """Cancel resting bids that are too expensive, and raise bids that are too low."""
    calls = []
    for order in exchange.resting:
        worth = fair.get(order.ticker, {}).get(order.side)
        if worth is None or order.action != "buy":
            continue
        if order.price > worth - STALE:
            calls.append(exchange.cancel(order))
        elif _AMEND in exchange.tools and order.price < (price := _floor(worth - EDGE)) - EDGE:
            calls.append(exchange.amend(order, price))
    return calls


def _sales(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    """Build the orders that sell contracts whose bid is above the believed value by a margin."""
    calls = []
    for quote in exchange.quotes:
        for side in ("yes", "no"):
            count, bid = exchange.positions.get((quote.ticker, side), 0.0), quote.bid(side)
            if count > 0 and bid is not None and bid - fair[quote.ticker][side] >= EDGE:
                calls.append(exchange.order(quote.ticker, side, bid, tif="ioc", action="sell", count=count))
    return calls


def _purchase(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    """Build the order that buys the contract whose ask is furthest below the believed value, if the margin suffices."""
    best, chosen = EDGE, None
    for quote in exchange.quotes:
        for side in ("yes", "no"):
            ask = quote.ask(side)
            if ask is not None and fair[quote.ticker][side] - ask >= best and _room(exchange, quote, side):
                best, chosen = fair[quote.ticker][side] - ask, (quote.ticker, side, ask)
    return [exchange.order(*chosen, tif="gtc")] if chosen else []


def _bid(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    """Bid somewhat below the believed value, where this exceeds the best bid most, unless a bid of the model rests there already."""
    working = {(order.ticker, order.side) for order in exchange.resting}
    most, chosen = 0.0, None
    for quote in exchange.quotes:
        for side in ("yes", "no"):
            bid, price = quote.bid(side), _floor(fair[quote.ticker][side] - EDGE)
            if bid is not None and price - bid > most and (quote.ticker, side) not in working and _room(exchange, quote, side):
                most, chosen = price - bid, (quote.ticker, side, price)
    return [exchange.order(*chosen, tif="post_only")] if chosen else []


def _room(exchange: ExchangeTools, quote: ToolQuote, side: str) -> bool:
    """Return True if another purchase stays within the maximum position."""
    return exchange.positions.get((quote.ticker, side), 0.0) + CONTRACTS <= MOST_HELD


def _floor(price: float) -> float:
    """Round a price in dollars down to whole cents."""
    return math.floor(round(100 * price, 6)) / 100


def trade_randomly(exchange: ExchangeTools, belief: Belief, draw: RandomDraws) -> list[ToolUse]:
    """Do nothing, cancel a resting order, or buy or sell one to three contracts of a random side."""
    if not exchange.has_queried:
        return exchange.end_step() if draw.chance(IDLE) else exchange.query()
    quoted = [quote for quote in exchange.quotes if quote.yes_bid is not None and quote.yes_ask is not None]
    if exchange.has_acted or not quoted:
        return exchange.end_step()
    if exchange.resting and draw.chance(0.5):
        return [exchange.cancel(draw.choose(exchange.resting))]
    quote, side, count = draw.choose(quoted), draw.choose(("yes", "no")), float(draw.integer(1, 3))
    ask, bid = quote.ask(side), quote.bid(side)
    assert ask is not None and bid is not None
    if draw.chance(0.5):
        return [exchange.order(quote.ticker, side, ask, tif="ioc", count=count)]
    if exchange.positions.get((quote.ticker, side), 0.0) >= count:
        return [exchange.order(quote.ticker, side, bid, tif="ioc", action="sell", count=count)]
    return [exchange.order(quote.ticker, side, bid, tif="gtc", count=count)]


def garble_calls(exchange: ExchangeTools, belief: Belief, draw: RandomDraws) -> list[ToolUse]:
    """Choose one or several tool calls, most of them invalid; with no call, the model answers with text instead."""
    if not exchange.has_queried and draw.chance(0.5):
        return exchange.query()
    if exchange.has_acted and draw.chance(0.5):
        return exchange.end_step()
    right = _example(exchange)
    name, text = _PLACE, right.arguments
    whole = json.loads(text)
    wrong: tuple[list[ToolUse], ...] = (
        [],
        [right],
        exchange.query(),
        [ToolUse(name, text[: len(text) // 2])],
        [ToolUse(name, f"```json\n{text}\n```")],
        [ToolUse(name, "")],
        [ToolUse(name, "null")],
        [ToolUse(name, json.dumps({"input": whole}))],
        [ToolUse(name, json.dumps({**whole, "price_cents": 150}))],
        [ToolUse(name, json.dumps({**whole, "price_cents": 45.55}))],
        [ToolUse(name, json.dumps({**whole, "price_cents": "NaN"}))],
        [ToolUse(name, json.dumps({**whole, "count": -10}))],
        [ToolUse(name, json.dumps({**whole, "count": True}))],
        [ToolUse(name, json.dumps({**whole, "count": 10**30}))],
        [ToolUse(name, json.dumps({**whole, "ticker": "NO-SUCH-MARKET"}))],
        [ToolUse(name, json.dumps({**whole, "side": "MAYBE", "leverage": 5}))],
        [ToolUse(_CANCEL, json.dumps({"order_id": 10**12}))],
        [ToolUse("get_weather", json.dumps({"city": "New York"})), right],
        [ToolUse("drop table; --", "{}")],
        [*exchange.end_step(), right],
    )
    return draw.choose(wrong)


def _example(exchange: ExchangeTools) -> ToolUse:
    """Build an order for one contract, at the ask of the first market, or at one cent of an unknown market."""
    quote = next((quote for quote in exchange.quotes if quote.yes_ask is not None), ToolQuote("KX-1", None, 0.01))
    assert quote.yes_ask is not None
    return exchange.order(quote.ticker, "yes", quote.yes_ask, tif="gtc", count=1.0)
