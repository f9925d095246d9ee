"""Kalshi's market data over HTTP: bounded rate, bounded retries, one connection pool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from random import Random
from types import TracebackType
from typing import Concatenate, ParamSpec, Self

import httpx
from aiolimiter import AsyncLimiter
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from bellwether.errors import ConfigError, VenueError
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.page import Page, Params, request_text
from bellwether.venues.kalshi.paging import Listing, walk
from bellwether.venues.kalshi.retry import (
    Backoff,
    RefusedError,
    Retry,
    Transient,
    check_body,
    check_status,
    error_text,
    http_date,
    transient_failure,
)
from bellwether.venues.kalshi.routes import Call

P = ParamSpec("P")
log = logging.getLogger(__name__)

#: Field that tells one record of a list from another.
IDENTITIES = {"markets": "ticker", "events": "event_ticker", "series": "ticker"}


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A client-side token bucket; the defaults are the venue's documented Basic tier.

    tokens_per_second: refill. tokens_per_read: cost of a call. bucket_seconds: how many seconds of refill the bucket holds.
    connections: most calls at once. timeout: seconds for each phase of a call (connect, send, receive, wait for a connection).
    """

    tokens_per_second: float = 200.0
    tokens_per_read: float = 10.0
    bucket_seconds: float = 2.0
    connections: int = 8
    timeout: float = 30.0

    def bucket(self) -> AsyncLimiter:
        """A full bucket; it holds at least one call."""
        capacity = max(self.tokens_per_second * self.bucket_seconds, self.tokens_per_read)
        return AsyncLimiter(capacity, capacity / self.tokens_per_second)


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _following(build: Callable[P, Listing]) -> Callable[Concatenate[KalshiClient, P], AsyncIterator[Page]]:
    """A method that follows the listing that `build` describes."""

    @wraps(build)
    def method(client: KalshiClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Page]:
        return client.follow(build(*args, **kwargs))

    return method


def _answering(build: Callable[P, Call]) -> Callable[Concatenate[KalshiClient, P], Awaitable[Page]]:
    """A method that makes the call that `build` describes."""

    @wraps(build)
    def method(client: KalshiClient, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[Page]:
        call = build(*args, **kwargs)
        return client.page(call.path, call.params)

    return method


class KalshiClient:
    """Reads Kalshi's public market data. Use it as an async context manager.

    Parameters
    ----------
    base_url: up to and with /trade-api/v2, of the venue or the sandbox.
    limits, retry: bounds of rate, concurrency and repetition.
    transport, sleep, rng, clock: what the client does to the world, for tests to replace: an httpx transport, a coroutine that waits,
        the source of jitter, and the time (aware, UTC) for answers without a Date header.
    """

    def __init__(
        self,
        base_url: str,
        *,
        limits: RateLimit | None = None,
        retry: Retry | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Random | None = None,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ConfigError(
                f"connecting to Kalshi: the address {base_url!r} does not start with http:// or https://; mend the setting kalshi_url"
            )
        self.limits = limits or RateLimit()
        self._base_url = base_url.rstrip("/")
        self._backoff = Backoff(retry or Retry(), rng or Random())
        self._transport = transport
        self._sleep = sleep
        self._clock = clock

    async def __aenter__(self) -> Self:
        self._bucket = self.limits.bucket()
        self._http = httpx.AsyncClient(
            transport=self._transport,
            timeout=self.limits.timeout,
            limits=httpx.Limits(max_connections=self.limits.connections, max_keepalive_connections=self.limits.connections),
            headers={"Accept": "application/json"},
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self._http.aclose()

    async def page(self, path: str, params: Params = (), *, ordinal: int = 0, accept: frozenset[int] = frozenset()) -> Page:
        """The answer to GET `path` with `params`, repeated while its failures may pass.

        accept: HTTP statuses from 400 on that the caller wants as an answer. Raises `RefusedError` for every other status that repeating does
        not help, and `VenueError` when attempts or time run out; both name the call, the number of attempts and the venue's words.
        """
        request = request_text(path, params)
        attempts = 0

        async def attempt() -> Page:
            nonlocal attempts
            attempts += 1
            return await self._attempt(request, ordinal)

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(Transient),
            wait=self._backoff.wait,
            stop=self._backoff.stop,
            sleep=self._sleep,
            before_sleep=lambda state: _log_retry(request, state),
            reraise=True,
        )
        try:
            page: Page = await retrying(attempt)
        except Transient as failure:
            raise VenueError(
                request, attempts, failure.cause, "The venue may be down or busy: run again later, what was pulled is stored"
            ) from failure
        if page.status >= 300 and page.status not in accept:
            raise RefusedError(request, attempts, page.status, f"HTTP {page.status}: {error_text(page.body)}")
        return page

    async def _attempt(self, request: str, ordinal: int) -> Page:
        await self._bucket.acquire(self.limits.tokens_per_read)
        try:
            response = await self._http.get(self._base_url + request.removeprefix("GET "))
        except httpx.HTTPError as error:
            raise transient_failure(error) from error
        check_status(response, self._clock)
        fetched_at = http_date(response.headers.get("Date", "")) or self._clock()
        page = Page(request, response.status_code, fetched_at, response.content, ordinal)
        check_body(page)
        return page

    def pages(self, path: str, params: Params, items_key: str, *, cursor: str | None = None) -> AsyncIterator[Page]:
        """The pages of a listing whose records stand under `items_key`, from `cursor` on; see `walk` for the guards."""
        return walk(Listing(path, params, items_key, IDENTITIES.get(items_key, "ticker")), self._fetch, cursor=cursor)

    def follow(self, listing: Listing) -> AsyncIterator[Page]:
        """The pages of `listing` from its beginning."""
        return walk(listing, self._fetch)

    async def _fetch(self, path: str, params: Params, ordinal: int) -> Page:
        return await self.page(path, params, ordinal=ordinal)

    events = _following(routes.events)
    markets = _following(routes.markets)
    historical_markets = _following(routes.historical_markets)
    series = _following(routes.series)
    historical_cutoff = _answering(routes.historical_cutoff)
    market = _answering(routes.market)
    candles = _answering(routes.candles)
    candles_batch = _answering(routes.candles_batch)
    historical_candles = _answering(routes.historical_candles)


def _log_retry(request: str, state: RetryCallState) -> None:
    cause = state.outcome.exception() if state.outcome else None
    log.info("%s: %s; attempt %d in %.1f s", request[:200], cause, state.attempt_number + 1, state.upcoming_sleep)
