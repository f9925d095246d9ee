"""Reproducible faults between a client and a venue."""

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

#: What each fault does to an answer over HTTP.
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
#: What each fault does to a WebSocket's frames.
STREAM_FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "reorder": "the frame and the next one swap places",
        "gap": "the frame is left out while the sequence numbers go on",
        "disconnect": "from this frame on the socket stays open and says nothing",
    }
)
#: Faults that do not pass when the request is repeated, and the services on which they strike at random.
LASTING: Mapping[str, frozenset[Service]] = MappingProxyType(
    {"expired": frozenset({Service.MODELS, Service.KALSHI_STREAM}), "credit": frozenset({Service.MODELS})}
)
#: The request header that forces a fault: NAME or NAME=COUNT.
HEADER = "X-Sandbox-Fault"
#: Where a WebSocket's scope holds its `StreamFaults`.
SCOPE_KEY = "sandbox.faults"

_HANDSHAKE = ("storm", "status", "expired", "credit")
_EXPECTED = frozenset(f"ASGI callable returned without completing {what}." for what in ("response", "handshake"))
_MOST_REMEMBERED = 1 << 16
_MOST_IN_A_ROW, _LONGEST_STORM = 2, 4
_MOST_PAGES = 4096
#: The names of a cursor in the requests and the answers of a service.
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
    """Planned fault; `luck` in [0, 1) determines its details, such as where a body is cut."""

    name: str
    luck: float


@dataclass(slots=True)
class _RequestHistory:
    """Faults of one request so far."""

    seen: int = 0
    streak: int = 0
    storm: int = 0
    forced: Counter[str] = field(default_factory=Counter)


class Faults:
    """Plan of faults by the seed, the request and the number of its repetitions.

    A request is its method, path, query and body. After two faults in a row (a storm: four) the same request always succeeds once, so that
    a client that retries makes progress. `expired` and `credit` are permanent: a request hit once is hit every time. May be used from any
    thread.

    Attributes:
        rates: probability of each fault; the rates of HTTP faults add up to at most 1, and so do those of streams.
        seed: of the draws; equal seeds and requests give equal faults.
        stall_seconds: seconds of silence before the connection of a stalled response is closed.

    Raises `ConfigError` naming the invalid part.
    """

    def __init__(self, rates: Mapping[str, float] | None = None, seed: int = 0, *, stall_seconds: float = 120.0) -> None:
        self.rates = MappingProxyType(dict(rates or {}))
        self.seed = seed
        self.stall_seconds = stall_seconds
        #: How often each fault was committed.
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
        """Parse `status=0.1,cut=0.05`; an empty text means no faults. Raises `ConfigError` naming the invalid part."""
        rates: dict[str, float] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, rate = (word.strip() for word in part.partition("="))
            if name in rates:
                raise ConfigError(f"set the sandbox's faults: {name} is there twice; name each fault once")
            try:
                rates[name] = float(rate)
            except ValueError:
                raise ConfigError(f"set the sandbox's faults: {part!r} has no rate; write NAME=PROBABILITY, such as status=0.1") from None
        return cls(rates, seed)

    # --- HTTP --------------------------------------------------------------------------------------------------

    def decide(self, service: Service, request: bytes, forced: str | None = None) -> Fault | None:
        """Choose the fault of a request; `request` is its digest, `forced` the value of the header.

        Raises `ConfigError` for a header that does not name an HTTP fault.
        """
        if forced is None and not self.rates:
            return None
        with self._lock:
            past = self._pasts.setdefault(request, _RequestHistory())
            self._pasts.move_to_end(request)
            if len(self._pasts) > _MOST_REMEMBERED:
                self._pasts.popitem(last=False)
            seen, past.seen = past.seen, past.seen + 1
            draw = RandomDraws(self.seed, Purpose.FAULT, int.from_bytes(request), seen)
            if forced is not None:
                return _forced(past, forced, draw)
            return self._lasting(service, request) or self._passing(past, draw)

    def _lasting(self, service: Service, request: bytes) -> Fault | None:
        for number, name in enumerate(LASTING):
            rate = self.rates.get(name, 0.0) if service in LASTING[name] else 0.0
            if rate and RandomDraws(self.seed, Purpose.FAULT, int.from_bytes(request), _MOST_REMEMBERED, number).chance(rate):
                return Fault(name, 0.0)
        return None

    def _passing(self, past: _RequestHistory, draw: RandomDraws) -> Fault | None:
        if past.storm:
            past.storm -= 1
            past.streak += 1
            return Fault("storm", 0.0)
        luck = draw.unit()
        name = _choose_fault(luck, {name: self.rates.get(name, 0.0) for name in HTTP_FAULTS if name not in LASTING})
        if name is None or past.streak >= _MOST_IN_A_ROW or (name == "storm" and past.streak):
            past.streak = 0
            return None
        past.streak += 1
        if name == "storm":
            past.storm = draw.integer(2, _LONGEST_STORM) - 1
        return Fault(name, draw.unit())

    def note(self, name: str, what: str) -> None:
        """Count and log a fault that was applied to `what`."""
        with self._lock:
            self.stats[name] += 1
        log.info("fault %s on %s", name, what)

    # --- streams -----------------------------------------------------------------------------------------------

    def plan(self, frame_number: int, connection_number: int) -> str | None:
        """Choose the fault of this frame of this connection (both numbered from 0): reorder, gap, disconnect or none.

        Only every third frame can be hit, at three times the rate (at most 1), and every third connection is never silenced. So some frames
        are always undisturbed, and a client that reconnects makes progress.
        """
        if frame_number % 3 != 2:
            return None
        rates = {name: 3 * self.rates.get(name, 0.0) for name in STREAM_FAULTS if name != "disconnect" or connection_number % 3 != 2}
        if not any(rates.values()):
            return None
        return _choose_fault(RandomDraws(self.seed, Purpose.FAULT, connection_number, frame_number, 1).unit(), rates)


