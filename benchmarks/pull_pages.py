"""A pull of 1,000 pages from a sandbox 50 ms away: wall time over the latency alone, and the client's work over the least that there is."""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from io import BytesIO
from multiprocessing.connection import Connection
from random import Random
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from bellwether.lake.storage import open_storage
from bellwether.sandbox import Clock, create_app, serve
from bellwether.sandbox.instants import DAY, midnight
from bellwether.sandbox.source import Candle, EventRow, MarketRow, SeriesRow, Wanted
from bellwether.venues.http.pages import PageStore
from bellwether.venues.http.together import together
from bellwether.venues.kalshi.client import KalshiClient, RateLimit
from bellwether.venues.kalshi.pull import CandlePlan, DayPull, pull_day
from benchmarks.parse_markets import market

FIRST = date(2026, 3, 1)
NOW = datetime(2026, 4, 1, tzinfo=UTC)
#: Events of a day: few enough for one call.
EVENTS = 40
#: Seconds that every answer takes longer.
LATENCY = 0.05
WALL_TARGET, WORK_TARGET = 1.3, 3.0
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Size:
    """Days that are pulled side by side, pages of markets of each, and markets on a page."""

    days: int
    pages: int
    page: int


#: A day's pull asks for its cutoff and its events besides. As many days as a run of the pipeline pulls at once, in the venue's ordinary pages.
FAR = Size(days=4, pages=248, page=100)
#: In pages of the size that a pull asks for.
NEAR = Size(days=1, pages=40, page=1000)


