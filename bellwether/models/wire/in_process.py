"""Chat completions in OpenAI's form from an application of this process: what is sent and answered is the same, without a connection."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from yarl import URL

from bellwether.journal.facts import Outcome
from bellwether.models.wire.call import Call, Result
from bellwether.models.wire.classify import RawReply, classify, lost
from bellwether.models.wire.encoding import encoded
from bellwether.models.wire.routes import Route

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

log = logging.getLogger(__name__)


class InProcess:
    """The transport to an ASGI application. It takes a third of the processor time of a server on a loopback port."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def send(self, call: Call, route: Route) -> Result:
        """Send `call`; see `Wire.send`."""
        model, secret = call.model, call.endpoint.api_key
        exchange = _Exchange(encoded(call, route))
        try:
            async with asyncio.timeout(model.timeout):
                await self._application(_scope(route.url, exchange.request, secret), exchange.receive, exchange.send)
        except TimeoutError:
            return lost(model, Outcome.TIMEOUT, f"no whole answer in {model.timeout:g} seconds", exchange.raw, secret=secret)
        except Exception as error:
            log.warning("the application that answers for %s failed", model.name, exc_info=error)
            return lost(model, Outcome.PROVIDER_ERROR, f"the application failed ({type(error).__name__})", exchange.raw, secret=secret)
        return classify(model, exchange.raw, secret=secret)


class _Exchange:
    """One request, and what has come so far of its answer."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self._unread = True
        self._started = time.perf_counter()
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._chunks: list[bytes] = []

    async def receive(self) -> Message:
        if not self._unread:
            return {"type": "http.disconnect"}
        self._unread = False
        return {"type": "http.request", "body": self.request, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message.get("headers", ())}
        elif message["type"] == "http.response.body":
            self._chunks.append(message.get("body", b""))

    @property
    def raw(self) -> RawReply:
        return RawReply(self._status, self._headers, b"".join(self._chunks), round((time.perf_counter() - self._started) * 1000))


def _scope(url: str, body: bytes, secret: str | None) -> dict[str, Any]:
    address = URL(url)
    headers = [
        (b"host", (address.host or "").encode()),
        (b"content-type", b"application/json"),
        (b"accept", b"application/json"),
        (b"user-agent", b"bellwether"),
        (b"content-length", str(len(body)).encode()),
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": address.scheme,
        "path": address.path,
        "raw_path": address.raw_path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers if secret is None else [*headers, (b"authorization", f"Bearer {secret}".encode())],
        "server": (address.host, address.port),
        "client": ("127.0.0.1", 0),
    }
