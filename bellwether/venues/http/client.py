"""HTTP clients of the venues' interfaces, with rate limits, bounded retries, a connection pool and request statistics."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from random import Random
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self
from urllib.parse import unquote, urlsplit

import httpx

from bellwether.concurrency import together
from bellwether.errors import ConfigError, VenueError
from bellwether.settings import settings
from bellwether.venues.http.page import VenueCall, VenuePage, format_target, strip_user
from bellwether.venues.http.paging import Listing, iterate_pages
from bellwether.venues.http.retry import (
    BLOCKED,
    ENCODINGS,
    RATE_LIMIT,
    TIMEOUT,
    OversizedBody,
    RefusedError,
    RetryPolicy,
    TooLargeError,
    TransientFailure,
    check_body,
    check_status,
    describe_failure,
    parse_error_text,
    parse_http_date,
    read_body,
    refuse_redirect,
)
from bellwether.venues.wire.times import is_plausible

log = logging.getLogger(__name__)


class Bucket(Protocol):
    """Rate limit. `bellwether.journal.limits` implements the one that processes share."""

    async def acquire(self, amount: float = 1) -> None:
        """Wait until `amount` tokens are available, and take them."""

    async def pause(self, seconds: float) -> None:
        """Block all users of the bucket for this many seconds."""


class BucketSource(Protocol):
    """Source of rate limits, each of which has a name."""

    def limiter(self, name: str, max_rate: float, time_period: float, /) -> Bucket:
        """Return the bucket `name`, which allows `max_rate` tokens per `time_period` seconds."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Client-side rate limit; the defaults are the documented limits of Kalshi's Basic tier.

    tokens_per_second: refill. tokens_per_read: cost of a call. bucket_seconds: seconds of refill that the bucket can store. connections:
    maximum number of concurrent calls. timeout: seconds for each phase of a call (connect, send, receive, wait for a connection). shared:
    source of the buckets that processes share; if None, the rate is not limited.
    """

    tokens_per_second: float = 200.0
    tokens_per_read: float = 10.0
    bucket_seconds: float = 2.0
    connections: int = 8
    timeout: float = 30.0
    shared: BucketSource | None = None

    def bucket(self, url: str) -> Bucket | None:
        """Return the bucket for the interface at `url`, which holds enough for at least one call; None without a limit."""
        capacity = max(self.tokens_per_second * self.bucket_seconds, self.tokens_per_read)
        return self.shared.limiter(f"venue {url}", capacity, capacity / self.tokens_per_second) if self.shared else None


@dataclass(slots=True)
class RequestStats:
    """Request statistics: attempts sent, transient failures by kind, and seconds spent waiting for the rate limit.

    limited_seconds includes waits for the bucket and back-off after a 429; concurrent waits are added up.
    """

    attempts: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    limited_seconds: float = 0.0

    @property
    def note(self) -> dict[str, Any]:
        """The statistics as JSON; seconds have one decimal."""
        return {"attempts": self.attempts, "failures": dict(self.failures), "limited_seconds": round(self.limited_seconds, 1)}


#: Statistics that count the requests of the current task, whichever client sends them; concurrent pulls have one each.
TASK_STATS: ContextVar[RequestStats | None] = ContextVar("task_stats", default=None)


def _count(*, attempts: int = 0, failure: str | None = None, limited: float = 0.0) -> None:
    """Add attempts, a failure and seconds of waiting to the statistics of the current task."""
    stats = TASK_STATS.get()
    if stats is None:
        return
    stats.attempts += attempts
    stats.limited_seconds += limited
    if failure is not None:
        stats.failures[failure] += 1


def _utc_now() -> datetime:
    return datetime.now(UTC)


@cache
def _create_tls_context() -> ssl.SSLContext:
    """Create the TLS context that all clients share, because loading the certificates takes longer than a call."""
    return httpx.create_ssl_context()


class HttpClient:
    """Client of one HTTP interface of a venue, used as an async context manager.

    Attributes:
        base_url: base of all paths, at the venue or the sandbox; a user and password in it are sent but never displayed.
        limits, retry: bounds of rate, concurrency and retries; default: the venue's own rate.
        most_bytes: maximum size of a body, both as sent and decompressed; default: from the settings.
        transport, sleep, rng, clock: replaceable in tests: an httpx transport, a coroutine that waits,
            the source of jitter, and the time (aware, UTC) for responses without a Date header.
    """

    #: Display name of the interface, and the setting that contains its address.
    name: ClassVar[str] = "the venue"
    setting: ClassVar[str] = ""
    #: Whether a response may be a JSON list.
    lists: ClassVar[bool] = False
    #: The venue's documented rate.
    usual_limits: ClassVar[RateLimit] = RateLimit()

    def __init__(
        self,
        base_url: str,
        *,
        limits: RateLimit | None = None,
        retry: RetryPolicy | None = None,
        most_bytes: int | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Random | None = None,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._base_url, self._auth = self._address(base_url)
        self.limits = limits or self.usual_limits
        self._most_bytes = most_bytes or settings().response_mb << 20
        self._retry = retry or RetryPolicy()
        self._rng = rng or Random()
        self._transport = transport
        self._sleep = sleep
        self._clock = clock

    def _address(self, base_url: str) -> tuple[str, httpx.BasicAuth | None]:
        """Split the address into URL and credentials. Raises `ConfigError` for an invalid HTTP address."""
        try:
            parts = urlsplit(base_url)
            is_valid = parts.scheme in ("http", "https") and bool(httpx.URL(base_url).host)
        except (ValueError, httpx.InvalidURL):
            is_valid = False
        if not is_valid:
            problem = f"the address {strip_user(base_url)!r} does not start with http:// or https:// and a host"
            raise ConfigError(f"connecting to {self.name}: {problem}; mend the setting {self.setting}")
        user, at, host = parts.netloc.rpartition("@")
        name, _, password = user.partition(":")
        auth = httpx.BasicAuth(unquote(name), unquote(password)) if at else None
        return parts._replace(netloc=host).geturl().rstrip("/"), auth

    async def __aenter__(self) -> Self:
        self._bucket = self.limits.bucket(self._base_url)
        self._connections = asyncio.Semaphore(self.limits.connections)
        self._http = httpx.AsyncClient(
            transport=self._transport,
            verify=_create_tls_context(),
            auth=self._auth,
            timeout=self.limits.timeout,
            limits=httpx.Limits(max_connections=self.limits.connections, max_keepalive_connections=self.limits.connections),
            headers={"Accept": "application/json", "Accept-Encoding": ENCODINGS},
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self._http.aclose()

    async def fetch(self, call: VenueCall, *, ordinal: int = 0, accept: frozenset[int] = frozenset()) -> VenuePage:
        """Send `call`, retry transient failures, and return the response. accept: HTTP statuses of 400 or more to return instead of
        raising. ordinal: number that the page gets.

        Raises `RefusedError` for every other status that a retry cannot cure, `TooLargeError` for a body beyond the bound, and `VenueError`
        when attempts or time run out.
        """
        started, waited, attempts = time.monotonic(), 0.0, 0
        while True:
            attempts += 1
            try:
                page = await self._attempt(call, ordinal, attempts)
                break
            except TransientFailure as failure:
                pause = failure.retry_after or self._retry.draw(attempts, self._rng)
                if self._retry.is_spent(attempts, max(time.monotonic() - started, waited) + pause):
                    later = "The venue may be down or busy: run again later, what was pulled is stored"
                    raise VenueError(call.request, attempts, failure.cause, later, kind=failure.kind) from failure
                _count(failure=failure.kind, limited=pause if failure.kind == RATE_LIMIT else 0.0)
                log.info("%s: %s; attempt %d in %.1f s", call.request[:200], str(failure), attempts + 1, pause)
            await self._sleep(pause)
            waited += pause
        if page.status >= 300 and page.status not in accept:
            advice = f"{self.name} is public: {BLOCKED}" if page.status in (401, 403) else None
            cause = f"HTTP {page.status}: {parse_error_text(page.body)}"
            raise RefusedError(call.request, attempts, page.status, cause, advice)
        return page

    async def fetch_all(self, calls: Sequence[VenueCall], *, accept: frozenset[int] = frozenset()) -> list[VenuePage]:
        """Send `calls` concurrently and return their responses in order. Raises the error of the first call that fails."""
        requests = (partial(self.fetch, call, ordinal=ordinal, accept=accept) for ordinal, call in enumerate(calls))
        return await together(requests, most=self.limits.connections)

    async def _attempt(self, call: VenueCall, ordinal: int, number: int) -> VenuePage:
        """Send `call` once. ordinal: number that the page gets. number: of this attempt, for error messages."""
        started = time.monotonic()
        if self._bucket is not None:
            await self._bucket.acquire(self.limits.tokens_per_read)
        _count(attempts=1, limited=time.monotonic() - started)
        try:
            async with self._connections, asyncio.timeout(self._retry.seconds):
                response, body = await self._exchange(call)
        except httpx.HTTPError as error:
            raise describe_failure(error) from error
        except TimeoutError as error:
            raise TransientFailure(TIMEOUT, f"no whole answer in {self._retry.seconds:g} seconds") from error
        except OversizedBody:
            raise TooLargeError(call.request, number, self._most_bytes) from None
        try:
            check_status(response, body, self._clock)
        except TransientFailure as failure:
            await self._pause_all(failure)
            raise
        if response.has_redirect_location:
            raise refuse_redirect(call.request, number, response, self.setting)
        stated = parse_http_date(response.headers.get("Date", ""))
        fetched_at = stated if stated is not None and is_plausible(stated) else self._clock()
        page = VenuePage(call.request, response.status_code, fetched_at, body, ordinal, call.body)
        check_body(page, call.required, lists=self.lists)
        return page

    async def _pause_all(self, failure: TransientFailure) -> None:
        """Make all processes wait as long as the venue's `Retry-After` demands, unless that exceeds the retry bounds."""
        if self._bucket and failure.kind == RATE_LIMIT and failure.retry_after and failure.retry_after <= self._retry.seconds:
            await self._bucket.pause(failure.retry_after)

    async def _exchange(self, call: VenueCall) -> tuple[httpx.Response, bytes]:
        """Send `call` without retries, and read the whole response."""
        headers = {"Content-Type": "application/json"} if call.body else None
        url = self._base_url + format_target(call.path, call.params)
        async with self._http.stream(call.method, url, content=call.body or None, headers=headers) as response:
            try:
                return response, await read_body(response, self._most_bytes)
            finally:
                await response.aclose()
                # A response and its stream refer to each other: they would stay in memory until garbage is collected.
                response.stream = httpx.ByteStream(b"")

    async def follow(self, listing: Listing) -> AsyncIterator[VenuePage]:
        """Yield the pages of `listing`. Raises `VenueError` for an endless listing."""
        async with aclosing(iterate_pages(listing, self.fetch, pause=self.pause)) as pages:
            async for page in pages:
                yield page

    async def pause(self, number: int) -> None:
        """Wait for the jittered back-off that follows `number` failures in a row."""
        await self._sleep(self._retry.draw(number, self._rng))


class KalshiClient(HttpClient):
    """Client of Kalshi's public market data; `base_url` ends with /trade-api/v2."""

    name = "Kalshi"
    setting = "kalshi_url"


class GammaClient(HttpClient):
    """Client of Polymarket's Gamma interface."""

    name = "Polymarket's Gamma interface"
    setting = "gamma_url"
    #: The documented 300 calls of /markets in 10 s, with some to spare; other routes allow more.
    usual_limits: ClassVar[RateLimit] = RateLimit(tokens_per_second=25, tokens_per_read=1, bucket_seconds=1)


class ClobClient(HttpClient):
    """Client of Polymarket's CLOB interface. Its POST calls only read, and are retried like all other calls."""

    name = "Polymarket's CLOB interface"
    setting = "clob_url"
    lists = True
    #: The documented 500 calls of /books in 10 s, with some to spare; other routes allow more.
    usual_limits: ClassVar[RateLimit] = RateLimit(tokens_per_second=40, tokens_per_read=1, bucket_seconds=2)
