"""Trading of a model with exchange tools: it queries its view, acts on its beliefs, and calls `done`.

A request offers these tools if its tools place and cancel orders. Quotes, positions and resting orders, with prices in cents, are read from
the tools' JSON. The same request gives the same calls.
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

#: Contracts of an order, and the maximum position on one side of a market.
CONTRACTS, MOST_HELD = 10.0, 50.0
#: A price must be off by so much (dollars) before it is worth acting on: about the error of the market's prices.
EDGE = 0.03
#: A resting bid is taken out when it is worth less than this margin (dollars) more than it pays.
STALE = 0.02
#: How often the random trader does nothing.
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
    """Best prices of a market in dollars; None if missing."""

    ticker: str
    yes_bid: float | None
    yes_ask: float | None

    def bid(self, side: str) -> float | None:
        """Return the price at which a contract of a side can be sold."""
        return self.yes_bid if side == "yes" else _other(self.yes_ask)

    def ask(self, side: str) -> float | None:
        """Return the price at which a contract of a side can be bought."""
        return self.yes_ask if side == "yes" else _other(self.yes_bid)


@dataclass(frozen=True, slots=True)
class ToolOrder:
    """Resting order: its price in dollars of its side, and its remaining contracts."""

    order_id: Any
    ticker: str
    side: str
    action: str
    price: float
    count: float


@dataclass(frozen=True, slots=True)
class ExchangeTools:
    """View of a trader: names of its tools, the simulated time (microseconds; None if not stated), and the tools' results.

    held: contracts by (ticker, side). looked, acted: whether tools of these kinds were called since the last user message.
    """

    tools: frozenset[str]
    at: int | None
    quotes: tuple[ToolQuote, ...]
    held: Mapping[tuple[str, str], float]
    resting: tuple[ToolOrder, ...]
    looked: bool
    acted: bool

    def look(self) -> list[ToolUse]:
        """Call all tools that query the view."""
        return [ToolUse(name, "{}") for name in _LOOKS if name in self.tools]

    def done(self) -> list[ToolUse]:
        """Call the tool that ends the step."""
        return [ToolUse(_DONE, "{}")] if _DONE in self.tools else []

    def order(self, ticker: str, side: str, price: float, *, tif: str, action: str = "buy", count: float = CONTRACTS) -> ToolUse:
        """Place a limit order."""
        size = {"type": "limit", "count": _plain(count), "price_cents": _cents(price), "time_in_force": tif}
        return ToolUse(_PLACE, json.dumps({"ticker": ticker, "side": side, "action": action, **size}, ensure_ascii=False))

    def cancel(self, order: ToolOrder) -> ToolUse:
        """Cancel a resting order."""
        return ToolUse(_CANCEL, json.dumps({"order_id": order.order_id}))

    def amend(self, order: ToolOrder, price: float) -> ToolUse:
        """Move a resting order to another price."""
        return ToolUse(_AMEND, json.dumps({"order_id": order.order_id, "price_cents": _cents(price), "count": _plain(order.count)}))


def _other(price: float | None) -> float | None:
    return None if price is None else round(1 - price, 4)


def _cents(price: float) -> float:
    return round(100 * price, 4)


def _plain(count: float) -> float:
    """Format a count, without decimals if it is whole."""
    return int(count) if count == int(count) else count


# --- reading -----------------------------------------------------------------------------------------------------------


def read_exchange_tools(request: ChatRequest) -> ExchangeTools | None:
    """Read the view of a trader from a request; None unless its tools both place and cancel orders."""
    if not {_PLACE, _CANCEL} <= request.tools:
        return None
    objects = list(_objects(request.answered))
    used = request.used_tools
    return ExchangeTools(
        tools=request.tools,
        at=_time(request.question),
        quotes=tuple({quote.ticker: quote for one in objects if (quote := _quote(one))}.values()),
        held=_held(objects),
        resting=tuple(order for one in objects if (order := _resting(one))),
        looked=not used.isdisjoint(_LOOKS),
        acted=not used.isdisjoint(_ACTS),
    )


def _time(text: str) -> int | None:
    stated = _TIME.search(text)
    try:
        return parse_time(stated[1]) if stated else None
    except ValueError:
        return None


def _objects(texts: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Yield every JSON object in the tools' results since the last user message, at most one list deep."""
    for text in texts:
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            continue
        parts = whole.values() if isinstance(whole, dict) else [whole]
        for part in parts:
            yield from (one for one in part if isinstance(one, dict)) if isinstance(part, list) else ()


def _dollars(found: Mapping[str, Any], *names: str) -> float | None:
    value = next((found[name] for name in names if name in found), None)
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 100
    return round(value / 100, 4) if good and value is not None else None


def _quote(found: Mapping[str, Any]) -> ToolQuote | None:
    if (
        "ticker" not in found
        or not {"yes_bid_cents", "yes_ask_cents"} & found.keys()
        or found.get("status", "open") not in ("open", "active")
    ):
        return None
    return ToolQuote(str(found["ticker"]), _dollars(found, "yes_bid_cents"), _dollars(found, "yes_ask_cents"))


