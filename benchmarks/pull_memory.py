"""Peak memory of a pull of 50 pages, against one of 5 pages of the same size: it is bounded by the page, not by the pull."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
from datetime import date
from random import Random
from typing import Any

import httpx
import orjson

from bellwether.lake.storage import open_storage
from bellwether.venues.http.pages import PageStore
from bellwether.venues.kalshi.client import KalshiClient, RateLimit
from bellwether.venues.kalshi.pull import CandlePlan, pull_day
from benchmarks.parse_markets import PAGE, market

DAY = date(2026, 3, 1)
PAGES = 50
FEW_PAGES = 5
TARGET = 1.5


class Venue:
    """Answers a day's pull with `pages` full pages of markets, each made when it is asked for."""

    def __init__(self, pages: int) -> None:
        self._pages = pages

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/trade-api/v2")
        return httpx.Response(
            200, content=orjson.dumps(self._answer(path, request.url.params)), headers={"Date": "Sun, 08 Mar 2026 00:00:00 GMT"}
        )

    def _answer(self, path: str, query: httpx.QueryParams) -> dict[str, Any]:
        if path == "/historical/cutoff":
            return {"market_settled_ts": "2025-12-01T00:00:00Z"}
        if path == "/events":
            return {"events": [{"event_ticker": ticker, "markets": []} for ticker in query["tickers"].split(",")], "cursor": ""}
        page = int(query.get("cursor") or 0)
        rng = Random(page)
        markets = [market(number, rng) | {"close_time": "2026-03-01T12:00:00Z"} for number in range(page * PAGE, (page + 1) * PAGE)]
        return {"markets": markets, "cursor": str(page + 1) if page + 1 < self._pages else ""}


def _peak() -> float:
    """Most resident memory of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _pull(pages: int, folder: str) -> int:
    limits = RateLimit(tokens_per_second=1e9)
    async with KalshiClient("http://venue.example/trade-api/v2", limits=limits, transport=httpx.MockTransport(Venue(pages))) as client:
        pull = await pull_day(client, PageStore(open_storage(folder)), DAY, archive=None, plan=CandlePlan(markets=0))
    return sum(frame.height for frame in pull.markets())


def measure(pages: int) -> dict[str, float]:
    """Pull `pages` pages in this process and read all their rows: megabytes at the peak, above those of a pull of a single page."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_pull(1, f"{folder}/warm"))
        before = _peak()
        rows = asyncio.run(_pull(pages, f"{folder}/measured"))
    if rows != pages * PAGE:
        raise AssertionError(f"{rows} rows of {pages * PAGE}")
    return {"before": before, "peak": _peak()}


def _measure_apart(pages: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-m", "benchmarks.pull_memory", str(pages)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def run() -> list[dict[str, Any]]:
    """One result: peak memory of a process that pulls 50 pages over that of one that pulls 5."""
    few, many = _measure_apart(FEW_PAGES), _measure_apart(PAGES)
    return [
        {
            "name": f"peak memory of a pull of {PAGES} pages / of {FEW_PAGES} pages",
            "ratio": many["peak"] / few["peak"],
            "target": TARGET,
            "detail": f"{many['peak']:.0f} MB against {few['peak']:.0f} MB; a pull of one page peaks at {few['before']:.0f} MB",
        }
    ]


def main() -> None:
    """Print the results, or, given a number of pages, measure in this process."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
        return
    for result in run():
        print(f"{result['name']}: {result['ratio']:.2f} (target {result['target']}): {result['detail']}")


if __name__ == "__main__":
    main()
