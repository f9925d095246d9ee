"""Rate limits as the venue enforces them: a token bucket, and HTTP 429 without Retry-After when it is empty."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bellwether.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Limits:
    """Terms of the bucket; the defaults are the venue's documented ones for its lowest tier.

    Parameters
    ----------
    tokens_per_second: rate at which the bucket fills.
    burst_seconds: what the full bucket holds, in seconds of that rate.
    cost: tokens that one request takes.
    """

    tokens_per_second: float = 200.0
    burst_seconds: float = 2.0
    cost: float = 10.0

    def __post_init__(self) -> None:
        if min(self.tokens_per_second, self.burst_seconds, self.cost) <= 0 or self.tokens_per_second * self.burst_seconds < self.cost:
            raise ConfigError(f"limit the sandbox's rate: {self} never lets a request pass; the bucket must hold at least the cost of one")


class TokenBucket:
    """A bucket that fills with the time of `monotonic` (seconds) and gives tokens as long as there are any."""

    def __init__(self, limits: Limits, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._monotonic = monotonic
        self._capacity = limits.tokens_per_second * limits.burst_seconds
        self._tokens = self._capacity
        self._filled_at = monotonic()

    def take(self) -> bool:
        """Take the cost of one request; False when the bucket does not hold it."""
        now = self._monotonic()
        self._tokens = min(self._capacity, self._tokens + (now - self._filled_at) * self._limits.tokens_per_second)
        self._filled_at = now
        if self._tokens < self._limits.cost:
            return False
        self._tokens -= self._limits.cost
        return True


class RateLimited:
    """ASGI middleware: requests beyond the bucket are answered with the venue's 429."""

    def __init__(self, app: ASGIApp, bucket: TokenBucket) -> None:
        self._app = app
        self._bucket = bucket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._bucket.take():
            response = Response(b'{"error":"too many requests"}', status_code=429, media_type="application/json")
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)
