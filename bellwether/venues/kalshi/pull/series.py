"""Pull of all Kalshi series, with fees and categories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from bellwether.tables.raw import KALSHI_REJECTS, KALSHI_SERIES
from bellwether.venues.http.pages import PageStore, StoredPull
from bellwether.venues.http.puller import Progress, Puller, run_pull
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.wire import ParsedRecords, parse_series
from bellwether.venues.wire.rejects import Quarantine, parse_or_reject

STEP = "series"


@dataclass(frozen=True, slots=True)
class SeriesPull:
    """Finished pull of the series. `requests`: pages fetched by this run; 0 if the pull was already stored."""

    pull: StoredPull
    requests: int

    def series(self) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/kalshi_series with one row per series; if a series occurs repeatedly, its first record counts."""
        return (parsed.rows for parsed in self._parsed())

    def rejects(self) -> pl.DataFrame:
        """Return rows of raw/kalshi_series_rejects: invalid records, and records that contradict an earlier one."""
        return pl.concat([KALSHI_REJECTS.empty(), *(parsed.rejects for parsed in self._parsed())])

    def summary(self) -> dict[str, object]:
        """Return the folder and the number of requests of the pull."""
        return {"pull": self.pull.folder, "requests": self.requests}

    def _parsed(self) -> Iterator[ParsedRecords]:
        earlier: dict[str, Any] = {}
        for page in self.pull.pages(STEP):
            items = page.items("series")
            quarantine = Quarantine(KALSHI_SERIES, "ticker", page.fetched_at.date(), page.origin)
            yield parse_or_reject(partial(parse_series, items, page.origin, earlier=earlier), quarantine)
            earlier |= {item["ticker"]: item for item in items if isinstance(item, dict) and isinstance(item.get("ticker"), str)} | earlier


async def pull_series(client: KalshiClient, pages: PageStore, *, refresh: bool = False, progress: Progress | None = None) -> SeriesPull:
    """Pull all series; without `refresh`, reuse the stored pull. Raises `VenueError` if the venue does not respond."""
    pull = pages.open("series", "all", refresh=refresh)

    async def work(puller: Puller) -> SeriesPull:
        async for _ in puller.follow(STEP, [routes.series()]):
            pass
        puller.finish({"table": KALSHI_SERIES.name})
        return SeriesPull(puller.pull, puller.requests)

    return await run_pull(client, pages, pull, work, progress)
