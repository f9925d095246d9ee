"""Faults in a row of cells: each has a venue of its own behind one socket, and a client that never waits."""

from __future__ import annotations

import asyncio
import hashlib
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx
import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.faults import HEADER, Faults, Faulty
from bellwether.sandbox.server import Site, serve
from bellwether.venues.http.client import HttpClient, RateLimit
from bellwether.venues.http.pages import DONE
from bellwether.venues.http.retry import Retry

#: Part of every address; it must turn up nowhere.
SECRET = "s3cr3t-of-the-address"
CELL = b"x-cell"
#: How often a fault that never clears is met at most.
ATTEMPTS = 4
#: One for all clients, because it takes long to make.
_TLS = ssl.create_default_context()


class Remembering:
    """ASGI: what was asked once is answered from memory. It takes off the headers that are for the faults.

    sizes: by path, the most records that a page holds, whatever was asked for.
    """

    def __init__(self, app: ASGIApp, sizes: Mapping[str, int]) -> None:
        self._app = app
        self._sizes = sizes
        self._answers: dict[tuple[str, str, bytes, bytes], list[Message]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"")
        key = (scope["method"], scope["path"], scope["query_string"], body)
        if key not in self._answers:
            self._answers[key] = await self._ask(scope, body)
        for message in self._answers[key]:
            await send(message)

    async def _ask(self, scope: Scope, body: bytes) -> list[Message]:
        messages: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            messages.append(message)

        headers = [(name, value) for name, value in scope["headers"] if name not in (HEADER.lower().encode(), CELL)]
        query = scope["query_string"]
        if size := self._sizes.get(scope["path"]):
            query = re.sub(rb"limit=\d+", b"limit=%d" % size, query)
        await self._app({**scope, "headers": headers, "query_string": query}, receive, send)
        return messages


class Cells:
    """ASGI: a venue with faults of its own, and no past, for each value of the header X-Cell."""

    def __init__(self, app: ASGIApp, clock: Clock, sizes: Mapping[str, int]) -> None:
        self._app = Remembering(app, sizes)
        self._clock = clock
        self._cells: dict[str, Faulty] = {}

    def open(self, cell: str, faults: Faults) -> None:
        """Let these faults strike in a cell."""
        self._cells[cell] = Faulty(self._app, faults, self._clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cell = dict(scope["headers"]).get(CELL, b"").decode()
        if cell not in self._cells:
            self.open(cell, Faults())
        await self._cells[cell](scope, receive, send)


class Forcing(httpx.AsyncHTTPTransport):
    """Asks for a fault with every request."""

    def __init__(self, cell: str, fault: str | None) -> None:
        super().__init__(verify=_TLS)
        self._headers = {CELL.decode(): cell, **({HEADER: fault} if fault else {})}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers.update(self._headers)
        return await super().handle_async_request(request)


@dataclass(frozen=True, slots=True)
class Served:
    """The venues behind one socket, in cells."""

    site: Site
    cells: Cells

    def client(self, kind: type[HttpClient], cell: str, fault: str | None, *, attempts: int, timeout: float) -> Any:
        """A client of a cell that does not wait between its attempts."""
        address = {"kalshi_url": self.site.kalshi, "gamma_url": self.site.gamma, "clob_url": self.site.clob}[kind.setting or "kalshi_url"]
        return kind(
            address.replace("//", f"//user:{SECRET}@"),
            limits=RateLimit(tokens_per_second=1e9, timeout=timeout),
            retry=Retry(attempts=attempts),
            transport=Forcing(cell, fault),
            sleep=at_once,
            rng=Random(1),
        )


async def at_once(seconds: float) -> None:
    """Instead of waiting."""
    await asyncio.sleep(0)


@contextmanager
def served(app: ASGIApp, clock: Clock, sizes: Mapping[str, int] | None = None) -> Iterator[Served]:
    """Serve `app` in cells, in pages of these sizes by path."""
    cells = Cells(app, clock, sizes or {})
    with serve(cells) as site:
        yield Served(site, cells)


def stored(folder: Path) -> dict[str, str]:
    """Digests of all stored pages and notes, but for what the notes say of the effort."""

    def content(path: Path) -> bytes:
        data = path.read_bytes()
        return orjson.dumps({**orjson.loads(data), "effort": None}) if path.name == DONE else data

    return {
        str(path.relative_to(folder)): hashlib.sha256(content(path)).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def table(text: str) -> dict[str, dict[str, str]]:
    """A table as text, a row per line, its cells separated by two spaces or more: row -> column -> cell."""
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.strip().splitlines()]
    names = rows[0][1:]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows[1:]}
