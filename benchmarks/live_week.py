"""Requests, files, memory and time of a week of daily pulls. Two sizes: a tenth of 3,000 and of 20,000 closing markets a day, half of them on each
venue.

As the daily pull does, the benchmark pulls the previous day at 01:20 UTC and follows open markets of earlier days. Tables are written to a lake,
and superseded files are deleted. The venues run in a separate process, so that memory and time are those of the pull.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from assets.raw.assets import KALSHI_TABLES, POLYMARKET_TABLES, select_rows
from bellwether.lake import Lake
from bellwether.tables import table
from bellwether.venues.day import PullPlan, pull_day
from bellwether.venues.http.client import ClobClient, GammaClient, KalshiClient, RateLimit
from bellwether.venues.http.pages import PageStore
from bellwether.venues.kalshi.pull import KalshiDay
from bellwether.venues.polymarket.pull import PolymarketDay
from benchmarks._live_venue import VenueClient, VenueServer, serve_apart
from resources.io_manager import Unchanged

FIRST, DAYS = date(2026, 3, 2), 7
#: Closing markets a day on both venues together, at full size.
SIZES = (3_000, 20_000)
SCALE = 10
#: Most markets of a day whose prices are pulled, at full size and on each venue: the setting's default.
PRICED = 2_000
#: Calls per closing market, files per day and venue.
MOST_CALLS, MOST_FILES = 1.3, 40
#: Peak memory of the week over that of its first day, and megabytes at the peak above those of the idle process.
MOST_GROWTH, MOST_MEMORY = 1.15, 240
UNLIMITED = RateLimit(tokens_per_second=1e9)


@dataclass(frozen=True)
class Week:
    """Cost of a simulated week.

    closed: number of markets that closed. files: per day and venue. idle: megabytes before the first pull. peaks: peak megabytes so far, after each
    day. open_at_end: closed markets that are not settled.
    """

    days: int
    closed: int
    calls: dict[str, int]
    pages: int
    files: float
    bytes: int
    seconds: float
    idle: float
    peaks: list[float]
    open_at_end: int

    @property
    def calls_per_market(self) -> float:
        """Requests divided by the number of markets that closed."""
        return sum(self.calls.values()) / self.closed


def simulate(folder: Path, per_day: int, *, days: int = DAYS, priced: int = PRICED // SCALE) -> Week:
    """Pull several days into a lake in `folder`. per_day: markets that close a day, half of them on each venue. priced: maximum of markets with
    prices.
    """
    lake, idle, peaks, started = Lake(str(folder)), _peak(), [], time.process_time()
    pending: dict[str, set[date]] = {"kalshi": set(), "polymarket": set()}
    with serve_apart(FIRST, days, per_day // 2) as venue:
        for number in range(days):
            today = FIRST + timedelta(days=number + 1)
            venue.now = datetime.combine(today, datetime.min.time(), UTC) + timedelta(hours=1, minutes=20)
            for due in pending.values():
                due.add(today - timedelta(days=1))
            for day in sorted(set.union(*pending.values())):
                final = asyncio.run(_pull(venue, lake, day, priced))
                for name in final:
                    pending[name].discard(day)
            peaks.append(_peak())
    seconds = time.process_time() - started
    _vacuum(lake)
    stored = [path for path in folder.rglob("*") if path.is_file()]
    pages = sum("_pages" in str(path) for path in stored)
    size = sum(path.stat().st_size for path in stored)
    markets = VenueServer(FIRST, days, per_day // 2).markets
    closed = sum(market.closes <= venue.now for market in markets) * 2
    waiting = sum(market.closes <= venue.now < market.settles for market in markets) * 2
    return Week(days, closed, dict(venue.calls), pages, len(stored) / days / 2, size, seconds, idle, peaks, waiting)


def _peak() -> float:
    """Return the peak resident memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _pull(venue: VenueClient, lake: Lake, day: date, priced: int) -> list[str]:
    """Pull a day from both venues and write its tables. Returns the venues whose data of the day is final."""
    how: dict[str, Any] = {"limits": UNLIMITED, "transport": httpx.MockTransport(venue)}
    async with (
        KalshiClient("http://kalshi.example", **how) as client,
        GammaClient("http://gamma.example", **how) as gamma,
        ClobClient("http://clob.example", **how) as clob,
    ):
        plan = PullPlan(markets=priced)
        ours = await pull_day(KalshiDay(client, day, plan, None), PageStore(lake.storage))
        _write(lake, KALSHI_TABLES, ours)
        theirs = await pull_day(PolymarketDay(gamma, clob, day, plan), PageStore(lake.storage, "polymarket"))
        _write(lake, POLYMARKET_TABLES, theirs)
    rows = {"kalshi": ours.pulls(), "polymarket": theirs.pulls()}
    return [name for name, row in rows.items() if row["final"].item()]


def _write(lake: Lake, tables: dict[str, str], pull: Any) -> None:
    for name, part in tables.items():
        rows = select_rows(lake, name, part, pull)
        if not isinstance(rows, Unchanged):
            lake.write(table(name), (pull.day.isoformat(),), rows, run_id="week")


def _vacuum(lake: Lake) -> None:
    """Delete superseded files and pages at once, as if their grace period were over."""
    later, week = datetime.now(UTC) + timedelta(days=8), timedelta(days=7)
    Lake(lake.uri, clock=lambda: later).vacuum(week)
    for venue in ("kalshi", "polymarket"):
        named = lake.slice(table(f"raw/{venue}_pulls")).scan().select("pull").collect()["pull"].to_list()
        PageStore(lake.storage, venue).vacuum(week, later, keep=named)


def measure(per_day: int, days: int = DAYS) -> dict[str, Any]:
    """Simulate some days in this process. Returns their cost as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        return asdict(simulate(Path(folder), per_day, days=days))


def measure_apart(per_day: int, days: int = DAYS) -> Week:
    """Simulate some days in a separate process. Returns their cost."""
    command = [sys.executable, "-m", "benchmarks.live_week", str(per_day), str(days)]
    return Week(**json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def run() -> list[dict[str, Any]]:
    """Measure requests, files and memory of a week for each number of closing markets. Returns [{name, ratio, target, detail}]."""
    results = []
    for size in SIZES:
        week = measure_apart(size // SCALE)
        name = f"a live week at 1/{SCALE} of {size:,} closing markets a day"
        detail = ", ".join(f"{host} {count}" for host, count in week.calls.items()) + f"; {week.bytes / 1e6 / week.days:.2f} MB a day"
        results += [
            {"name": f"{name}: calls per closing market", "ratio": week.calls_per_market, "target": MOST_CALLS, "detail": detail},
            {"name": f"{name}: files per day and venue", "ratio": week.files, "target": MOST_FILES, "detail": f"{week.pages} of pages"},
            {
                "name": f"{name}: peak memory of the week over its first day",
                "ratio": week.peaks[-1] / week.peaks[0],
                "target": MOST_GROWTH,
                "detail": f"{week.peaks[0]:.0f} MB, then {week.peaks[-1]:.0f} MB; {week.seconds:.0f} s of CPU",
            },
            {
                "name": f"{name}: megabytes at the peak above those of the idle process",
                "ratio": week.peaks[-1] - week.idle,
                "target": MOST_MEMORY,
                "detail": f"{week.idle:.0f} MB before the first pull",
            },
        ]
    return results


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
