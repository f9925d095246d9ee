"""Pulls over bad connections: no record is lost, none is duplicated, and no half-written page is stored."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.errors import VenueError
from bellwether.lake.storage import open_storage
from bellwether.sandbox.server import serve
from bellwether.venues.day import PullPlan, pull_day
from bellwether.venues.http.client import ClobClient, GammaClient, HttpClient, KalshiClient, RateLimit
from bellwether.venues.http.pages import PageStore
from bellwether.venues.http.retry import RetryPolicy
from bellwether.venues.kalshi.pull import KalshiDay, pull_archive, pull_series
from bellwether.venues.polymarket.pull import PolymarketDay
from bellwether.venues.wire.rejects import HOLE
from tests.faulty_server import FaultyServer, Plan, always, app_of, at_random, no_faults
from tests.unit.venues.polymarket_world import ordinary as polymarket_world
from tests.unit.venues.sessions import stored_pages
from tests.unit.venues.venue import Handler
from tests.unit.venues.world import DAY, closing
from tests.unit.venues.world import ordinary as kalshi_world

#: Part of every address. It must not appear in a log or an error.
SECRET = "s3cr3t-of-the-address"
#: Seconds after which a stalled response is given up.
PATIENCE = 0.1
#: End of a pull under each fault that never passes: the kind of its error, or that its rejects name the missing page.
ENDS = {
    "429": "rate limit",
    "503": "server",
    "stall": "timeout",
    "cut": "connection",
    "html": "malformed",
    "duplicate": "paging",
    "cursor": "paging",
    "drop": "quarantined",
    "401": "authentication",
    "402": "out of credit",
}
#: Shared by all clients, because it takes long to create.
_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
PASSING = ("429", "503", "stall", "cut", "html", "duplicate", "cursor", "drop")


def kalshi() -> Handler:
    """A day with live and archived markets; listings have one record per page."""
    world = kalshi_world()
    world.archive = [closing(f"E-{number}", f"2026-03-14T1{number}:00:00Z") for number in range(3)]
    world.cutoff = "2026-03-15T00:00:00Z"
    world.page_size = 1
    return world


def polymarket() -> Handler:
    """A day in three events; listings have one record per page."""
    world = polymarket_world()
    world.markets = world.markets[:5]  # more empty pages in a row would end the listing
    world.page_size = 1
    return world


async def without_wait(seconds: float) -> None:
    """Replace a wait."""
    await asyncio.sleep(0)


@dataclass(frozen=True)
class Pulls:
    """Pulls from a served venue into a folder."""

    root: str
    folder: Path
    attempts: int = 4

    def client(self, kind: type[HttpClient], path: str) -> Any:
        return kind(
            f"{self.root}/{path}".replace("//", f"//user:{SECRET}@", 1),
            limits=RateLimit(tokens_per_second=1e9, timeout=PATIENCE),
            retry=RetryPolicy(attempts=self.attempts),
            transport=httpx.AsyncHTTPTransport(verify=_TLS),
            sleep=without_wait,
            rng=Random(1),
        )

    def store(self, venue: str) -> PageStore:
        return PageStore(open_storage(str(self.folder)), venue)

    async def series(self, **options: Any) -> Any:
        async with self.client(KalshiClient, "kalshi/trade-api/v2") as client:
            return await pull_series(client, self.store("kalshi"), **options)

    async def archive(self, **options: Any) -> Any:
        async with self.client(KalshiClient, "kalshi/trade-api/v2") as client:
            return await pull_archive(client, self.store("kalshi"), **options)

    async def kalshi_day(self, *, archive: pl.DataFrame | None = None, **options: Any) -> Any:
        rows = pl.concat((await self.archive()).markets()) if archive is None else archive
        async with self.client(KalshiClient, "kalshi/trade-api/v2") as client:
            return await pull_day(KalshiDay(client, DAY, PullPlan(days=2), rows.lazy()), self.store("kalshi"), **options)

    async def polymarket_day(self, **options: Any) -> Any:
        async with self.client(GammaClient, "gamma") as gamma, self.client(ClobClient, "clob") as clob:
            return await pull_day(PolymarketDay(gamma, clob, DAY, PullPlan(days=2)), self.store("polymarket"), **options)


Pull = Callable[..., Awaitable[Any]]
#: Each pull with its frames.
PULLS: dict[str, tuple[Pull, tuple[str, ...]]] = {
    "series": (Pulls.series, ("series", "rejects")),
    "archive": (Pulls.archive, ("markets", "rejects")),
    "kalshi": (Pulls.kalshi_day, ("markets", "events", "prices", "rejects")),
    "polymarket": (Pulls.polymarket_day, ("markets", "events", "winners", "prices", "rejects")),
}


@contextmanager
def served(plan: Plan = no_faults) -> Iterator[tuple[FaultyServer, str]]:
    """Serve both venues, and yield the server with its address."""
    app = polymarket()
    server = FaultyServer(app_of({"kalshi": kalshi(), "gamma": app, "clob": app}), plan)
    with serve(server) as site:
        yield server, site.root


def frames(name: str, pull: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every part of a pull."""
    found = {}
    for part in PULLS[name][1]:
        value = getattr(pull, part)()
        parts = [value] if isinstance(value, pl.DataFrame) else list(value)
        found[part] = [row for frame in parts for row in frame.to_dicts()]
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[Any]]:
    """The frames of all pulls without faults, and the stored pages."""
    folder = tmp_path_factory.mktemp("undisturbed")

    async def pull_all(root: str) -> dict[str, Any]:
        return {name: await pull(Pulls(root, folder)) for name, (pull, _) in PULLS.items()}

    with served() as (_, root):
        done = asyncio.run(pull_all(root))
    assert min(done[name].pull.count(step) for name in ("kalshi", "polymarket") for step in ("markets", "events")) >= 3
    return {name: frames(name, pull) for name, pull in done.items()}, stored_pages(folder)


