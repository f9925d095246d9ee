"""A provider that sends exactly the bytes that a test wants, well formed or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

HANG = b"<hang>"


@dataclass
class Asked:
    """One request: its first line, headers in lower case, and body."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def http(status: int, body: Any = b"", headers: dict[str, str] | None = None, *, length: int | None = None) -> bytes:
    """An HTTP response; `length` is what it claims to be long."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", "Content-Type: application/json", f"Content-Length: {len(data) if length is None else length}"]
    lines += ["Connection: close", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


@dataclass
class Stub:
    """Serves `response` to every request, or what `answers` makes of it, after `delay` seconds; what ends with HANG is followed by silence."""

    response: bytes = b""
    answers: Callable[[Asked], bytes] | None = None
    delay: float = 0.0
    asked: list[Asked] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._over = asyncio.Event()
        self.root = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._over.set()
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.asked.append(Asked(head[0], headers, body))
            response = self.answers(self.asked[-1]) if self.answers else self.response
            await asyncio.sleep(self.delay)
            writer.write(response.removesuffix(HANG))
            await writer.drain()
            if response.endswith(HANG):
                await self._over.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
