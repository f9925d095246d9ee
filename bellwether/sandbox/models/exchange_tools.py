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

#: Contracts of an order, and maximum contracts on one side of a market.
CONTRACTS, MOST_HELD = 10.0, 50.0
#: Minimum difference between belief and price for an order, in dollars; about the error of the market's prices.
EDGE = 0.03
#: Minimum difference between belief and price for a resting bid, in dollars.
STALE = 0.02

SIDES = ("yes", "no")
_TIME = re.compile(r"^Time: *(\S+)", re.MULTILINE)
_PLACE, _CANCEL, _DONE = "place_order", "cancel_order", "done"
_LOOKS, _ACTS = ("get_markets", "get_positions", "get_resting_orders"), (_PLACE, _CANCEL)

#: Returns the believed probability of YES in a quoted market.
Belief = Callable[["ToolQuote"], float]
#: Believed value of each contract by (ticker, side), in dollars.
Fair = Mapping[tuple[str, str], float]


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

    @property
    def middle(self) -> float:
        """Mean of bid and ask, with 0 and a dollar for missing ones."""
        return ((self.yes_bid or 0.0) + (1.0 if self.yes_ask is None else self.yes_ask)) / 2

    def bid(self, side: str) -> float | None:
        """Return the price for which a contract of a side can be sold; None if missing."""
        return self.yes_bid if side == "yes" else _other(self.yes_ask)

    def ask(self, side: str) -> float | None:
        """Return the price for which a contract of a side can be bought; None if missing."""
        return self.yes_ask if side == "yes" else _other(self.yes_bid)


def _other(price: float | None) -> float | None:
    return None if price is None else round(1 - price, 4)


@dataclass(frozen=True, slots=True)
class ToolBid:
    """Resting order that buys. price: of its side, in dollars."""

    order_id: Any
    ticker: str
    side: str
    price: float


@dataclass(frozen=True, slots=True)
class ExchangeTools:
    """Content of a trading model's request: the offered tools, and the quotes, positions and bids in their results.

    tools: names. at: simulated instant; None if not stated. positions: contracts by (ticker, side). has_queried, has_acted: a tool that
    queries, or that changes orders, was called since the last user message.
    """

    tools: frozenset[str]
    at: int | None
    quotes: tuple[ToolQuote, ...]
    positions: Mapping[tuple[str, str], float]
    bids: tuple[ToolBid, ...]
    has_queried: bool
    has_acted: bool

    def has_room(self, ticker: str, side: str) -> bool:
        """Return True if another purchase stays within the maximum position."""
        return self.positions.get((ticker, side), 0.0) + CONTRACTS <= MOST_HELD


def read_exchange_tools(request: ChatRequest) -> ExchangeTools | None:
    """Parse the request of a trading model; None unless it offers tools that place and cancel orders."""
    if not {_PLACE, _CANCEL} <= request.tools:
        return None
    objects = list(_objects(request.tool_results))
    used, stated = request.used_tools, _TIME.search(request.question)
    return ExchangeTools(
        tools=request.tools,
        at=parse_time(stated[1]) if stated else None,
        quotes=tuple({quote.ticker: quote for item in objects if (quote := _quote(item))}.values()),
        positions=_positions(objects),
        bids=tuple(bid for item in objects if (bid := _bid(item))),
        has_queried=not used.isdisjoint(_LOOKS),
        has_acted=not used.isdisjoint(_ACTS),
    )


