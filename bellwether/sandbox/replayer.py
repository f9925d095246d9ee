"""Replay of the shipped captures: Kalshi's WebSocket and REST routes of the captured markets, with the captured times on the sandbox's clock.

All captured events begin when the sandbox starts. The WebSocket accepts any key.
"""

from __future__ import annotations

import asyncio
import gzip
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute
from starlette.types import Scope
from starlette.websockets import WebSocket, WebSocketDisconnect

from bellwether.sandbox.params import respond
from bellwether.sandbox.timestamps import SECOND, Clock, format_time, parse_time, to_instant
from bellwether.venues.kalshi.stream.signing import KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER

#: Captures of one event each, as `bellwether episode build` reads them.
CAPTURES = Path(__file__).with_name("captures")
#: Path of Kalshi's WebSocket, as on the venue.
KALSHI_STREAM_PATH = "/trade-api/ws/v2"
#: Seconds between two looks at the clock.
POLL_SECONDS = 0.02
BOOKS, LIFECYCLE = "orderbook_delta", "market_lifecycle_v2"
_CHANNELS = {"orderbook_snapshot": BOOKS, BOOKS: BOOKS, "trade": "trade", LIFECYCLE: LIFECYCLE}
_MILLISECOND = 1_000
#: Messages of error codes.
ERRORS = {5: "Unknown command", 7: "Unknown subscription ID", 8: "Unknown channel name", 11: "Invalid parameter"}
_STATUSES = {"created": "initialized", "activated": "active", "deactivated": "closed", "determined": "determined", "settled": "finalized"}

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a channel. at: instant in microseconds. lost: number of messages of the channel that the capture lacks before this one."""

    at: int
    channel: str
    kind: str
    ticker: str
    body: Body
    lost: int = 0

    @property
    def event(self) -> str:
        """Event of the market."""
        return self.ticker.rpartition("-")[0]


@cache
def load_events() -> tuple[tuple[Message, ...], ...]:
    """Load the messages of each captured event, in order. An event begins with its first book."""
    return tuple(tuple(_read_messages(path)) for path in sorted(CAPTURES.glob("*.json.gz")))


def _read_messages(path: Path) -> Iterator[Message]:
    numbers: dict[int, int] = {}
    for item in orjson.loads(gzip.decompress(path.read_bytes()))["frames"]:
        frame = item["frame"]
        kind, body = frame["type"], frame["msg"]
        if kind in _CHANNELS:
            lost = frame["seq"] - numbers.get(frame["sid"], 0) - 1
            numbers[frame["sid"]] = frame["seq"]
            yield Message(item["received_ms"] * _MILLISECOND, _CHANNELS[kind], kind, body["market_ticker"], body, lost)


@cache
def captured_results() -> dict[str, str]:
    """Return the result of each captured market, yes or no, by ticker."""
    messages = (message for event in load_events() for message in event)
    return {message.ticker: message.body["result"] for message in messages if message.body.get("event_type") == "determined"}


def _shift_time(name: str, value: Any, shift: int) -> Any:
    """Shift a time of a message: seconds or milliseconds since 1970, or text. shift: whole seconds, in microseconds."""
    if name == "ts_ms":
        return value + shift // _MILLISECOND
    if name == "ts" and isinstance(value, str):
        return format_time(parse_time(value) + shift)
    return value + shift // SECOND if name.endswith("ts") else value


class Replay:
    """The capture's messages on the sandbox's clock. start: instant at which every event begins."""

    def __init__(self, start: int) -> None:
        self.messages: list[Message] = []
        for event in load_events():
            begin = next(message.at for message in event if message.channel == BOOKS)
            shift = (start - begin) // SECOND * SECOND
            for message in event:
                body = {name: _shift_time(name, value, shift) for name, value in message.body.items()}
                self.messages.append(replace(message, at=message.at + shift, body=body))
        self.messages.sort(key=lambda message: message.at)
        self.tickers = frozenset(message.ticker for message in self.messages)

    def until(self, now: int) -> int:
        """Return the number of messages up to an instant."""
        return bisect_right(self.messages, now, key=lambda message: message.at)

    def past(self, ticker: str, now: int) -> Iterator[Message]:
        """Yield the messages of a market up to an instant."""
        return (message for message in self.messages[: self.until(now)] if message.ticker == ticker)

    def book(self, ticker: str, now: int) -> Body:
        """Return the body of a message with the complete book of a market."""
        sides: dict[str, dict[str, Decimal]] = {"yes": {}, "no": {}}
        body: Body = {"market_ticker": ticker}
        for message in self.past(ticker, now):
            body |= {name: message.body[name] for name in ("market_id", "clock") if name in message.body}
            if message.kind == "orderbook_snapshot":
                sides = {side: {price: Decimal(size) for price, size in message.body.get(f"{side}_dollars_fp", ())} for side in sides}
            elif message.kind == BOOKS:
                levels, price = sides[message.body["side"]], message.body["price_dollars"]
                levels[price] = levels.get(price, Decimal(0)) + Decimal(message.body["delta_fp"])
        filled = {side: [[price, str(size)] for price, size in sorted(levels.items()) if size] for side, levels in sides.items()}
        return body | {f"{side}_dollars_fp": levels for side, levels in filled.items() if levels}

    def market(self, ticker: str, now: int) -> Body:
        """Return a market as listed."""
        market: Body = {"ticker": ticker, "event_ticker": ticker.rpartition("-")[0], "result": ""}
        for message in self.past(ticker, now):
            body = message.body
            if message.channel == LIFECYCLE:
                market["status"] = _STATUSES.get(body["event_type"], market.get("status"))
                market |= {"result": body["result"]} if "result" in body else {}
                market |= {f"{name}_time": format_time(body[f"{name}_ts"] * SECOND) for name in ("open", "close") if f"{name}_ts" in body}
                market |= {name: body["additional_metadata"][name] for name in ("title", "yes_sub_title") if "additional_metadata" in body}
        return market


class _CapturedRoute(Route):
    """Route for requests about captured markets; the generated world answers all others at the same path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path, and an event or market of the capture in the query."""
        query = QueryParams(scope.get("query_string", b"").decode())
        return super().matches(scope) if _requested_events(query) & _captured_events() else (Match.NONE, {})


def _requested_events(query: QueryParams) -> set[str]:
    """Return the events that a query names, or of whose markets it names some."""
    return {query.get("event_ticker", ""), *(ticker.rpartition("-")[0] for ticker in _requested_tickers(query))}


def _requested_tickers(query: QueryParams) -> list[str]:
    return [ticker for name in ("ticker", "tickers") for text in query.getlist(name) for ticker in text.split(",")]


@cache
def _captured_events() -> frozenset[str]:
    return frozenset(ticker.rpartition("-")[0] for ticker in captured_results())


class Replayer:
    """Routes of the capture: the WebSocket at `/trade-api/ws/v2`, and markets, order books and trades of REST."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = to_instant(clock())

    @cached_property
    def _replay(self) -> Replay:
        return Replay(self._start)

    def stream_routes(self) -> list[BaseRoute]:
        """Return the route of the WebSocket with its complete path, as a mount would require a trailing slash."""
        return [WebSocketRoute(KALSHI_STREAM_PATH, self._serve)]

    def rest_routes(self) -> list[BaseRoute]:
        """Return the routes of REST, relative to the base URL. They must precede those of the generated world."""
        handlers = {"/markets": self._markets, "/markets/orderbooks": self._orderbooks, "/markets/trades": self._trades}
        return [_CapturedRoute(path, handler, methods=["GET"]) for path, handler in handlers.items()]

    async def _serve(self, websocket: WebSocket) -> None:
        if not all(name in websocket.headers for name in (KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER)):
            await websocket.send_denial_response(Response(b'{"error":{"code":"authentication_error"}}', 401, media_type="application/json"))
            return
        await websocket.accept()
        with suppress(WebSocketDisconnect):
            await _Connection(websocket, self._replay, self._clock).run()

    async def _markets(self, request: Request) -> Response:
        event, tickers, now = (
            request.query_params.get("event_ticker"),
            _requested_tickers(request.query_params),
            to_instant(self._clock()),
        )
        chosen = [ticker for ticker in sorted(self._replay.tickers) if ticker in tickers or ticker.rpartition("-")[0] == event]
        return respond({"cursor": "", "markets": [self._replay.market(ticker, now) for ticker in chosen]})

    async def _orderbooks(self, request: Request) -> Response:
        now = to_instant(self._clock())
        books = [self._replay.book(ticker, now) for ticker in _requested_tickers(request.query_params) if ticker in self._replay.tickers]
        levels = [{f"{side}_dollars": book.get(f"{side}_dollars_fp", []) for side in ("yes", "no")} for book in books]
        listed = [{"ticker": book["market_ticker"], "orderbook_fp": sides} for book, sides in zip(books, levels, strict=True)]
        return respond({"orderbooks": listed})

    async def _trades(self, request: Request) -> Response:
        """Serve the trades of a market since `min_ts`, newest first, in one page."""
        since = int(request.query_params.get("min_ts", 0)) * 1_000
        past = self._replay.past(request.query_params["ticker"], to_instant(self._clock()))
        bodies = [message.body for message in past if message.channel == "trade" and message.body["ts_ms"] >= since]
        trades = [{**body, "ticker": body["market_ticker"], "created_time": format_time(body["ts_ms"] * _MILLISECOND)} for body in bodies]
        for trade in trades:
            del trade["market_ticker"], trade["ts"], trade["ts_ms"]
        return respond({"cursor": "", "trades": trades[::-1]})