@dataclass(frozen=True, slots=True)
class StreamFaults:
    """Faults of one connection: the first `count` eligible frames get the forced fault, the others follow the rates."""

    faults: Faults
    forced: str | None = None
    count: int = 1

    def plan(self, frame_number: int, connection_number: int) -> str | None:
        """Choose the fault of a frame like `Faults.plan`; planned faults are counted and logged."""
        forced = self.forced if frame_number % 3 == 2 and frame_number // 3 < self.count else None
        name = forced or self.faults.plan(frame_number, connection_number)
        if name is not None:
            self.faults.note(name, f"frame {frame_number} of stream {connection_number}")
        return name


def _choose_fault(luck: float, rates: Mapping[str, float]) -> str | None:
    reached = 0.0
    for name, rate in rates.items():
        reached += rate
        if luck < reached:
            return name
    return None


def _forced(past: _RequestHistory, header: str, draw: RandomDraws) -> Fault | None:
    name, count = parse_header(header)
    if name not in HTTP_FAULTS:
        raise ConfigError(f"force a fault: {HEADER} names {name!r}; over HTTP there are {', '.join(HTTP_FAULTS)}")
    if name not in LASTING and past.forced[name] >= count:
        past.forced[name] = 0
        return None
    past.forced[name] += 1
    return Fault(name, draw.unit())


def parse_header(value: str) -> tuple[str, int]:
    """Parse name and count of `X-Sandbox-Fault`; default counts are four for a storm, else one. Raises `ConfigError`."""
    name, equals, text = (word.strip() for word in value.partition("="))
    count = text if equals else "4" if name == "storm" else "1"
    if (name not in HTTP_FAULTS and name not in STREAM_FAULTS) or not (count.isascii() and count.isdigit() and 1 <= int(count) <= 1000):
        known = ", ".join((*HTTP_FAULTS, *STREAM_FAULTS))
        raise ConfigError(f"force a fault: {HEADER} is {value!r}; write NAME or NAME=COUNT (1 to 1000), known are {known}")
    return name, int(count)


# --- the middleware ------------------------------------------------------------------------------------------------


async def read_body(receive: Receive) -> bytes:
    """Read the whole body, or the part received before the client disconnected."""
    chunks = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that first returns a body already read, then further messages."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


