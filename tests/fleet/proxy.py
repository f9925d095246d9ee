"""A reverse proxy in front of an S3 server that injects faults: errors, lost answers, truncated bodies."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web
from yarl import URL

_SLOW_DOWN = "<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
#: Headers of a single connection.
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "date", "server"}


@dataclass
class Faults:
    """Frequency of each fault: every n-th applicable request, from an offset that depends on `seed`.

    slow_down: 503 before the store sees the request.
    lost_request: the connection closes after `pause` seconds, before the store sees the request.
    lost_answer: the store executes the request, but the connection closes without an answer.
    torn_body: half of an object, then the connection closes.
    """

    seed: int = 0
    slow_down: float = 0.0
    lost_request: float = 0.0
    lost_answer: float = 0.0
    torn_body: float = 0.0
    pause: float = 0.2
    counts: Counter[str] = field(default_factory=Counter)
    _seen: Counter[str] = field(default_factory=Counter)

    def happens(self, name: str) -> bool:
        """Return True if this fault applies to this request."""
        share = getattr(self, name)
        if not share:
            return False
        self._seen[name] += 1
        broken = (self._seen[name] + self.seed) % round(1 / share) == 0
        self.counts[name] += broken
        return broken


class _Proxy:
    def __init__(self, target: str, faults: Faults) -> None:
        self.target, self.faults = target, faults

    async def start(self) -> int:
        self._session = ClientSession(
            timeout=ClientTimeout(total=60), auto_decompress=False, connector=TCPConnector(limit=100), skip_auto_headers={"User-Agent"}
        )
        application = web.Application(client_max_size=2**30)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.faults.counts["requests"] += 1
        body = await request.read()
        if self.faults.happens("slow_down"):
            return web.Response(status=503, text=_SLOW_DOWN, content_type="application/xml")
        if self.faults.happens("lost_request"):
            await asyncio.sleep(self.faults.pause)
            return self._dropped(request)
        status, headers, answer = await self._forward(request, body)
        if self.faults.happens("lost_answer"):
            return self._dropped(request)
        if request.method == "GET" and len(answer) > 1 and status in (200, 206) and self.faults.happens("torn_body"):
            torn = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(answer))})
            await torn.prepare(request)
            await torn.write(answer[: len(answer) // 2])
            return self._dropped(request)
        if request.method == "HEAD":
            return web.Response(status=status, headers=headers)
        return web.Response(
            status=status, headers={name: value for name, value in headers.items() if name != "Content-Length"}, body=answer
        )

    async def _forward(self, request: web.Request, body: bytes) -> tuple[int, dict[str, str], bytes]:
        url = URL(self.target + request.raw_path, encoded=True)
        # Signatures cover the headers, and so the host that the client sees.
        headers = [
            (name, value) for name, value in request.headers.items() if name.lower() not in {"connection", "transfer-encoding", "expect"}
        ]
        async with self._session.request(request.method, url, headers=headers, data=body, allow_redirects=False) as answered:
            end_to_end = {name: value for name, value in answered.headers.items() if name.lower() not in _HOP}
            if request.method == "HEAD" and "Content-Length" in answered.headers:
                end_to_end["Content-Length"] = answered.headers["Content-Length"]
            return answered.status, end_to_end, await answered.read()

    @staticmethod
    def _dropped(request: web.Request) -> web.Response:
        """Close the connection without a response."""
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)


@contextmanager
def proxied(target: str, faults: Faults) -> Iterator[str]:
    """Run a proxy of the server at `target` in a thread, and return its address."""
    loop, proxy, started = asyncio.new_event_loop(), _Proxy(target, faults), threading.Event()
    port = 0

    def run() -> None:
        nonlocal port
        port = loop.run_until_complete(proxy.start())
        started.set()
        loop.run_forever()

    thread = threading.Thread(target=run, name="fault proxy", daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
