"""A venue in a function: answers requests from a script, counts them, and never waits."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import httpx
import orjson

from bellwether.venues.http.client import KalshiClient, RateLimit
from bellwether.venues.http.retry import RetryPolicy

DATE = "Fri, 20 Mar 2026 08:30:00 GMT"
URL = "https://venue.example/trade-api/v2"
FAST = RateLimit(tokens_per_second=1e9, connections=1)

Handler = Callable[[httpx.Request], httpx.Response]


def answer(body: Any, *, status: int = 200, **headers: str) -> httpx.Response:
    """Return a JSON answer, or bytes verbatim."""
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    return httpx.Response(
        status, content=content, headers={"Date": DATE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    )


class Script:
    """Gives answers in turn and repeats the last. Exceptions in the script are raised."""

    def __init__(self, *steps: httpx.Response | Exception) -> None:
        self._steps = list(steps)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Exception):
            raise step
        return httpx.Response(step.status_code, content=step.content, headers=step.headers)

    @property
    def urls(self) -> list[str]:
        """Return path and query of every request."""
        return [request.url.raw_path.decode().removeprefix("/trade-api/v2") for request in self.requests]


class Naps:
    """Replacement for sleep that records the seconds."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def client(
    handler: Handler, *, naps: Naps | None = None, retry: RetryPolicy | None = None, limits: RateLimit = FAST, **options: Any
) -> KalshiClient:
    """Return a client of `handler` without waits or random draws."""
    return KalshiClient(
        URL, limits=limits, retry=retry, transport=httpx.MockTransport(handler), sleep=naps or Naps(), rng=Random(1), **options
    )