def _objects(texts: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects in the lists of the tools' results."""
    for text in texts:
        try:
            whole = json.loads(text)
        except ValueError:
            continue
        for part in whole.values() if isinstance(whole, dict) else [whole]:
            yield from (item for item in part if isinstance(item, dict)) if isinstance(part, list) else ()


def _dollars(item: Mapping[str, Any], name: str) -> float | None:
    cents = item.get(name)
    return round(cents / 100, 4) if isinstance(cents, int | float) and 0 < cents < 100 else None


def _quote(item: Mapping[str, Any]) -> ToolQuote | None:
    if "ticker" not in item or "yes_bid_cents" not in item or item.get("status") not in ("open", "active"):
        return None
    return ToolQuote(str(item["ticker"]), _dollars(item, "yes_bid_cents"), _dollars(item, "yes_ask_cents"))


def _positions(objects: list[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Return the held contracts by (ticker, side) from the tools' results."""
    held = [item for item in objects if "ticker" in item and "yes_contracts" in item]
    return {(str(item["ticker"]), side): float(item[f"{side}_contracts"]) for item in held for side in SIDES}


def _bid(item: Mapping[str, Any]) -> ToolBid | None:
    price = _dollars(item, "price_cents")
    if "order_id" not in item or price is None or item.get("action") != "buy":
        return None
    return ToolBid(item["order_id"], str(item.get("ticker")), str(item.get("side")), price)


def _order(ticker: str, side: str, price: float, *, tif: str, action: str = "buy", count: float = CONTRACTS) -> ToolUse:
    """Build the call that places a limit order. price: in dollars."""
    whole = int(count) if count == int(count) else count
    terms = {"type": "limit", "count": whole, "price_cents": round(100 * price, 4), "time_in_force": tif}
    return ToolUse(_PLACE, json.dumps({"ticker": ticker, "side": side, "action": action, **terms}, ensure_ascii=False))


def trade_beliefs(exchange: ExchangeTools, belief: Belief) -> list[ToolUse]:
    """Cancel overpriced bids and sell overpriced contracts; then buy the most underpriced contract or, without any, place one bid below the
    believed value.
    """
    if not exchange.has_queried:
        return [ToolUse(name, "{}") for name in _LOOKS if name in exchange.tools]
    calls: list[ToolUse] = []
    if not exchange.has_acted:
        beliefs = {quote.ticker: belief(quote) for quote in exchange.quotes}
        fair = {(ticker, side): p if side == "yes" else 1 - p for ticker, p in beliefs.items() for side in SIDES}
        calls = [*_cancellations(exchange, fair), *_sales(exchange, fair), *(_purchase(exchange, fair) or _new_bid(exchange, fair))]
    return calls or ([ToolUse(_DONE, "{}")] if _DONE in exchange.tools else [])


def garble_order(exchange: ExchangeTools) -> list[ToolUse]:
    """Build an order with an invalid price."""
    return [_order(quote.ticker, "yes", 1.5, tif="gtc") for quote in exchange.quotes[:1]]


def _cancellations(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    """Cancel resting bids that are too expensive."""
    dear = [bid for bid in exchange.bids if bid.price > fair.get((bid.ticker, bid.side), 1.0) - STALE]
    return [ToolUse(_CANCEL, json.dumps({"order_id": bid.order_id})) for bid in dear]


def _sales(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    """Build the orders that sell contracts whose bid is above the believed value by a margin."""
    calls = []
    for quote in exchange.quotes:
        for side in SIDES:
            count, bid = exchange.positions.get((quote.ticker, side), 0.0), quote.bid(side)
            if count > 0 and bid is not None and bid - fair[quote.ticker, side] >= EDGE:
                calls.append(_order(quote.ticker, side, bid, tif="ioc", action="sell", count=count))
    return calls


def _purchase(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    """Build the order that buys the contract whose ask is furthest below the believed value, if the margin suffices."""
    best, chosen = EDGE, None
    for quote in exchange.quotes:
        for side in SIDES:
            ask = quote.ask(side)
            if ask is not None and fair[quote.ticker, side] - ask >= best and exchange.has_room(quote.ticker, side):
                best, chosen = fair[quote.ticker, side] - ask, (quote.ticker, side, ask)
    return [_order(*chosen, tif="gtc")] if chosen else []


def _new_bid(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    """Bid somewhat below the believed value, where this exceeds the best bid most, unless a bid of the model rests there already."""
    resting = {(bid.ticker, bid.side) for bid in exchange.bids}
    most, chosen = 0.0, None
    for quote in exchange.quotes:
        for side in SIDES:
            bid, price = quote.bid(side), math.floor(round(100 * (fair[quote.ticker, side] - EDGE), 6)) / 100
            is_free = (quote.ticker, side) not in resting and exchange.has_room(quote.ticker, side)
            if bid is not None and price - bid > most and is_free:
                most, chosen = price - bid, (quote.ticker, side, price)
    return [_order(*chosen, tif="post_only")] if chosen else []