class CommandError(Exception):
    """Invalid command, which is answered with an error message."""

    def __init__(self, code: int) -> None:
        super().__init__(ERRORS[code])
        self.code = code


@dataclass(slots=True)
class _Subscription:
    """Subscription to one channel. tickers: None means all markets. numbers: sequence numbers of its messages."""

    sid: int
    channel: str
    tickers: frozenset[str] | None
    yes_prices: bool
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def skip_lost(self, message: Message) -> None:
        """Skip the sequence numbers of the messages of its events that the capture lacks before this one."""
        if self.tickers is None or any(ticker.startswith(f"{message.event}-") for ticker in self.tickers):
            for _ in range(message.lost):
                next(self.numbers)

    def frame(self, kind: str, body: Body) -> Body:
        """Wrap a message with the next sequence number; NO prices are converted to prices of YES if the client has requested them."""
        if self.yes_prices and body.get("side") == "no":
            body = body | {"price_dollars": _complement(body["price_dollars"])}
        if self.yes_prices and "no_dollars_fp" in body:
            body = body | {"no_dollars_fp": [[_complement(price), size] for price, size in body["no_dollars_fp"]]}
        return {"type": kind, "sid": self.sid, "seq": next(self.numbers), "msg": body}


def _complement(price: str) -> str:
    return str(1 - Decimal(price))


