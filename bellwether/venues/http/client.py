"""A venue's interface over HTTP: bounded rate, bounded retries, one connection pool, and statistics of what it took."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial, wraps
from random import Random
from types import TracebackType
from typing import Any, ClassVar, Concatenate, ParamSpec, Protocol, Self
from urllib.parse import unquote, urlsplit

import httpx
from aiolimiter import AsyncLimiter
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from bellwether.concurrency import together
from bellwether.errors import ConfigError, VenueError
from bellwether.settings import settings
from bellwether.venues.http.page import Params, VenueCall, VenuePage, format_target, strip_user
from bellwether.venues.http.paging import Listing, iterate_pages
from bellwether.venues.http.response_body import ENCODINGS, OversizedBody, TooLargeError, read_body
from bellwether.venues.http.retry import (
    BLOCKED,
    RATE_LIMIT,
    TIMEOUT,
    Backoff,
    RefusedError,
    RetryPolicy,
    TransientFailure,
    check_body,
    check_status,
    describe_failure,
    parse_error_text,
    parse_http_date,
    refuse_redirect,
)
from bellwether.venues.wire.times import is_plausible

P = ParamSpec("P")
log = logging.getLogger(__name__)

#: Failures that are retried. One for all calls: tenacity's conditions refer to themselves.
_MAY_PASS = retry_if_exception_type(TransientFailure)


class Bucket(Protocol):
    """A leaky bucket common to several processes, as `bellwether.journal.shared_limits` makes them."""

    async def acquire(self, amount: float = 1) -> None:
        """Wait until it has room for `amount`."""

    async def pause(self, seconds: float) -> None:
        """Admit nothing for so many seconds, in any process."""


class BucketSource(Protocol):
    """Source of buckets that processes share by name."""

    def limiter(self, name: str, max_rate: float, time_period: float, /) -> Bucket:
        """The bucket of `max_rate` tokens that drains in `time_period` seconds."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A client-side token bucket; the defaults are the documented ones of Kalshi's Basic tier.

    tokens_per_second: refill. tokens_per_read: cost of a call. bucket_seconds: how many seconds of refill the bucket holds.
    connections: most calls at once. timeout: seconds for each phase of a call (connect, send, receive, wait for a connection).
    shared: where processes share their buckets; each client has its own when left out.
    """

    tokens_per_second: float = 200.0
    tokens_per_read: float = 10.0
    bucket_seconds: float = 2.0
    connections: int = 8
    timeout: float = 30.0
    shared: BucketSource | None = None

    def bucket(self) -> AsyncLimiter:
        """A full bucket; it holds at least one call."""
        return AsyncLimiter(*self._size)

    def shared_bucket(self, url: str) -> Bucket | None:
        """The bucket of all processes that read the interface at `url`; None if it is not shared."""
        return self.shared.limiter(f"venue {url}", *self._size) if self.shared else None

    @property
    def _size(self) -> tuple[float, float]:
        """Tokens that the bucket holds, and the seconds in which they are refilled."""
        capacity = max(self.tokens_per_second * self.bucket_seconds, self.tokens_per_read)
        return capacity, capacity / self.tokens_per_second


@dataclass(slots=True)
class RequestStats:
    """Statistics of a client: attempts sent, transient failures by kind, and seconds spent waiting for the rate limit.

    limited_seconds counts the own bucket and the back-off after the venue's 429; calls that wait side by side count each.
    """

    attempts: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    limited_seconds: float = 0.0

    def count(self, *, attempts: int = 0, failure: str | None = None, limited: float = 0.0) -> None:
        """Add what was done."""
        self.attempts += attempts
        self.limited_seconds += limited
        if failure is not None:
            self.failures[failure] += 1


#: The statistics that count what is done on behalf of this task, by whatever client; pulls side by side have one each.
COUNTED: ContextVar[RequestStats | None] = ContextVar("counted", default=None)


def _utc_now() -> datetime:
    return datetime.now(UTC)


@cache
def _create_tls_context() -> ssl.SSLContext:
    """The context of all clients: reading the certificates takes longer than a call."""
    return httpx.create_ssl_context()


def listing_method(build: Callable[P, Listing]) -> Callable[Concatenate[Any, P], AsyncIterator[VenuePage]]:
    """A method of a client that follows the listing that `build` describes."""

    @wraps(build)
    def method(client: HttpClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[VenuePage]:
        return client.follow_known(build(*args, **kwargs))

    return method


def call_method(build: Callable[P, VenueCall]) -> Callable[Concatenate[Any, P], Awaitable[VenuePage]]:
    """A method of a client that makes the call that `build` describes."""

    @wraps(build)
    def method(client: HttpClient, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[VenuePage]:
        return client.answer(build(*args, **kwargs))

    return method


class HttpClient:
    """Reads one interface of a venue. Use it as an async context manager; subclasses add the calls.

    Attributes:
        base_url: what all paths are relative to, of the venue or the sandbox; a user and a password in it are sent, and shown nowhere.
        limits, retry: bounds of rate, concurrency and repetition; the venue's own rate when left out.
        most_bytes: bound on a body, as sent and as unpacked; that of the settings when left out.
        transport, sleep, rng, clock: what the client does to the world, for tests to replace: an httpx transport, a coroutine that waits,
            the source of jitter, and the time (aware, UTC) for answers without a Date header.
    """

    #: Display name of the interface, and the setting that contains its address.
    name: ClassVar[str] = "the venue"
    setting: ClassVar[str] = ""
    #: Whether an answer may be a JSON list.
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
        self.stats = RequestStats()
        self._most_bytes = most_bytes or settings().response_mb << 20
        self._retry = retry or RetryPolicy()
        self._backoff = Backoff(self._retry, rng or Random())
        self._transport = transport
        self._sleep = sleep
        self._clock = clock

    def _address(self, base_url: str) -> tuple[str, httpx.BasicAuth | None]:
        """The address without user and password, and those. Raises `ConfigError` for what is no address of HTTP."""
        shown = f"connecting to {self.name}: the address {strip_user(base_url)!r}"
        try:
            parts = urlsplit(base_url)
            httpx.URL(base_url)
        except (ValueError, httpx.InvalidURL) as error:
            raise ConfigError(f"{shown} is none ({type(error).__name__}); mend the setting {self.setting}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{shown} does not start with http:// or https:// and a host; mend the setting {self.setting}")
        user, at, host = parts.netloc.rpartition("@")
        name, _, password = user.partition(":")
        auth = httpx.BasicAuth(unquote(name), unquote(password)) if at else None
        return parts._replace(netloc=host).geturl().rstrip("/"), auth

    async def __aenter__(self) -> Self:
        self._shared = self.limits.shared_bucket(self._base_url)
        self._bucket = self._shared or self.limits.bucket()
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

    async def page(self, path: str, params: Params = (), *, ordinal: int = 0, accept: frozenset[int] = frozenset()) -> VenuePage:
        """The answer to GET `path` with `params`; see `answer`."""
        return await self.answer(VenueCall(path, params), ordinal=ordinal, accept=accept)

    async def answer(self, call: VenueCall, *, ordinal: int = 0, accept: frozenset[int] = frozenset()) -> VenuePage:
        """The answer to `call`, repeated while its failures may pass.

        accept: HTTP statuses from 400 on that the caller wants as an answer. Raises `RefusedError` for every other status that repeating does
        not help, `TooLargeError` for a body beyond the bound, and `VenueError` when attempts or time run out; all name the call, the number
        of attempts and the cause.
        """
        attempts = 0

        async def attempt() -> VenuePage:
            nonlocal attempts
            attempts += 1
            return await self._attempt(call, ordinal, attempts)

        retrying = AsyncRetrying(
            retry=_MAY_PASS,
            wait=self._backoff.wait,
            stop=self._backoff.stop,
            sleep=self._sleep,
            before_sleep=lambda state: self._before_sleep(call, state),
            reraise=True,
        )
        try:
            page: VenuePage = await retrying(attempt)
        except TransientFailure as failure:
            raise VenueError(
                call.request,
                attempts,
                failure.cause,
                "The venue may be down or busy: run again later, what was pulled is stored",
                kind=failure.kind,
            ) from failure
        finally:
            # What tenacity did refers to itself: it would stay in memory, with the page, until garbage is collected.
            retrying.iter_state.reset()
        if page.status >= 300 and page.status not in accept:
            raise self._refused(call, attempts, page.status, parse_error_text(page.body))
        return page

    def _refused(self, call: VenueCall, attempts: int, status: int, words: str) -> RefusedError:
        return RefusedError(
            call.request, attempts, status, f"HTTP {status}: {words}", f"{self.name} is public: {BLOCKED}" if status in (401, 403) else None
        )

    async def known(self, listing: Listing) -> Listing:
        """`listing` in the form that the address knows."""
        return listing

    async def answers(self, calls: Sequence[VenueCall], *, accept: frozenset[int] = frozenset()) -> list[VenuePage]:
        """The answers to `calls` in their order, asked for several at a time; raises what the first call that fails raises."""
        asked = (partial(self.answer, call, ordinal=ordinal, accept=accept) for ordinal, call in enumerate(calls))
        return await together(asked, most=self.limits.connections)

    async def _attempt(self, call: VenueCall, ordinal: int, number: int) -> VenuePage:
        started = time.monotonic()
        await self._bucket.acquire(self.limits.tokens_per_read)
        self._count(attempts=1, limited=time.monotonic() - started)
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
        told = parse_http_date(response.headers.get("Date", ""))
        fetched_at = told if told is not None and is_plausible(told) else self._clock()
        page = VenuePage(call.request, response.status_code, fetched_at, body, ordinal, call.body)
        check_body(page, lists=self.lists)
        return page

    async def _pause_all(self, failure: TransientFailure) -> None:
        """Pass a wait that the venue asks for on to the other processes, unless it is longer than any call is repeated."""
        if self._shared and failure.kind == RATE_LIMIT and failure.retry_after and failure.retry_after <= self._retry.seconds:
            await self._shared.pause(failure.retry_after)

    async def _exchange(self, call: VenueCall) -> tuple[httpx.Response, bytes]:
        headers = {"Content-Type": "application/json"} if call.body else None
        url = self._base_url + format_target(call.path, call.params)
        async with self._http.stream(call.method, url, content=call.body or None, headers=headers) as response:
            try:
                return response, await read_body(response, self._most_bytes)
            finally:
                await response.aclose()
                # An answer and its stream refer to each other: they would stay in memory until garbage is collected.
                response.stream = httpx.ByteStream(b"")

    def _count(self, **done: Any) -> None:
        for stats in (self.stats, COUNTED.get()):
            if stats is not None:
                stats.count(**done)

    def _before_sleep(self, call: VenueCall, state: RetryCallState) -> None:
        failure = state.outcome.exception() if state.outcome else None
        if isinstance(failure, TransientFailure):
            self._count(failure=failure.kind, limited=state.upcoming_sleep if failure.kind == RATE_LIMIT else 0.0)
        log.info("%s: %s; attempt %d in %.1f s", call.request[:200], failure, state.attempt_number + 1, state.upcoming_sleep)

    def follow(self, listing: Listing) -> AsyncGenerator[VenuePage, None]:
        """The pages of `listing`; see `iterate_pages` for the guards."""
        return iterate_pages(listing, self._fetch, pause=self.pause)

    async def follow_known(self, listing: Listing) -> AsyncIterator[VenuePage]:
        """The pages of `listing` in the form that the address knows."""
        async with aclosing(self.follow(await self.known(listing))) as pages:
            async for page in pages:
                yield page

    async def pause(self, number: int) -> None:
        """Wait before the `number`-th repetition of a request, as long as after so many failures."""
        await self._sleep(self._backoff.drawn(number))

    async def _fetch(self, path: str, params: Params, ordinal: int) -> VenuePage:
        return await self.page(path, params, ordinal=ordinal)
