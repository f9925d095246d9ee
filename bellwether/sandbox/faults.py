"""Reproducible faults in the responses and streams of the sandbox.

A storm is a series of up to four responses 429 to the same request. `HTTP_FAULTS` and `STREAM_FAULTS` describe all faults.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bellwether.errors import ConfigError
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.services import Service, build_refusal, build_web_page, find_service
from bellwether.sandbox.world.random_draws import Purpose, RandomDraws

log = logging.getLogger(__name__)

#: Effects of the faults over HTTP.
HTTP_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "storm": "429, two to four times in a row",
        "status": "500, 502, 503 or 504",
        "stall": "headers and a part of the body, then silence",
        "cut": "the connection is closed inside the body",
        "html": "200 with a web page",
        "duplicate": "the previous page of the listing again, whole",
        "drop": "the page's records are missing while its cursor goes on",
        "cursor": "the page's cursor is the one that it was asked for with",
        "expired": "401, on the model endpoint and the stream's handshake; stays",
        "credit": "402, on the model endpoint; stays",
    }
)
#: Effects of the faults on the frames of a WebSocket.
STREAM_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "reorder": "the frame and the next one swap places",
        "gap": "the frame is left out while the sequence numbers go on",
        "disconnect": "from this frame on the socket stays open and says nothing",
    }
)
#: Permanent faults, which do not pass when the request is repeated, and the services on which they occur at random.
PERMANENT: Mapping[str, frozenset[Service]] = MappingProxyType(
    {"expired": frozenset({Service.MODELS, Service.KALSHI_STREAM}), "credit": frozenset({Service.MODELS})}
)
#: Request header that forces a fault: NAME or NAME=COUNT.
HEADER = "X-Sandbox-Fault"
#: Key of the `StreamFaults` in a WebSocket's scope.
SCOPE_KEY = "sandbox.faults"

_HANDSHAKE = ("storm", "status", "expired", "credit")
_EXPECTED = frozenset(f"ASGI callable returned without completing {step}." for step in ("response", "handshake"))
_MOST_REMEMBERED = 1 << 16
_MOST_IN_A_ROW, _LONGEST_STORM = 2, 4
_MOST_PAGES = 4096
#: Names of the cursor in requests and responses, by service.
_CURSORS = {
    Service.KALSHI: ("cursor", "cursor"),
    Service.GAMMA: ("after_cursor", "next_cursor"),
    Service.CLOB: ("next_cursor", "next_cursor"),
}
_ENDS = (None, "", "LTE=")
_CURSOR = re.compile(rb'"(?:next_)?cursor"\s*:\s*"([^"]+)"')
_EDGE = 4096


@dataclass(frozen=True, slots=True)
class Fault:
    """Planned fault. luck: number in [0, 1) that determines details, such as where a body is cut."""

    name: str
    luck: float


@dataclass(slots=True)
class _RequestHistory:
    """History of one request. count: how often it was sent. streak: faults in a row. storm: responses 429 that remain of a storm. forced:
    faults forced by header, by name.
    """

    count: int = 0
    streak: int = 0
    storm: int = 0
    forced: Counter[str] = field(default_factory=Counter)


class Faults:
    """Plan of faults, which depends only on the seed, the request, and how often that request was sent. Thread-safe.

    A request is its method, path, query and body. After two faults in a row (a storm: four) the same request succeeds once, so that a
    client that retries makes progress. `expired` and `credit` are permanent: they hit a request every time or never.

    Attributes:
        rates: probability of each fault; the rates of HTTP faults add up to at most 1, and so do those of streams.
        seed: equal seeds and requests give equal faults.
        stall_seconds: seconds of silence before the connection of a stalled response is closed.
        stats: number of applied faults by name.

    Raises `ConfigError` for an unknown fault or an invalid rate.
    """

    def __init__(self, rates: Mapping[str, float] | None = None, seed: int = 0, *, stall_seconds: float = 120.0) -> None:
        self.rates = MappingProxyType(dict(rates or {}))
        self.seed = seed
        self.stall_seconds = stall_seconds
        self.stats: Counter[str] = Counter()
        self._pasts: OrderedDict[bytes, _RequestHistory] = OrderedDict()
        self._lock = threading.Lock()
        for name, rate in self.rates.items():
            if name not in HTTP_FAULTS and name not in STREAM_FAULTS:
                raise ConfigError(
                    f"set the sandbox's faults: unknown fault {name!r}; known are {', '.join((*HTTP_FAULTS, *STREAM_FAULTS))}"
                )
            if not 0 <= rate <= 1:
                raise ConfigError(f"set the sandbox's faults: the rate of {name} is {rate}; take a probability from 0 to 1")
        for kind in (HTTP_FAULTS, STREAM_FAULTS):
            named = [name for name in kind if name in self.rates]
            if sum(self.rates[name] for name in named) > 1 + 1e-9:
                raise ConfigError(f"set the sandbox's faults: the rates of {', '.join(named)} exclude each other; they add up to 1 at most")

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> Faults:
        """Parse rates such as `status=0.1,cut=0.05`; an empty text means no faults. Raises `ConfigError` for an invalid text."""
        rates: dict[str, float] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, rate = map(str.strip, part.partition("="))
            if name in rates:
                raise ConfigError(f"set the sandbox's faults: {name} is there twice; name each fault once")
            try:
                rates[name] = float(rate)
            except ValueError:
                raise ConfigError(f"set the sandbox's faults: {part!r} has no rate; write NAME=PROBABILITY, such as status=0.1") from None
        return cls(rates, seed)

    def decide(self, service: Service, request: bytes, forced: str | None = None) -> Fault | None:
        """Choose the fault of a request; None for no fault. request: digest. forced: value of the header that forces a fault.

        Raises `ConfigError` for a header that does not name an HTTP fault.
        """
        if forced is None and not self.rates:
            return None
        with self._lock:
            past = self._pasts.setdefault(request, _RequestHistory())
            self._pasts.move_to_end(request)
            if len(self._pasts) > _MOST_REMEMBERED:
                self._pasts.popitem(last=False)
            count, past.count = past.count, past.count + 1
            draw = RandomDraws(self.seed, Purpose.FAULT, int.from_bytes(request), count)
            if forced is not None:
                return _force_fault(past, forced, draw)
            return self._choose_permanent(service, request) or self._choose_transient(past, draw)

    def _choose_permanent(self, service: Service, request: bytes) -> Fault | None:
        """Choose a fault that hits a request every time or never."""
        for number, name in enumerate(PERMANENT):
            rate = self.rates.get(name, 0.0) if service in PERMANENT[name] else 0.0
            if rate and RandomDraws(self.seed, Purpose.FAULT, int.from_bytes(request), _MOST_REMEMBERED, number).chance(rate):
                return Fault(name, 0.0)
        return None

    def _choose_transient(self, past: _RequestHistory, draw: RandomDraws) -> Fault | None:
        """Choose a fault that passes when the request is repeated."""
        if past.storm:
            past.storm -= 1
            past.streak += 1
            return Fault("storm", 0.0)
        luck = draw.unit()
        name = _choose_fault(luck, {name: self.rates.get(name, 0.0) for name in HTTP_FAULTS if name not in PERMANENT})
        if name is None or past.streak >= _MOST_IN_A_ROW or (name == "storm" and past.streak):
            past.streak = 0
            return None
        past.streak += 1
        if name == "storm":
            past.storm = draw.integer(2, _LONGEST_STORM) - 1
        return Fault(name, draw.unit())

    def note(self, name: str, target: str) -> None:
        """Count and log the fault `name`, which was applied to the request or stream `target`."""
        with self._lock:
            self.stats[name] += 1
        log.info("fault %s on %s", name, target)

    def plan(self, frame_number: int, connection_number: int) -> str | None:
        """Choose the fault of a stream's frame: reorder, gap, disconnect or None. Frames and connections are numbered from 0.

        Only every third frame can be hit, at three times the rate (at most 1), and every third connection has no disconnect, so that a
        client that reconnects makes progress.
        """
        if frame_number % 3 != 2:
            return None
        rates = {name: 3 * self.rates.get(name, 0.0) for name in STREAM_FAULTS if name != "disconnect" or connection_number % 3 != 2}
        if not any(rates.values()):
            return None
        return _choose_fault(RandomDraws(self.seed, Purpose.FAULT, connection_number, frame_number, 1).unit(), rates)


@dataclass(frozen=True, slots=True)
class StreamFaults:
    """Faults of one connection. forced: fault by header, which hits the first `count` suitable frames; the other frames get faults at
    random.
    """

    faults: Faults
    forced: str | None = None
    count: int = 1

    def plan(self, frame_number: int, connection_number: int) -> str | None:
        """Choose, count and log the fault of a frame; see `Faults.plan`."""
        forced = self.forced if frame_number % 3 == 2 and frame_number // 3 < self.count else None
        name = forced or self.faults.plan(frame_number, connection_number)
        if name is not None:
            self.faults.note(name, f"frame {frame_number} of stream {connection_number}")
        return name


def _choose_fault(luck: float, rates: Mapping[str, float]) -> str | None:
    """Choose a fault by its rate. luck: uniform number in [0, 1)."""
    reached = 0.0
    for name, rate in rates.items():
        reached += rate
        if luck < reached:
            return name
    return None


def _force_fault(past: _RequestHistory, header: str, draw: RandomDraws) -> Fault | None:
    """Choose the fault that a header forces; None once it has been applied as often as the header demands."""
    name, count = parse_header(header)
    if name not in HTTP_FAULTS:
        raise ConfigError(f"force a fault: {HEADER} names {name!r}; over HTTP there are {', '.join(HTTP_FAULTS)}")
    if name not in PERMANENT and past.forced[name] >= count:
        past.forced[name] = 0
        return None
    past.forced[name] += 1
    return Fault(name, draw.unit())


def parse_header(value: str) -> tuple[str, int]:
    """Parse the header `X-Sandbox-Fault`, NAME or NAME=COUNT; the default count is 4 for a storm, else 1. Raises `ConfigError` for an
    invalid value.
    """
    name, equals, text = map(str.strip, value.partition("="))
    count = text if equals else "4" if name == "storm" else "1"
    if (name not in HTTP_FAULTS and name not in STREAM_FAULTS) or not (count.isascii() and count.isdigit() and 1 <= int(count) <= 1000):
        names = ", ".join((*HTTP_FAULTS, *STREAM_FAULTS))
        raise ConfigError(f"force a fault: {HEADER} is {value!r}; write NAME or NAME=COUNT (1 to 1000), known are {names}")
    return name, int(count)


async def read_body(receive: Receive) -> bytes:
    """Read the whole body, or the part received before the client disconnected."""
    chunks = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Create an ASGI `receive` that first returns `body`, which was already read, and then continues with the original `receive`."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


@dataclass(slots=True)
class _Exchange:
    """One HTTP exchange: the request with its body, and the application's response."""

    service: Service
    scope: Scope
    body: bytes
    receive: Receive
    send: Send
    start: Message = field(default_factory=dict)
    answer: bytes = b""

    @property
    def digest(self) -> bytes:
        """Hash of method, path, query and body of the request."""
        parts = (self.scope["method"].encode(), self.scope["path"].encode(), self.scope["query_string"], self.body)
        return hashlib.sha256(b"\0".join(parts)).digest()[:16]

    @property
    def cursor(self) -> str:
        """Cursor in the request; "" for a first page."""
        name = _CURSORS.get(self.service, ("", ""))[0]
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1"))).get(name, "")

    def place(self, cursor: str) -> tuple[str, ...]:
        """Return a key for the page at `cursor` in the listing that the request reads: path, filters and cursor."""
        names = parse_qsl(self.scope["query_string"].decode("latin-1"))
        filters = sorted(f"{name}={value}" for name, value in names if name != _CURSORS[self.service][0])
        return self.scope["path"], *filters, cursor

    async def call(self, app: ASGIApp, query: bytes | None = None) -> None:
        """Call the application and store its response. query: used instead of the request's own query."""
        self.answer = b""

        async def take(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.start = message
            else:
                self.answer += message.get("body", b"")

        scope = self.scope if query is None else {**self.scope, "query_string": query}
        await app(scope, replay_body(self.body, self.receive), take)

    def page(self) -> dict[str, Any]:
        """Parse the response as a page of a listing; an empty dictionary for any other response."""
        with suppress(orjson.JSONDecodeError):
            page = orjson.loads(self.answer)
            if isinstance(page, dict) and _CURSORS[self.service][1] in page:
                return page
        return {}

    async def respond(self, body: bytes, length: int | None = None) -> None:
        """Send the response with this body. length: length to declare in the header, if the body is cut short."""
        headers = [(name, value) for name, value in self.start["headers"] if name.lower() != b"content-length"]
        stated = str(len(body) if length is None else length).encode()
        await self.send({**self.start, "headers": [*headers, (b"content-length", stated)]})
        await self.send({"type": "http.response.body", "body": body, "more_body": length is not None})


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return False for the server's log messages about responses that are cut on purpose."""
    return record.getMessage() not in _EXPECTED


class FaultMiddleware:
    """ASGI middleware that applies faults at random, or the fault that a request's header forces. Requests to the control service never get
    a fault.

    The scope of a WebSocket contains its `StreamFaults` under `SCOPE_KEY`; its handshake can be refused.
    """

    def __init__(self, app: ASGIApp, faults: Faults, clock: Clock) -> None:
        self._app = app
        self._faults = faults
        self._clock = clock
        #: Query of each page, by the key of the page that follows.
        self._previous: OrderedDict[tuple[str, ...], bytes] = OrderedDict()
        logging.getLogger("uvicorn.error").addFilter(_is_unexpected)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the application, or respond with a fault."""
        service, _ = find_service(scope.get("path", ""))
        if scope["type"] not in ("http", "websocket") or service in (Service.CONTROL, Service.NONE):
            await self._app(scope, receive, send)
            return
        try:
            await (self._http if scope["type"] == "http" else self._websocket)(service, scope, receive, send)
        except ConfigError as error:
            body = orjson.dumps({"error": {"code": "bad_request", "message": str(error)}})
            await _deny(scope, receive, send, Response(body, 400, media_type="application/json"))

    def _note(self, fault: Fault, target: str) -> None:
        self._faults.note(fault.name, f"{target} at {self._clock.now():%Y-%m-%dT%H:%M:%SZ}")

    async def _http(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        header = _header(scope)
        if service is Service.MODELS and header is None and not self._faults.rates:
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(service, scope, await read_body(receive), receive, send)
        fault = self._faults.decide(service, exchange.digest, header)
        if fault is None or not await self._apply(exchange, fault):
            await exchange.call(self._app)
            self._remember(exchange)
            await exchange.respond(exchange.answer)
            return
        self._note(fault, f"{scope['method']} {scope['path']}")

    async def _apply(self, exchange: _Exchange, fault: Fault) -> bool:
        """Respond with the fault; return False, without a response, if such a fault is impossible for this request."""
        if (response := _replacement(exchange.service, fault)) is not None:
            await response(exchange.scope, exchange.receive, exchange.send)
        elif fault.name in ("cut", "stall"):
            await exchange.call(self._app)
            await self._break_off(exchange, fault)
        elif (page := await self._spoil_page(exchange, fault.name)) is not None:
            await exchange.respond(page)
        else:
            return False
        return True

    async def _break_off(self, exchange: _Exchange, fault: Fault) -> None:
        """Send the first part of the response, then close the connection or fall silent."""
        body = exchange.answer or b"{}"
        await exchange.respond(body[: int(len(body) * (0.1 + 0.8 * fault.luck))], len(body))
        if fault.name == "stall":
            with suppress(TimeoutError):
                async with asyncio.timeout(self._faults.stall_seconds):
                    while (await exchange.receive())["type"] != "http.disconnect":
                        pass

    def _remember(self, exchange: _Exchange) -> None:
        """Store the query of a page by the next page's key, so that the fault `duplicate` can send the page again."""
        if exchange.service not in _CURSORS or exchange.scope["method"] != "GET":
            return
        if match := _CURSOR.search(exchange.answer[:_EDGE]) or _CURSOR.search(exchange.answer[-_EDGE:]):
            self._previous[exchange.place(match[1].decode("latin-1"))] = exchange.scope["query_string"]
            if len(self._previous) > _MOST_PAGES:
                self._previous.popitem(last=False)

    async def _spoil_page(self, exchange: _Exchange, name: str) -> bytes | None:
        """Build a wrong page of a listing: the previous page, one without records, or one whose cursor does not move on. None if this fault
        is impossible here.
        """
        if exchange.service not in _CURSORS or exchange.scope["method"] != "GET":
            return None
        cursor = exchange.cursor
        if name == "duplicate":
            query = self._previous.get(exchange.place(cursor)) if cursor else None
            if query is None:
                return None
            await exchange.call(self._app, query)
            return exchange.answer
        await exchange.call(self._app)
        self._remember(exchange)
        page, field = exchange.page(), _CURSORS[exchange.service][1]
        if name == "drop" and page.get(field) not in _ENDS:
            return orjson.dumps({name: [] if isinstance(value, list) else value for name, value in page.items()})
        if name == "cursor" and page and cursor:
            return orjson.dumps({**page, field: cursor})
        return None

    async def _websocket(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        header = _header(scope)
        name, count = parse_header(header) if header is not None else ("", 1)
        digest = hashlib.sha256(b"websocket\0" + scope["path"].encode() + b"\0" + scope["query_string"]).digest()[:16]
        forced = header if name in _HANDSHAKE else None
        fault = None if header and forced is None else self._faults.decide(service, digest, forced)
        if fault is not None and fault.name in _HANDSHAKE:
            self._note(fault, f"the handshake of {scope['path']}")
            await _deny(scope, receive, send, _replacement(service, fault) or build_refusal(service, 503))
            return
        plan = StreamFaults(self._faults, name if name in STREAM_FAULTS else None, count)
        await self._app({**scope, SCOPE_KEY: plan}, receive, send)


def _replacement(service: Service, fault: Fault) -> Response | None:
    """Build the response of a fault that replaces the whole response, such as a status or a web page; None for other faults."""
    if fault.name == "status":
        return build_refusal(service, (500, 502, 503, 504)[int(4 * fault.luck)])
    if fault.name == "html":
        return build_web_page("We'll be back soon")
    statuses = {"storm": 429, "expired": 401, "credit": 402}
    return build_refusal(service, statuses[fault.name]) if fault.name in statuses else None


def _header(scope: Scope) -> str | None:
    wanted = HEADER.lower().encode()
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), None)


async def _deny(scope: Scope, receive: Receive, send: Send, response: Response) -> None:
    """Refuse a request or a handshake with a response; close the handshake if the server does not support that."""
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