def _held(objects: list[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    return {
        (str(one["ticker"]), side): float(one[f"{side}_contracts"])
        for one in objects
        for side in ("yes", "no")
        if "ticker" in one and isinstance(one.get(f"{side}_contracts"), int | float)
    }


def _resting(found: Mapping[str, Any]) -> ToolOrder | None:
    price, count = _dollars(found, "price_cents"), found.get("resting_contracts")
    if "order_id" not in found or price is None or not isinstance(count, int | float):
        return None
    ticker, side, action = (str(found.get(name, "")) for name in ("ticker", "side", "action"))
    return ToolOrder(found["order_id"], ticker, side, action, price, float(count))


# --- traders -----------------------------------------------------------------------------------------------------------

Trader = Callable[[ExchangeTools, Belief, "RandomDraws"], list[ToolUse]]


def choose_trader(manner: str) -> Trader:
    """Return the trading function of a personality with this manner."""
    return {"malformed": garble_calls, "random": trade_randomly}.get(manner, trade_beliefs)


def trade_beliefs(exchange: ExchangeTools, belief: Belief, draw: RandomDraws) -> list[ToolUse]:
    """Cancel overpriced bids, sell overpriced contracts, buy the largest edge, or else bid inside the widest spread."""
    if not exchange.looked:
        return exchange.look()
    if exchange.acted:
        return exchange.done()
    fair = {quote.ticker: {"yes": p, "no": 1 - p} for quote in exchange.quotes for p in (belief(quote.ticker),)}
    calls = [*_tidied(exchange, fair), *_sales(exchange, fair), *(_purchase(exchange, fair) or _bid(exchange, fair))]
    return calls or exchange.done()


Fair = Mapping[str, Mapping[str, float]]


def _tidied(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    """Cancel resting bids that are now too expensive, and raise those that the market has moved away from."""
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
    calls = []
    for quote in exchange.quotes:
        for side in ("yes", "no"):
            count, bid = exchange.held.get((quote.ticker, side), 0.0), quote.bid(side)
            if count > 0 and bid is not None and bid - fair[quote.ticker][side] >= EDGE:
                calls.append(exchange.order(quote.ticker, side, bid, tif="ioc", action="sell", count=count))
    return calls


def _purchase(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    best, chosen = EDGE, None
    for quote in exchange.quotes:
        for side in ("yes", "no"):
            ask = quote.ask(side)
            if ask is not None and fair[quote.ticker][side] - ask >= best and _room(exchange, quote, side):
                best, chosen = fair[quote.ticker][side] - ask, (quote.ticker, side, ask)
    return [exchange.order(*chosen, tif="gtc")] if chosen else []


def _bid(exchange: ExchangeTools, fair: Fair) -> list[ToolUse]:
    """Place a bid inside the spread, below the value of a contract, if the trader has no resting one there."""
    working = {(order.ticker, order.side) for order in exchange.resting}
    most, chosen = 0.0, None
    for quote in exchange.quotes:
        for side in ("yes", "no"):
            bid, price = quote.bid(side), _floor(fair[quote.ticker][side] - EDGE)
            if bid is not None and price - bid > most and (quote.ticker, side) not in working and _room(exchange, quote, side):
                most, chosen = price - bid, (quote.ticker, side, price)
    return [exchange.order(*chosen, tif="post_only")] if chosen else []


def _room(exchange: ExchangeTools, quote: ToolQuote, side: str) -> bool:
    return exchange.held.get((quote.ticker, side), 0.0) + CONTRACTS <= MOST_HELD


def _floor(price: float) -> float:
    """Round a price in dollars down to whole cents."""
    return math.floor(round(100 * price, 6)) / 100


def trade_randomly(exchange: ExchangeTools, belief: Belief, draw: RandomDraws) -> list[ToolUse]:
    """Do nothing often; else buy one to three contracts of a random side at or below the ask, or cancel a resting order."""
    if not exchange.looked:
        return exchange.done() if draw.chance(IDLE) else exchange.look()
    quoted = [quote for quote in exchange.quotes if quote.yes_bid is not None and quote.yes_ask is not None]
    if exchange.acted or not quoted:
        return exchange.done()
    if exchange.resting and draw.chance(0.5):
        return [exchange.cancel(draw.choose(exchange.resting))]
    quote, side, count = draw.choose(quoted), draw.choose(("yes", "no")), float(draw.integer(1, 3))
    ask, bid = quote.ask(side), quote.bid(side)
    assert ask is not None and bid is not None
    if draw.chance(0.5):
        return [exchange.order(quote.ticker, side, ask, tif="ioc", count=count)]
    if exchange.held.get((quote.ticker, side), 0.0) >= count:
        return [exchange.order(quote.ticker, side, bid, tif="ioc", action="sell", count=count)]
    return [exchange.order(quote.ticker, side, bid, tif="gtc", count=count)]


def garble_calls(exchange: ExchangeTools, belief: Belief, draw: RandomDraws) -> list[ToolUse]:
    """Return wrong calls mixed with correct ones; no call at all means text instead."""
    if not exchange.looked and draw.chance(0.5):
        return exchange.look()
    if exchange.acted and draw.chance(0.5):
        return exchange.done()
    right = _example(exchange)
    name, text = _PLACE, right.arguments
    whole = json.loads(text)
    wrong: tuple[list[ToolUse], ...] = (
        [],
        [right],
        exchange.look(),
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
        [*exchange.done(), right],
    )
    return draw.choose(wrong)


def _example(exchange: ExchangeTools) -> ToolUse:
    """Return a possibly valid order: one contract at the first market's ask, or at one cent."""
    quote = next((quote for quote in exchange.quotes if quote.yes_ask is not None), ToolQuote("KX-1", None, 0.01))
    assert quote.yes_ask is not None
    return exchange.order(quote.ticker, "yes", quote.yes_ask, tif="gtc", count=1.0)