@dataclass(frozen=True)
class Crowd:
    """A world of days with many markets; the bodies of one page come again on each, under other tickers."""

    size: Size
    bodies: tuple[bytes, ...]

    @classmethod
    def drawn(cls, size: Size) -> Crowd:
        rng = Random(7)
        names = {"ticker": "TICKER", "event_ticker": "EVENT", "close_time": "CLOSES"}
        return cls(size, tuple(orjson.dumps(market(number, rng) | names) for number in range(size.page)))

    def default_clock(self) -> Clock:
        return Clock(NOW)

    def cutoff(self, now: int) -> int:
        return midnight(FIRST) - DAY

    def series(self, now: int) -> Iterator[SeriesRow]:
        return iter(())

    def events(self, wanted: Wanted, now: int) -> Iterator[EventRow]:
        """Those asked for, all on one page."""
        for number, ticker in enumerate(wanted.tickers or ()):
            body = {"event_ticker": ticker, "series_ticker": "S", "title": ticker, "mutually_exclusive": False}
            yield EventRow((number,), ticker, "S", False, None, body.copy, list)

    def markets(self, wanted: Wanted, now: int) -> Iterator[MarketRow]:
        """Those that close on the day in the middle of the asked span."""
        low, high = wanted.closes
        day = ((low or 0) + (high or 0)) // 2 // DAY
        for number in range(wanted.after[0] + 1 if wanted.after else 0, self.size.pages * self.size.page):
            yield self._row(day, number)

    def _row(self, day: int, number: int) -> MarketRow:
        ticker, closes = f"M-{day}-{number:06d}", day * DAY + DAY // 2
        event = f"E-{day}-{number % EVENTS}"

        def body() -> bytes:
            filled = self.bodies[number % self.size.page].replace(b"TICKER", ticker.encode()).replace(b"EVENT", event.encode())
            return filled.replace(b"CLOSES", b"2026-03-%02dT12:00:00Z" % (day - midnight(FIRST) // DAY + 1))

        return MarketRow((number,), ticker, event, "S", "finalized", False, closes, closes, closes, closes, body)

    def candles(self, ticker: str, period: int, start: int, end: int, now: int) -> list[Candle] | None:
        return []


class Far:
    """ASGI middleware: every answer takes so many seconds longer, and no page holds more markets than the size allows."""

    def __init__(self, app: ASGIApp, size: Size, latency: float) -> None:
        self._app = app
        self._limit = b"limit=%d" % size.page
        self._latency = latency

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(self._latency)
        await self._app({**scope, "query_string": scope["query_string"].replace(b"limit=1000", self._limit)}, receive, send)


def _serve(size: Size, latency: float, connection: Connection) -> None:
    """Serve until the other side hangs up."""
    app = create_app(Crowd.drawn(size), clock=Clock(NOW))
    with serve(Far(app, size, latency)) as site:
        connection.send(site.kalshi)
        connection.poll(None)


@contextmanager
def venue(size: Size, latency: float) -> Iterator[str]:
    """The address of a sandbox in a process of its own."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_serve, args=(size, latency, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        process.join()


async def _pull(url: str, folder: str, size: Size) -> list[DayPull]:
    pages = PageStore(open_storage(folder))
    days = [FIRST + timedelta(days=offset) for offset in range(size.days)]
    async with KalshiClient(url, limits=RateLimit(tokens_per_second=1e9)) as client:
        pull = partial(pull_day, client, pages, archive=None, plan=CandlePlan(markets=0))
        return await together((partial(pull, day) for day in days), most=size.days)


def _processor_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _wall() -> dict[str, Any]:
    """All pages of all days, each answer 50 ms away: the best of a few rounds, because others on the machine only make it longer."""
    times = []
    with venue(FAR, LATENCY) as url, tempfile.TemporaryDirectory() as folder:
        for turn in range(ROUNDS):
            started = time.perf_counter()
            pulls = asyncio.run(_pull(url, f"{folder}/{turn}", FAR))
            times.append(time.perf_counter() - started)
            if any(pull.markets_of_day.keys.height != FAR.pages * FAR.page for pull in pulls):
                raise AssertionError(f"not every day has {FAR.pages * FAR.page} markets")
    requests, seconds = sum(pull.requests for pull in pulls), min(times)
    ideal = requests * LATENCY / FAR.days
    detail = (
        f"{requests:,} pages of {FAR.page} markets, {FAR.days} days side by side, {LATENCY * 1e3:.0f} ms away: "
        f"{seconds:.1f} s, the best of {ROUNDS} rounds, against {ideal:.1f} s"
    )
    return {"name": "wall time of a pull of 1,000 pages / latency", "ratio": seconds / ideal, "target": WALL_TARGET, "detail": detail}


def _work() -> dict[str, Any]:
    """Processor time of a day's pull, in which pages are fetched, stored and parsed into rows, against JSON read and rows written."""
    with venue(NEAR, 0.0) as url, tempfile.TemporaryDirectory() as folder:
        (warm,) = asyncio.run(_pull(url, f"{folder}/warm", NEAR))
        bodies = [page.body for page in warm.pull.pages("markets")]
        frames = list(warm.markets())
        if [frame.height for frame in frames] != [NEAR.page] * NEAR.pages:
            raise AssertionError(f"not every page has {NEAR.page} rows")

        def pull(number: int) -> None:
            asyncio.run(_pull(url, f"{folder}/{number}", NEAR))

        def least() -> None:
            for body, frame in zip(bodies, frames, strict=True):
                orjson.loads(body)
                frame.write_parquet(BytesIO(), compression="zstd")

        works: list[list[Callable[[], object]]] = [[partial(pull, turn), least, lambda: list(warm.markets())] for turn in range(ROUNDS)]
        rounds = [[_processor_seconds(work) for work in turn] for turn in works]
    ours, bare, again = (1e3 * statistics.median(times) / NEAR.pages for times in zip(*rounds, strict=True))
    detail = (
        f"{ours:.0f} ms against {bare:.0f} ms for each of {NEAR.pages} pages of {NEAR.page:,} markets, medians of {ROUNDS} rounds; "
        f"{again:.0f} ms more to hand out the rows of a stored page"
    )
    return {
        "name": "processor time of a pulled page / orjson.loads and Parquet write",
        "ratio": ours / bare,
        "target": WORK_TARGET,
        "detail": detail,
    }


def run() -> list[dict[str, Any]]:
    """[{name, ratio, target, detail}]: wall time over latency, and processor time over the least."""
    return [_wall(), _work()]
