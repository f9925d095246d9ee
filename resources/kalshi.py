"""Kalshi as a resource: a client on whatever world the settings choose, and the store of verbatim pages.

Not here: what is asked of the venue (bellwether/venues/kalshi) or what is made of it (assets/).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import TypeVar

import dagster as dg
from pydantic import Field

from bellwether.errors import ConfigError, LakeError
from bellwether.settings import KALSHI_LIVE_URL, World
from bellwether.venues.http.retry import RefusedError
from bellwether.venues.kalshi.client import KalshiClient, RateLimit

UNLIMITED = RateLimit(tokens_per_second=1e9)

T = TypeVar("T")


class KalshiVenue(dg.ConfigurableResource):
    """Kalshi's REST interface in the sandbox, from recordings, or live."""

    world: str = Field(default="sandbox", description="sandbox, playback or live")
    url: str = Field(default=KALSHI_LIVE_URL, description="base URL in the live world")
    tokens_per_second: float = Field(
        default=200.0, description="read tokens per second of your Kalshi tier; a read costs 10. Applies to the live world"
    )
    sandbox_seed: int = Field(default=7, description="seed of the generated world")
    sandbox_now: str | None = Field(default=None, description="ISO time that the sandbox's clock shows")
    playback: str | None = Field(default=None, description="folder of recorded bodies")
    playback_now: str | None = Field(default=None, description="ISO time that playback's clock shows")
    candle_days: int = Field(default=8, description="days of hourly candles pulled before each market's close")
    candle_markets: int = Field(default=2000, description="most markets per day for which candles are pulled")

    @contextmanager
    def address(self) -> Iterator[str]:
        """Base URL of the venue; the sandbox and playback are served on a loopback port for as long as this is open."""
        world = World(self.world)
        if world is World.LIVE:
            yield self.url
            return
        from bellwether.sandbox import serve
        from bellwether.sandbox.worlds import application

        app = application(
            world, seed=self.sandbox_seed, now=_instant(self.sandbox_now), folder=self.playback, folder_now=_instant(self.playback_now)
        )
        with serve(app) as url:
            yield url

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KalshiClient]:
        """A connected client; its rate limit is the live venue's, in the other worlds there is none."""
        limits = RateLimit(tokens_per_second=self.tokens_per_second) if self.world == World.LIVE else UNLIMITED
        with self.address() as url:
            async with KalshiClient(url, limits=limits) as client:
                yield client

    def run(self, work: Callable[[KalshiClient], Awaitable[T]]) -> T:
        """Call `work(client)` to its end in an event loop of its own.

        What would fail again in the same way (a setting, a missing table, a refusal of the venue) is a `dg.Failure` that is not retried.
        """

        async def session() -> T:
            async with self.client() as client:
                return await work(client)

        try:
            return asyncio.run(session())
        except (ConfigError, LakeError, RefusedError) as error:
            raise dg.Failure(str(error), allow_retries=False) from error


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
