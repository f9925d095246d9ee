"""Pulls under every fault either equal undisturbed pulls or fail after bounded retries and leave everything unchanged.

Possible ends:

- `equal`: the frames are those of an undisturbed pull;
- `quarantined`: records are missing, and raw/<venue>_rejects lists them;
- the kind of the `VenueError` that ends the pull.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import httpx
import orjson
import polars as pl
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bellwether.errors import VenueError
from bellwether.lake.storage import open_storage
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.faults import HEADER, HTTP_FAULTS, PERMANENT, FaultMiddleware, Faults
from bellwether.sandbox.server import Site, serve
from bellwether.sandbox.services import CLOB_PATH, GAMMA_PATH, KALSHI_PATH
from bellwether.sandbox.worlds import build_generated
from bellwether.tables.raw import KALSHI_ARCHIVE
from bellwether.venues.http.client import HttpClient, RateLimit
from bellwether.venues.http.pages import DONE, PageStore
from bellwether.venues.http.retry import RetryPolicy
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.pull import CandlePlan, pull_archive, pull_day, pull_series
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.venues.polymarket.pull import PricePlan
from bellwether.venues.polymarket.pull import pull_day as pull_polymarket
from bellwether.venues.wire.rejects import HOLE

NOW = datetime(2025, 4, 10, 17, 20, 3, tzinfo=UTC)
#: A day with live markets only, and one whose markets are archived except the last to settle.
LIVE, ARCHIVED = date(2025, 3, 5), date(2025, 1, 8)
#: Page sizes that split each pulled listing into at least three pages.
SIZES = {
    f"{KALSHI_PATH}/markets": 5,
    f"{KALSHI_PATH}/historical/markets": 40,
    f"{KALSHI_PATH}/events": 2,
    f"{GAMMA_PATH}/markets/keyset": 5,
    f"{GAMMA_PATH}/events/keyset": 2,
    f"{CLOB_PATH}/markets": 100,
}
STALLED, PATIENT = 0.3, 60.0
PASSING = sorted(HTTP_FAULTS.keys() - PERMANENT.keys())

#: End of a pull without stored pages under each permanent fault.
ENDS = {
    "storm": "rate limit",
    "status": "server",
    "stall": "timeout",
    "cut": "connection",
    "html": "malformed",
    "duplicate": "paging",
    "drop": "quarantined",
    "cursor": "paging",
    "expired": "authentication",
    "credit": "out of credit",
}


#: Part of every address. It must not appear in any output.
SECRET = "s3cr3t-of-the-address"
CELL = b"x-cell"
#: Maximum number of attempts under a permanent fault.
ATTEMPTS = 4
#: Shared by all clients, because it takes long to create.
_TLS = ssl.create_default_context()


class Remembering:
    """ASGI app that answers repeated requests from memory, and removes the headers for faults.

    `sizes`: maximum number of records per page, by path.
    """

    def __init__(self, app: ASGIApp, sizes: Mapping[str, int]) -> None:
        self._app = app
        self._sizes = sizes
        self._answers: dict[tuple[str, str, bytes, bytes], list[Message]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"")
        key = (scope["method"], scope["path"], scope["query_string"], body)
        if key not in self._answers:
            self._answers[key] = await self._ask(scope, body)
        for message in self._answers[key]:
            await send(message)

    async def _ask(self, scope: Scope, body: bytes) -> list[Message]:
        messages: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            messages.append(message)

        headers = [(name, value) for name, value in scope["headers"] if name not in (HEADER.lower().encode(), CELL)]
        query = scope["query_string"]
        if size := self._sizes.get(scope["path"]):
            query = re.sub(rb"limit=\d+", b"limit=%d" % size, query)
        await self._app({**scope, "headers": headers, "query_string": query}, receive, send)
        return messages


class Cells:
    """ASGI app with separate faults and state for each value of the header X-Cell."""

    def __init__(self, app: ASGIApp, clock: Clock, sizes: Mapping[str, int]) -> None:
        self._app = Remembering(app, sizes)
        self._clock = clock
        self._cells: dict[str, FaultMiddleware] = {}

    def open(self, cell: str, faults: Faults) -> None:
        """Set the faults of a cell."""
        self._cells[cell] = FaultMiddleware(self._app, faults, self._clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cell = dict(scope["headers"]).get(CELL, b"").decode()
        if cell not in self._cells:
            self.open(cell, Faults())
        await self._cells[cell](scope, receive, send)


class Forcing(httpx.AsyncHTTPTransport):
    """Transport that requests a fault with every request."""

    def __init__(self, cell: str, fault: str | None) -> None:
        super().__init__(verify=_TLS)
        self._headers = {CELL.decode(): cell, **({HEADER: fault} if fault else {})}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers.update(self._headers)
        return await super().handle_async_request(request)


@dataclass(frozen=True, slots=True)
class Served:
    """The venues on one socket, in cells."""

    site: Site
    cells: Cells

    def client(self, kind: type[HttpClient], cell: str, fault: str | None, *, attempts: int, timeout: float) -> Any:
        """Return a client of a cell that does not wait between attempts."""
        address = {"kalshi_url": self.site.kalshi, "gamma_url": self.site.gamma, "clob_url": self.site.clob}[kind.setting or "kalshi_url"]
        return kind(
            address.replace("//", f"//user:{SECRET}@"),
            limits=RateLimit(tokens_per_second=1e9, timeout=timeout),
            retry=RetryPolicy(attempts=attempts),
            transport=Forcing(cell, fault),
            sleep=at_once,
            rng=Random(1),
        )


async def at_once(seconds: float) -> None:
    """Replace a wait."""
    await asyncio.sleep(0)


@contextmanager
def served(app: ASGIApp, clock: Clock, sizes: Mapping[str, int] | None = None) -> Iterator[Served]:
    """Serve `app` in cells, with these page sizes by path."""
    cells = Cells(app, clock, sizes or {})
    with serve(cells) as site:
        yield Served(site, cells)


def stored(folder: Path) -> dict[str, str]:
    """Return the digests of all stored pages and manifests. Manifests are compared without their request statistics."""

    def content(path: Path) -> bytes:
        data = path.read_bytes()
        return orjson.dumps({**orjson.loads(data), "effort": None}) if path.name == DONE else data

    return {
        str(path.relative_to(folder)): hashlib.sha256(content(path)).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()
    }


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
#: Frames of each pull.
PARTS = {
    "series": ("series", "rejects"),
    "archive": ("markets", "rejects"),
    "live day": ("markets", "events", "candles", "rejects"),
    "archived": ("markets", "events", "candles", "rejects"),
    "polymarket": ("markets", "events", "winners", "prices", "rejects"),
}


def frames(name: str, pull: Any) -> dict[str, bytes]:
    """Return every part of a pull as bytes."""
    return {part: as_bytes(getattr(pull, part)()) for part in PARTS[name]}


def as_bytes(found: Any) -> bytes:
    frames = [found] if isinstance(found, pl.DataFrame) else list(found)
    buffer = BytesIO()
    (pl.concat(frames) if frames else pl.DataFrame()).write_ipc(buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def venues() -> Iterator[Served]:
    clock = Clock(NOW)
    with served(build_generated(11, NOW), clock, SIZES) as found:
        yield found


@dataclass(frozen=True)
class Undisturbed:
    """Results and stored files of pulls without faults."""

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


async def test_pulls_under_faults_that_come_and_go_equal_undisturbed_ones(venues: Served, undisturbed: Undisturbed, tmp_path: Path):
    faults = Faults(dict.fromkeys(PASSING, 0.08), seed=5)
    venues.cells.open("come and go", faults)
    venue = Venue(venues, "come and go", tmp_path, undisturbed.archive, timeout=STALLED)
    for name, pull in PULLS.items():
        assert frames(name, await pull(venue)) == undisturbed.frames[name], name
    assert stored(tmp_path) == undisturbed.files
    assert len(faults.stats) >= 5


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
            # The end of a pull merges its pages into one file.
            assert done is not None or before.items() <= stored(tmp_path).items()
        assert frames(name, done) == undisturbed.frames[name], name
    assert stored(tmp_path) == undisturbed.files
    assert 10 < interruptions <= faults.stats.total()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["live day", "polymarket"])
async def test_a_fault_that_never_clears_leaves_everything_as_it_was(
    venues: Served, undisturbed: Undisturbed, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    found = {}
    quiet = Venue(venues, "", tmp_path, undisturbed.archive)
    await quiet.scan()
    good = await PULLS[name](quiet)
    before = frames(name, good)
    for fault in HTTP_FAULTS:
        found[fault] = await end(venues, undisturbed, tmp_path, name, fault)
        assert frames(name, good) == before
    assert found == ENDS
    assert SECRET not in caplog.text


async def end(venues: Served, undisturbed: Undisturbed, folder: Path, name: str, fault: str) -> str:
    """Return the end of a pull without stored pages under a permanent fault. A failed pull is then resumed without the fault."""
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


async def test_days_that_use_an_archive_with_a_hole_say_so(venues: Served, undisturbed: Undisturbed, tmp_path: Path):
    scan = await Venue(venues, "hole", tmp_path, undisturbed.archive, "drop=1000", ATTEMPTS).scan()
    rows = pl.concat(scan.markets())
    assert 0 < rows.height < undisturbed.archive.height
    assert scan.rejects()["reason"].to_list() == [HOLE, HOLE]
    day = await Venue(venues, "", tmp_path, rows).archived()
    assert day.rejects().filter(table="raw/kalshi_archive").select("day", "reason").unique().rows() == [(ARCHIVED, HOLE)]