class _Connection:
    """Connection of one client. Before it executes a command, it sends all messages that are due by the clock."""

    def __init__(self, websocket: WebSocket, replay: Replay, clock: Clock) -> None:
        self._websocket = websocket
        self._replay = replay
        self._clock = clock
        self._now = to_instant(clock())
        self._position = replay.until(self._now)
        self._subscriptions: dict[int, _Subscription] = {}
        self._sids = count(1)

    async def run(self) -> None:
        """Serve until the client disconnects, which raises `WebSocketDisconnect`."""
        reader = asyncio.ensure_future(self._websocket.receive_text())
        try:
            while True:
                await asyncio.wait({reader}, timeout=POLL_SECONDS)
                await self._send_due()
                if reader.done():
                    command = orjson.loads(reader.result())
                    reader = asyncio.ensure_future(self._websocket.receive_text())
                    await self._execute(command)
        finally:
            reader.cancel()

    async def _send(self, frame: Body) -> None:
        sent = max(self._now, to_instant(self._clock())) // _MILLISECOND
        await self._websocket.send_text(orjson.dumps({**frame, "sending_ts_ms": sent}).decode())

    async def _send_due(self) -> None:
        """Send the subscribed messages up to the clock's present."""
        self._now = to_instant(self._clock())
        end = self._replay.until(self._now)
        for message in self._replay.messages[self._position : end]:
            for subscription in self._subscriptions.values():
                if subscription.channel != message.channel:
                    continue
                subscription.skip_lost(message)
                if subscription.tickers is None or message.ticker in subscription.tickers:
                    await self._send(subscription.frame(message.kind, message.body))
        self._position = end

    async def _execute(self, command: Body) -> None:
        """Execute a command; an invalid one is answered with an error message."""
        head = {"id": command["id"]} if "id" in command else {}
        params = command.get("params", {})
        try:
            match command.get("cmd"):
                case "subscribe":
                    await self._subscribe(head, params)
                case "unsubscribe":
                    for sid in params.get("sids", ()):
                        subscription = self._find(sid)
                        del self._subscriptions[sid]
                        await self._send({**head, "type": "unsubscribed", "sid": sid, "seq": next(subscription.numbers)})
                case "update_subscription" if params.get("action") == "get_snapshot":
                    await self._send_books(self._find(*params["sids"]), self._check_tickers(params), head)
                case "list_subscriptions":
                    listed = [{"channel": item.channel, "sid": item.sid} for item in self._subscriptions.values()]
                    await self._send({**head, "type": "ok", "msg": listed})
                case _:
                    raise CommandError(5)
        except CommandError as error:
            await self._send({**head, "type": "error", "msg": {"code": error.code, "msg": str(error)}})

    def _find(self, sid: int) -> _Subscription:
        if sid not in self._subscriptions:
            raise CommandError(7)
        return self._subscriptions[sid]

    def _check_tickers(self, params: Body) -> frozenset[str]:
        """Return the markets that a command names. Raises `CommandError` if the capture lacks one."""
        tickers = frozenset(params.get("market_tickers", ()))
        if not tickers <= self._replay.tickers:
            raise CommandError(11)
        return tickers

    async def _subscribe(self, head: Body, params: Body) -> None:
        tickers = self._check_tickers(params)
        for channel in params["channels"]:
            if channel not in _CHANNELS.values():
                raise CommandError(8)
            yes_prices = channel == BOOKS and params.get("use_yes_price") is True
            subscription = _Subscription(next(self._sids), channel, None if channel == LIFECYCLE else tickers, yes_prices)
            self._subscriptions[subscription.sid] = subscription
            await self._send({**head, "type": "subscribed", "msg": {"channel": channel, "sid": subscription.sid}})
            if channel == BOOKS:
                await self._send_books(subscription, tickers)

    async def _send_books(self, subscription: _Subscription, tickers: frozenset[str], head: Body | None = None) -> None:
        """Send the complete books of markets."""
        for ticker in sorted(tickers):
            frame = subscription.frame("orderbook_snapshot", self._replay.book(ticker, self._now))
            await self._send({**(head or {}), **frame})
