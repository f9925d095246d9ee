"""Chat completions in OpenAI's form over aiohttp: one session for all models, the body kept as it came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from bellwether.journal.facts import Outcome
from bellwether.models.wire.call import Call, Result
from bellwether.models.wire.classify import RawReply, cause_of, classify, lost, unreachable
from bellwether.models.wire.encoding import encoded
from bellwether.models.wire.routes import Route

#: Bytes of the longest body that is read.
LARGEST_BODY = 8 << 20
#: What is kept of a longer one.
_KEPT = 100_000
_CONNECT_SECONDS = 30.0
_KEEP_ALIVE_SECONDS = 30.0


class Direct:
    """The transport, made and closed in one event loop. connections: most at a time, over all models."""

    def __init__(self, connections: int) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=_KEEP_ALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[_tracing()],
            headers={"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "bellwether"},
        )
        self._proxy = cache(_proxy)

    async def close(self) -> None:
        """Close its connections."""
        await self._session.close()

    async def send(self, call: Call, route: Route) -> Result:
        """Send `call`; see `Wire.send`."""
        exchange = _Exchange()
        model, secret = call.model, call.endpoint.api_key

        def failed(outcome: Outcome, reason: str) -> Result:
            return lost(model, outcome, reason, exchange.raw, secret=secret, unsent=not exchange.is_sent)

        def unconnected(outcome: Outcome, cause: str) -> Result:
            return unreachable(model, route.url, cause, exchange.raw, outcome=outcome, secret=secret)

        connecting = min(_CONNECT_SECONDS, model.timeout / 2)
        try:
            async with asyncio.timeout(model.timeout):
                await self._exchange(exchange, route.url, encoded(call, route), secret, connecting)
        except aiohttp.ConnectionTimeoutError:
            return unconnected(Outcome.TIMEOUT, f"no connection in {connecting:g} seconds")
        except TimeoutError:
            return failed(Outcome.TIMEOUT, f"no whole answer in {model.timeout:g} seconds")
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, aiohttp.ClientHttpProxyError) as error:
            return unconnected(Outcome.PROVIDER_ERROR, cause_of(error))
        except (aiohttp.ClientError, OSError) as error:
            return failed(Outcome.PROVIDER_ERROR, f"the connection broke before the answer was whole ({cause_of(error)})")
        if exchange.is_too_long:
            return failed(Outcome.MALFORMED, f"HTTP {exchange.status} with a body of more than {LARGEST_BODY >> 20} MB, which was not read")
        return classify(model, exchange.raw, secret=secret)

    async def _exchange(self, exchange: _Exchange, url: str, body: bytes, secret: str | None, connecting: float) -> None:
        address = _address(url)
        if secret is not None and address.user:
            address = address.with_user(None)  # aiohttp refuses two kinds of credentials
        options: dict[str, Any] = {
            "headers": None if secret is None else {"Authorization": f"Bearer {secret}"},
            "proxy": self._proxy(address),
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=connecting),
            "trace_request_ctx": exchange,
            "allow_redirects": False,
        }
        async with self._session.post(address, data=body, **options) as response:
            exchange.status, exchange.headers = response.status, response.headers
            async for chunk in response.content.iter_any():
                exchange.take(chunk)
                if exchange.is_too_long:
                    response.close()
                    return


class _Exchange:
    """One exchange in progress. is_sent: whether it has had a connection, so that something may have been sent."""

    def __init__(self) -> None:
        self.is_sent = False
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self._started = time.perf_counter()
        self._chunks: list[bytes] = []
        self._size = 0

    def take(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)

    @property
    def is_too_long(self) -> bool:
        return self._size > LARGEST_BODY

    @property
    def raw(self) -> RawReply:
        body = b"".join(self._chunks)
        return RawReply(
            self.status,
            {name.lower(): value for name, value in self.headers.items()},
            body[:_KEPT] if self.is_too_long else body,
            round((time.perf_counter() - self._started) * 1000),
        )


def _tracing() -> aiohttp.TraceConfig:
    """Callbacks that mark an exchange as sent as soon as it has a connection."""

    async def mark(session: aiohttp.ClientSession, context: Any, parameters: Any) -> None:
        context.trace_request_ctx.is_sent = True

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_end.append(mark)
    tracing.on_connection_reuseconn.append(mark)
    return tracing


@cache
def _address(url: str) -> URL:
    return URL(url)


def _proxy(address: URL) -> str | None:
    """The proxy that the environment names for an address, as other HTTP clients use it."""
    if not address.host or proxy_bypass(address.host):
        return None
    return getproxies().get(address.scheme)