async def test_pulls_under_passing_faults_equal_undisturbed_ones(tmp_path: Path, undisturbed: Any) -> None:
    expected, pages = undisturbed
    assert [len(expected["kalshi"][part]) for part in ("markets", "events", "rejects")] == [8, 4, 0]
    with served(at_random(dict.fromkeys(PASSING, 0.08), seed=5)) as (server, root):
        run = Pulls(root, tmp_path, attempts=20)
        for name, (pull, _) in PULLS.items():
            assert frames(name, await pull(run)) == expected[name], name
    assert stored_pages(tmp_path) == pages
    assert server.counts.keys() == set(PASSING)


@pytest.mark.parametrize("name", ["kalshi", pytest.param("polymarket", marks=pytest.mark.nightly)])
async def test_a_fault_that_never_passes_fails_after_bounded_retries_and_changes_no_earlier_pull(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, logger="bellwether")
    pull, _ = PULLS[name]
    ends = {}
    with served() as (server, root):
        run = Pulls(root, tmp_path, attempts=2)
        options = {"archive": pl.concat((await run.archive()).markets())} if name == "kalshi" else {}
        earlier = await pull(run, **options)
        before = frames(name, earlier)
        for fault in ENDS:
            server.plan = always(fault)
            try:
                found = await pull(run, refresh=True, **options)
                ends[fault] = "quarantined" if HOLE in {row["reason"] for row in frames(name, found)["rejects"]} else "a silent gap"
            except VenueError as error:
                ends[fault] = error.kind
                assert error.attempts <= 3
                assert SECRET not in str(error)
            assert frames(name, earlier) == before
        server.plan = no_faults
        assert frames(name, await pull(run, refresh=True, **options)) == before
    assert ends == ENDS
    assert SECRET not in caplog.text


async def test_a_day_that_uses_an_archive_with_a_hole_reports_it(tmp_path: Path) -> None:
    with served(always("drop", "/kalshi/trade-api/v2/historical/markets")) as (server, root):
        scan = await Pulls(root, tmp_path).archive()
        rows = pl.concat(scan.markets())
        assert (rows.height, scan.rejects()["reason"].to_list()) == (1, [HOLE, HOLE])
        server.plan = no_faults
        day = await Pulls(root, tmp_path).kalshi_day(archive=rows)
    assert day.rejects().filter(table="raw/kalshi_archive").select("day", "reason").unique().rows() == [(DAY, HOLE)]
