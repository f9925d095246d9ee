"""Polymarket over the generated world at fixed instants, in process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.polymarket import Clob, Gamma, GeneratedPolymarket, PolymarketSource
from bellwether.sandbox.polymarket.listing import Listing
from bellwether.sandbox.polymarket.model import ListedMarket
from bellwether.sandbox.world import GeneratedWorld

NOW = datetime(2025, 6, 15, 17, 20, 3, tzinfo=UTC)


class Site:
    """Calls Gamma and the CLOB of a source at one instant."""

    def __init__(self, source: PolymarketSource, now: datetime, runner: asyncio.Runner) -> None:
        self.clock = clock = Clock(now)
        routes = [Mount("/gamma", routes=Gamma(source, clock).routes()), Mount("/clob", routes=Clob(source, clock).routes())]
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(Starlette(routes=routes)), base_url="http://sandbox")
        self._runner = runner
        self.source = source
        self.now = now

    def response(self, path: str, **params: Any) -> httpx.Response:
        """Return the response, successful or not."""
        return self._runner.run(self._http.get(path, params=params))

    def get(self, path: str, **params: Any) -> Any:
        """Return the body of a successful response."""
        response = self.response(path, **params)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, path: str, **params: Any) -> tuple[int, Any]:
        """Return status and body of a failed response."""
        response = self.response(path, **params)
        return response.status_code, response.json()

    def post(self, path: str, body: Any) -> httpx.Response:
        """Return the response to a batch."""
        return self._runner.run(self._http.post(path, json=body))

    def all(self, name: str, **params: Any) -> list[dict[str, Any]]:
        """Yield every object of a listing by keyset, page after page."""
        objects: list[dict[str, Any]] = []
        for _ in range(10_000):
            page = self.get(f"/gamma/{name}/keyset", **params)
            objects += page[name]
            if "next_cursor" not in page:
                return objects
            params["after_cursor"] = page["next_cursor"]
        raise AssertionError(f"{name} never end")


@pytest.fixture(scope="session")
def listing(world: GeneratedWorld) -> Listing:
    """Polymarket's listing of the shared world."""
    return Listing(world)


@pytest.fixture(scope="session")
def markets(listing: Listing) -> list[ListedMarket]:
    """Its markets of half a year, from the first days of the world on."""
    return [market for home in range(180) for event in listing.day(home) for market in event.markets]


@pytest.fixture(scope="session")
def polymarket(world: GeneratedWorld) -> GeneratedPolymarket:
    """Polymarket over the shared world."""
    return GeneratedPolymarket(world)


@pytest.fixture(scope="session")
def at(polymarket: GeneratedPolymarket, runner: asyncio.Runner) -> Callable[[datetime], Site]:
    """Function that returns Polymarket at an instant."""
    return lambda now: Site(polymarket, now, runner)


@pytest.fixture(scope="session")
def site(at: Callable[[datetime], Site]) -> Site:
    """Polymarket at `NOW`."""
    return at(NOW)


@pytest.fixture(scope="session")
def play(runner: asyncio.Runner) -> Callable[[PolymarketSource], Site]:
    """Function that returns the routes over a source, with a separate clock."""
    return lambda source: Site(source, source.default_clock().now(), runner)
