"""Clients of a generated world at fixed instants, in process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from bellwether.sandbox import Clock, GeneratedWorld, create_app
from bellwether.sandbox.world.model import FIRST_DAY, to_day_number
from bellwether.sandbox.world.timetable import EARLIEST_LEG

NOW = datetime(2025, 6, 15, 17, 20, 3, tzinfo=UTC)


def closing(world: GeneratedWorld, day: date) -> list[str]:
    """Return the tickers of the markets, without combos, whose actual close is on a UTC day."""
    first = (day - FIRST_DAY).days
    events = (event for home in range(max(first, 0), first + EARLIEST_LEG + 1) for event in world.day(home).events if not event.is_combo)
    return [market.ticker for event in events for market in event.markets if to_day_number(market.life.closes) == first]


class Client:
    """Calls an application in process."""

    def __init__(self, app: Starlette, runner: asyncio.Runner) -> None:
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sandbox/trade-api/v2")
        self._runner = runner

    def response(self, path: str, **params: Any) -> httpx.Response:
        """Return the response, successful or not."""
        return self._runner.run(self._http.get(path, params=params))

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """Return the body of a successful response."""
        response = self.response(path, **params)
        assert response.status_code == 200, response.text
        return response.json()

    def status(self, path: str, **params: Any) -> tuple[int, dict[str, Any]]:
        """Return status and body of any response."""
        response = self.response(path, **params)
        return response.status_code, response.json()

    def all(self, path: str, **params: Any) -> list[dict[str, Any]]:
        """Yield every object of a listing, page after page."""
        name = "events" if path == "/events" else "markets"
        objects: list[dict[str, Any]] = []
        cursor = ""
        for _ in range(10_000):
            page = self.get(path, **params, cursor=cursor)
            objects += page[name]
            cursor = page["cursor"]
            if not cursor:
                return objects
        raise AssertionError(f"{path} never ends")


class Venue(Client):
    """A world at one instant."""

    def __init__(self, world: GeneratedWorld, now: datetime, runner: asyncio.Runner) -> None:
        super().__init__(create_app(world, clock=Clock(now)), runner)
        self.now = now


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all calls."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def world() -> GeneratedWorld:
    """One world for all tests, so that its caches are shared."""
    return GeneratedWorld(11)


@pytest.fixture(scope="session")
def at(world: GeneratedWorld, runner: asyncio.Runner) -> Callable[[datetime], Venue]:
    """Function that returns the world at an instant."""
    return lambda now: Venue(world, now, runner)


@pytest.fixture(scope="session")
def venue(at: Callable[[datetime], Venue]) -> Venue:
    """The world at `NOW`."""
    return at(NOW)


@pytest.fixture(scope="session")
def client(runner: asyncio.Runner) -> Callable[[Starlette], Client]:
    """Function that returns a client of an application."""
    return lambda app: Client(app, runner)
