"""Whole pulls under every fault: equal to undisturbed ones, or ended by a bounded failure that leaves everything as it was.

A cell of the table is one of:

- `equal`: the frames are those of an undisturbed pull;
- `quarantined`: they lack what the venue kept back, and raw/<venue>_rejects says so;
- the kind of the `VenueError` that ends the pull.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.errors import VenueError
from bellwether.lake.storage import open_storage
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.faults import HTTP_FAULTS, LASTING, Faults
from bellwether.sandbox.services import CLOB_PATH, GAMMA_PATH, KALSHI_PATH
from bellwether.sandbox.worlds import generated
from bellwether.tables.raw import KALSHI_ARCHIVE
from bellwether.venues.http.pages import PageStore
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.pull import CandlePlan, pull_archive, pull_day, pull_series
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.venues.polymarket.pull import PricePlan
from bellwether.venues.polymarket.pull import pull_day as pull_polymarket
from bellwether.venues.wire.rejects import HOLE
from tests.faults.cells import ATTEMPTS, SECRET, Served, served, stored, table

NOW = datetime(2025, 4, 10, 17, 20, 3, tzinfo=UTC)
#: A day whose markets are all live, and one whose markets are archived but for the last to settle.
LIVE, ARCHIVED = date(2025, 3, 5), date(2025, 1, 8)
#: Page sizes that make three pages or more of each listing that is pulled.
SIZES = {
    f"{KALSHI_PATH}/markets": 5,
    f"{KALSHI_PATH}/historical/markets": 40,
    f"{KALSHI_PATH}/events": 2,
    f"{GAMMA_PATH}/markets/keyset": 5,
    f"{GAMMA_PATH}/events/keyset": 2,
    f"{CLOB_PATH}/markets": 100,
}
STALLED, PATIENT = 0.3, 60.0
PASSING = sorted(HTTP_FAULTS.keys() - LASTING.keys())

NEVER_CLEARS = """
pull        storm       status  stall    cut         html       duplicate  drop         cursor  expired         credit
series      rate limit  server  timeout  connection  malformed  equal      equal        equal   authentication  out of credit
archive     rate limit  server  timeout  connection  malformed  paging     quarantined  paging  authentication  out of credit
live day    rate limit  server  timeout  connection  malformed  paging     quarantined  paging  authentication  out of credit
archived    rate limit  server  timeout  connection  malformed  paging     quarantined  paging  authentication  out of credit
polymarket  rate limit  server  timeout  connection  malformed  paging     quarantined  paging  authentication  out of credit
"""


@dataclass(frozen=True)
class Venue:
    """The venues in one cell, as one process sees them, and its store of pages."""

    served: Served
    cell: str
    folder: Path
    archive: pl.DataFrame
    fault: str | None = None
    attempts: int = 20
    timeout: float = PATIENT

    def client(self, kind: type[Any]) -> Any:
        return self.served.client(kind, self.cell, self.fault, attempts=self.attempts, timeout=self.timeout)

    def store(self, venue: str = "kalshi") -> PageStore:
        return PageStore(open_storage(str(self.folder)), venue)

    async def series(self, **options: Any) -> Any:
        async with self.client(KalshiClient) as client:
            return await pull_series(client, self.store(), **options)

    async def scan(self, **options: Any) -> Any:
        async with self.client(KalshiClient) as client:
            return await pull_archive(client, self.store(), **options)

    async def day(self, day: date, **options: Any) -> Any:
        plan = CandlePlan(days=1, markets=4)
        async with self.client(KalshiClient) as client:
            return await pull_day(client, self.store(), day, archive=self.archive.lazy(), plan=plan, **options)

    async def live(self, **options: Any) -> Any:
        return await self.day(LIVE, **options)

    async def archived(self, **options: Any) -> Any:
        return await self.day(ARCHIVED, **options)

    async def polymarket(self, **options: Any) -> Any:
        plan = PricePlan(days=1, markets=3)
        async with self.client(GammaClient) as gamma, self.client(ClobClient) as clob:
            return await pull_polymarket(gamma, clob, self.store("polymarket"), LIVE, plan=plan, **options)


PULLS: dict[str, Callable[..., Awaitable[Any]]] = {
    "series": Venue.series,
    "archive": Venue.scan,
    "live day": Venue.live,
    "archived": Venue.archived,
    "polymarket": Venue.polymarket,
}
#: What each pull has frames of.
PARTS = {
    "series": ("series", "rejects"),
    "archive": ("markets", "rejects"),
    "live day": ("markets", "events", "candles", "rejects"),
    "archived": ("markets", "events", "candles", "rejects"),
    "polymarket": ("markets", "events", "winners", "prices", "rejects"),
}


def frames(name: str, pull: Any) -> dict[str, bytes]:
    """Every part of a pull as the bytes of its rows."""
    return {part: as_bytes(getattr(pull, part)()) for part in PARTS[name]}


def as_bytes(found: Any) -> bytes:
    frames = [found] if isinstance(found, pl.DataFrame) else list(found)
    buffer = BytesIO()
    (pl.concat(frames) if frames else pl.DataFrame()).write_ipc(buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def venues() -> Iterator[Served]:
    clock = Clock(NOW)
    with served(generated(11, NOW), clock, SIZES) as found:
        yield found


@dataclass(frozen=True)
class Undisturbed:
    """What the pulls give and store without faults."""

    archive: pl.DataFrame
    frames: dict[str, dict[str, bytes]]
    files: dict[str, str]


@pytest.fixture(scope="module")
def undisturbed(venues: Served, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")

    async def work() -> Undisturbed:
        venue = Venue(venues, "", folder, KALSHI_ARCHIVE.empty())
        scan = await venue.scan()
        venue = Venue(venues, "", folder, pl.concat(scan.markets()))
        pulls = {name: await pull(venue) for name, pull in PULLS.items()}
        listings = [
            ("archive", "markets"),
            ("live day", "markets"),
            ("live day", "events"),
            ("polymarket", "markets"),
            ("polymarket", "events"),
        ]
        assert min(pulls[name].pull.count(step) for name, step in listings) >= 3
        return Undisturbed(venue.archive, {name: frames(name, pull) for name, pull in pulls.items()}, stored(folder))

    return asyncio.run(work())


#: Each fault alone, and all of them.
RATES = {**{name: {name: 0.12 if name == "stall" else 0.35} for name in PASSING}, "all": dict.fromkeys(PASSING, 0.08)}


@pytest.mark.parametrize("rates", RATES.values(), ids=RATES.keys())
async def test_pulls_under_faults_that_come_and_go_equal_undisturbed_ones(
    venues: Served, undisturbed: Undisturbed, tmp_path: Path, rates: dict[str, float]
):
    faults, cell = Faults(rates, seed=5), f"come and go {sorted(rates)}"
    venues.cells.open(cell, faults)
    venue = Venue(venues, cell, tmp_path, undisturbed.archive, timeout=STALLED if "stall" in rates else PATIENT)
    for name, pull in PULLS.items():
        assert frames(name, await pull(venue)) == undisturbed.frames[name], name
    assert stored(tmp_path) == undisturbed.files
    assert len(faults.stats) >= min(len(rates), 5)


async def test_pulls_interrupted_by_every_fault_and_run_again_end_as_undisturbed_ones(
    venues: Served, undisturbed: Undisturbed, tmp_path: Path
):
    faults = Faults({"status": 0.1, "cut": 0.1, "html": 0.1}, seed=6)
    venues.cells.open("interrupted", faults)
    venue = Venue(venues, "interrupted", tmp_path, undisturbed.archive, attempts=1)
    interruptions = 0
    for name, pull in PULLS.items():
        done = None
        while done is None:
            before = stored(tmp_path)
            try:
                done = await pull(venue)
            except VenueError as error:
                assert error.attempts == 1
                interruptions += 1
            # The end of a pull puts its pages into one file.
            assert done is not None or before.items() <= stored(tmp_path).items()
        assert frames(name, done) == undisturbed.frames[name], name
    assert stored(tmp_path) == undisturbed.files
    assert 10 < interruptions <= faults.stats.total()


@pytest.mark.slow
@pytest.mark.parametrize("name", PULLS)
async def test_a_fault_that_never_clears_leaves_everything_as_it_was(
    venues: Served, undisturbed: Undisturbed, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    declared, found = table(NEVER_CLEARS), {}
    quiet = Venue(venues, "", tmp_path, undisturbed.archive)
    await quiet.scan()
    good = await PULLS[name](quiet)
    before = frames(name, good)
    for fault in HTTP_FAULTS:
        found[fault] = await end(venues, undisturbed, tmp_path, name, fault)
        assert frames(name, good) == before
    assert found == declared[name]
    assert SECRET not in caplog.text


async def end(venues: Served, undisturbed: Undisturbed, folder: Path, name: str, fault: str) -> str:
    """How a pull that asks anew ends under a fault that never clears; a failed one is then taken up without it."""
    venue = Venue(
        venues, f"never clears {name}", folder, undisturbed.archive, f"{fault}=1000", ATTEMPTS, STALLED if fault == "stall" else PATIENT
    )
    try:
        pull = await PULLS[name](venue, refresh=True)
    except VenueError as error:
        again = await PULLS[name](Venue(venues, "", folder, undisturbed.archive))
        assert frames(name, again) == undisturbed.frames[name]
        return error.kind
    if frames(name, pull) == undisturbed.frames[name]:
        return "equal"
    return "quarantined" if HOLE in set(pull.rejects()["reason"]) else "a silent gap"


def test_every_pull_has_a_declared_end_under_every_fault():
    declared = table(NEVER_CLEARS)
    assert declared.keys() == PULLS.keys()
    assert all(list(ends) == list(HTTP_FAULTS) for ends in declared.values())


async def test_days_that_use_an_archive_with_a_hole_say_so(venues: Served, undisturbed: Undisturbed, tmp_path: Path):
    scan = await Venue(venues, "hole", tmp_path, undisturbed.archive, "drop=1000", ATTEMPTS).scan()
    rows = pl.concat(scan.markets())
    assert 0 < rows.height < undisturbed.archive.height
    assert scan.rejects()["reason"].to_list() == [HOLE, HOLE]
    day = await Venue(venues, "", tmp_path, rows).archived()
    assert day.rejects().filter(table="raw/kalshi_archive").select("day", "reason").unique().rows() == [(ARCHIVED, HOLE)]
