"""ASGI middleware that spoils responses, for tests of data that arrive over bad connections.

A plan chooses the fault of each request:

- a status such as `503`: a refusal in place of the response;
- `html`: 200 with a web page;
- `cut`: half of the body, then the end of the connection; `stall`: half of the body, then silence;
- `drop`: the page of a listing without its records, while its cursor continues;
- `cursor`: the page with the cursor of its own request;
- `duplicate`: the previous page of the listing again.

A fault that is impossible for a response, such as `duplicate` for a first page, is left out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from urllib.parse import parse_qsl

import httpx
import orjson
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Parameter of the cursor in a request, by its field in the response.
_CURSORS = {"cursor": "cursor", "next_cursor": "after_cursor"}


@dataclass(frozen=True, slots=True)
class Request:
    """HTTP request. number: how often the same request was sent before."""

    method: str
    path: str
    query: str
    body: bytes
    number: int

    def cursor(self, parameter: str) -> str:
        """Return the cursor of the requested page; empty for the first page."""
        return dict(parse_qsl(self.query)).get(parameter, "")

    def listing(self, parameter: str) -> tuple[str, ...]:
        """Return path and filters of the requested listing, without its cursor."""
        return self.path, *(f"{name}={value}" for name, value in parse_qsl(self.query) if name != parameter)


Plan = Callable[[Request], str | None]


def no_faults(request: Request) -> None:
    """Plan without faults."""


def always(fault: str, path: str = "") -> Plan:
    """Return a plan that spoils every response below a path."""
    return lambda request: fault if request.path.startswith(path) else None


def at_random(rates: Mapping[str, float], seed: int) -> Plan:
    """Return a plan with faults of these probabilities, at most two in a row for the same request. Equal seeds give equal faults."""

    def choose(request: Request) -> str | None:
        if request.number % 3 == 2:
            return None
        draw = Random(f"{seed} {request}").random()
        for fault, rate in rates.items():
            if draw < rate:
                return fault
            draw -= rate
        return None

    return choose


class FaultyServer:
    """The middleware.

    Attributes:
        plan: fault of each request.
        counts: number of spoiled responses by fault.
    """

    def __init__(self, app: ASGIApp, plan: Plan = no_faults, *, stall_seconds: float = 30.0) -> None:
        self._app = app
        self.plan = plan
        self._stall_seconds = stall_seconds
        self.counts: Counter[str] = Counter()
        self._sent: Counter[tuple[str, str, str, bytes]] = Counter()
        #: Bodies of pages by listing and next cursor.
        self._pages: dict[tuple[tuple[str, ...], str], bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and spoil the response if the plan demands it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await read_body(receive)
        key = (scope["method"], scope["path"], scope["query_string"].decode(), body)
        request = Request(*key, number=self._sent[key])
        self._sent[key] += 1
        fault = self.plan(request) or ""
        if (refusal := _refusal(fault)) is not None:
            self.counts[fault] += 1
            await refusal(scope, receive, send)
            return
        start, answer = await self._ask(scope, replay_body(body, receive))
        if fault in ("cut", "stall"):
            self.counts[fault] += 1
            await _respond(send, start, answer[: len(answer) // 2], len(answer))
            if fault == "stall":
                await self._stay_silent(receive)
            return
        spoiled = self._spoil_page(fault, request, answer)
        if spoiled is not None:
            self.counts[fault] += 1
        await _respond(send, start, answer if spoiled is None else spoiled)

    async def _ask(self, scope: Scope, receive: Receive) -> tuple[Message, bytes]:
        """Return the first message and the body of the application's response."""
        start: Message = {}
        chunks: list[bytes] = []

        async def take(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                chunks.append(message.get("body", b""))

        await self._app(scope, receive, take)
        return start, b"".join(chunks)

    async def _stay_silent(self, receive: Receive) -> None:
        """Wait until the client disconnects."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._stall_seconds):
                while (await receive())["type"] != "http.disconnect":
                    pass

    def _spoil_page(self, fault: str, request: Request, answer: bytes) -> bytes | None:
        """Return a wrong page in place of a page of a listing; None if the fault is no such fault, or is impossible here."""
        page = _parse_object(answer)
        field = next((name for name in _CURSORS if name in page), "next_cursor")
        parameter = _CURSORS[field]
        cursor, following = request.cursor(parameter), page.get(field)
        listing = request.listing(parameter)
        if fault == "drop" and following:
            return orjson.dumps({name: [] if isinstance(value, list) else value for name, value in page.items()})
        if fault == "cursor" and following and cursor:
            return orjson.dumps({**page, field: cursor})
        if fault == "duplicate" and cursor:
            return self._pages.get((listing, cursor))
        if following:
            self._pages[listing, str(following)] = answer
        return None


def app_of(handlers: Mapping[str, Callable[[httpx.Request], httpx.Response]]) -> ASGIApp:
    """Return an application over handlers of requests, by the host of their address: /kalshi/markets calls `kalshi`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        _, host, path = scope["raw_path"].decode().split("/", 2)
        query = scope["query_string"].decode()
        response = handlers[host](httpx.Request(scope["method"], f"https://{host}.example/{path}?{query}"))
        headers = [(name.lower().encode(), value.encode()) for name, value in response.headers.items()]
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": response.content})

    return app


def _refusal(fault: str) -> Response | None:
    """Return the response of a fault that replaces the whole response; None for other faults."""
    if fault == "html":
        return HTMLResponse("<html><body><h1>We'll be back soon</h1></body></html>")
    if fault.isdigit():
        return JSONResponse({"error": {"code": "refused", "message": "try another time"}}, int(fault))
    return None


def _parse_object(body: bytes) -> dict[str, object]:
    """Parse a JSON object; an empty one for any other body."""
    with suppress(orjson.JSONDecodeError):
        parsed = orjson.loads(body)
        if isinstance(parsed, dict):
            return parsed
    return {}


async def _respond(send: Send, start: Message, body: bytes, length: int | None = None) -> None:
    """Send a response. length: length to declare in the header of a body that is cut short."""
    headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
    declared = len(body) if length is None else length
    await send({**start, "headers": [*headers, (b"content-length", str(declared).encode())]})
    await send({"type": "http.response.body", "body": body, "more_body": length is not None})


async def read_body(receive: Receive) -> bytes:
    """Read the whole body of a request, or the part received before the client disconnected."""
    chunks = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that first returns `body`, which was already read, and then continues with the original `receive`."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