@dataclass(slots=True)
class _Exchange:
    """Request with its body, and the application's response."""

    service: Service
    scope: Scope
    body: bytes
    receive: Receive
    send: Send
    start: Message = field(default_factory=dict)
    answer: bytes = b""

    @property
    def digest(self) -> bytes:
        """Identity of the request: method, path, query and body."""
        parts = (self.scope["method"].encode(), self.scope["path"].encode(), self.scope["query_string"], self.body)
        return hashlib.sha256(b"\0".join(parts)).digest()[:16]

    @property
    def cursor(self) -> str:
        """Cursor in the request; "" on a first page."""
        name = _CURSORS.get(self.service, ("", ""))[0]
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1"))).get(name, "")

    def place(self, cursor: str) -> tuple[str, ...]:
        """Return the listing of the request at a cursor."""
        names = parse_qsl(self.scope["query_string"].decode("latin-1"))
        filters = sorted(f"{name}={value}" for name, value in names if name != _CURSORS[self.service][0])
        return self.scope["path"], *filters, cursor

    async def ask(self, app: ASGIApp, query: bytes | None = None) -> None:
        """Store the application's response to this request, or to one with another query."""
        self.answer = b""

        async def take(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.start = message
            else:
                self.answer += message.get("body", b"")

        scope = self.scope if query is None else {**self.scope, "query_string": query}
        await app(scope, replay_body(self.body, self.receive), take)

    def page(self) -> dict[str, Any]:
        """Return the response if it is a page of a listing with a cursor, else an empty dictionary."""
        with suppress(orjson.JSONDecodeError):
            page = orjson.loads(self.answer)
            if isinstance(page, dict) and _CURSORS[self.service][1] in page:
                return page
        return {}

    async def give(self, body: bytes, length: int | None = None) -> None:
        """Send the response headers and a body; with `length`, declare a longer response than is sent."""
        headers = [(name, value) for name, value in self.start["headers"] if name.lower() != b"content-length"]
        stated = str(len(body) if length is None else length).encode()
        await self.send({**self.start, "headers": [*headers, (b"content-length", stated)]})
        await self.send({"type": "http.response.body", "body": body, "more_body": length is not None})


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return False for the server's log messages about deliberately cut responses and refused handshakes."""
    return record.getMessage() not in _EXPECTED


class FaultMiddleware:
    """ASGI middleware that applies `faults`, or the fault forced by the header `X-Sandbox-Fault`. The control service is exempt.

    A cut or stalled response lacks its last bytes, which only a real connection can show. The scope of a WebSocket contains its
    `StreamFaults` under `SCOPE_KEY`; its handshake itself can be refused.
    """

    def __init__(self, app: ASGIApp, faults: Faults, clock: Clock) -> None:
        self._app = app
        self._faults = faults
        self._clock = clock
        #: Queries by the listing and the cursor of their answers.
        self._before: OrderedDict[tuple[str, ...], bytes] = OrderedDict()
        logging.getLogger("uvicorn.error").addFilter(_is_unexpected)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or respond with the chosen fault."""
        service, _ = find_service(scope.get("path", ""))
        if scope["type"] not in ("http", "websocket") or service in (Service.CONTROL, Service.NONE):
            await self._app(scope, receive, send)
            return
        try:
            await (self._http if scope["type"] == "http" else self._websocket)(service, scope, receive, send)
        except ConfigError as error:
            body = orjson.dumps({"error": {"code": "bad_request", "message": str(error)}})
            await _deny(scope, receive, send, Response(body, 400, media_type="application/json"))

    def _note(self, fault: Fault, what: str) -> None:
        self._faults.note(fault.name, f"{what} at {self._clock.now():%Y-%m-%dT%H:%M:%SZ}")

    async def _http(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        header = _header(scope)
        if service is Service.MODELS and header is None and not self._faults.rates:
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(service, scope, await read_body(receive), receive, send)
        fault = self._faults.decide(service, exchange.digest, header)
        if fault is None or not await self._strike(exchange, fault):
            await exchange.ask(self._app)
            self._remember(exchange)
            await exchange.give(exchange.answer)
            return
        self._note(fault, f"{scope['method']} {scope['path']}")

    async def _strike(self, exchange: _Exchange, fault: Fault) -> bool:
        """Apply the fault; return False, having sent nothing, if it does not apply to this response."""
        if (response := _replacement(exchange.service, fault)) is not None:
            await response(exchange.scope, exchange.receive, exchange.send)
        elif fault.name in ("cut", "stall"):
            await exchange.ask(self._app)
            await self._break_off(exchange, fault)
        elif (spoiled := await self._spoiled(exchange, fault.name)) is not None:
            await exchange.give(spoiled)
        else:
            return False
        return True

    async def _break_off(self, exchange: _Exchange, fault: Fault) -> None:
        body = exchange.answer or b"{}"
        await exchange.give(body[: int(len(body) * (0.1 + 0.8 * fault.luck))], len(body))
        if fault.name == "stall":
            with suppress(TimeoutError):
                async with asyncio.timeout(self._faults.stall_seconds):
                    while (await exchange.receive())["type"] != "http.disconnect":
                        pass

    # --- listings ----------------------------------------------------------------------------------------------

    def _remember(self, exchange: _Exchange) -> None:
        """Store the query of a page for the next request."""
        if exchange.service not in _CURSORS or exchange.scope["method"] != "GET":
            return
        if found := _CURSOR.search(exchange.answer[:_EDGE]) or _CURSOR.search(exchange.answer[-_EDGE:]):
            self._before[exchange.place(found[1].decode("latin-1"))] = exchange.scope["query_string"]
            if len(self._before) > _MOST_PAGES:
                self._before.popitem(last=False)

    async def _spoiled(self, exchange: _Exchange, name: str) -> bytes | None:
        """Return the page damaged by a listing fault; None if the fault does not apply."""
        if exchange.service not in _CURSORS or exchange.scope["method"] != "GET":
            return None
        cursor = exchange.cursor
        if name == "duplicate":
            before = self._before.get(exchange.place(cursor)) if cursor else None
            if before is None:
                return None
            await exchange.ask(self._app, before)
            return exchange.answer
        await exchange.ask(self._app)
        self._remember(exchange)
        page, field = exchange.page(), _CURSORS[exchange.service][1]
        if name == "drop" and page.get(field) not in _ENDS:
            return orjson.dumps({name: [] if isinstance(value, list) else value for name, value in page.items()})
        if name == "cursor" and page and cursor:
            return orjson.dumps({**page, field: cursor})
        return None

    # --- streams -----------------------------------------------------------------------------------------------

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
    """Return the response of a fault that does not need the correct one; None for other faults."""
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
    """Refuse a request with a response, or a handshake with the same response if the server supports it."""
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
