"""Pull of the markets that closed on one UTC day: live and archived markets, their events and their candles.

Markets settled before the venue's cutoff, an instant, are only in its archive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial

import polars as pl

from bellwether.venues.http.day import BaseDayPull, DayWork
from bellwether.venues.http.page import VenuePage, split_batches
from bellwether.venues.http.pages import PageStore
from bellwether.venues.http.paging import Listing
from bellwether.venues.http.puller import Progress, Puller
from bellwether.venues.http.retry import parse_error_text
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.pull.archive import find_covering_archive, parse_cutoff
from bellwether.venues.kalshi.pull.candle_plan import CandlePlan
from bellwether.venues.kalshi.pull.day_markets import PAID_OUT, TABLES, DayMarkets, MarketCollector
from bellwether.venues.kalshi.wire import CandlePage, parse_candle_pages, parse_candles, parse_events
from bellwether.venues.wire.rejects import ParsedRecords, parse_or_reject

#: Events per call; with their nested markets they fill a page of ordinary size.
_EVENTS_PER_CALL = 50
_NOT_FOUND = 404


@dataclass(frozen=True)
class DayPull(BaseDayPull):
    """Finished pull of one day. archive: rows of raw/kalshi_archive; None if the day has no archived markets."""

    tables = TABLES
    price_steps = ("candles",)

    plan: CandlePlan
    markets_of_day: DayMarkets
    archive: pl.LazyFrame | None = None

    def markets(self) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/kalshi_markets, each market once."""
        return self.markets_of_day.frames(self.pull, self.archive)

    def candles(self) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/kalshi_candles, limited to the plan's days before each market's close."""
        return self.price_frames()

    def other_rejects(self) -> Iterable[pl.DataFrame]:
        return self.markets_of_day.reject_contradictions(self.pull, self.archive)

    def parse_events(self, page: VenuePage) -> ParsedRecords:
        return parse_events(page.items("events"), page.origin, day=self.day)

    def requested(self, page: VenuePage) -> frozenset[str]:
        return routes.parse_requested_tickers(page.request)

    def parse_price_pages(self, step: str, pages: Sequence[VenuePage]) -> pl.DataFrame | None:
        if any(page.status == _NOT_FOUND for page in pages):
            return None
        # Copies of the pages, so that their parsed JSON, which takes several times their bytes, is not kept.
        candles = [CandlePage(replace(page).answer, page.origin, _source(page), list(self.requested(page))) for page in pages]
        rows = parse_candle_pages(candles, day=self.day, period_minutes=self.plan.period_minutes)
        return None if rows is None else self.plan.within_window(rows, self.markets_of_day.rows)

    def parse_price_page(self, step: str, page: VenuePage) -> ParsedRecords:
        tickers, quarantine = self.requested(page), self.tables.prices.quarantine(self.day, page.origin)
        if page.status == _NOT_FOUND:
            reason = f"the venue has no candles of this market: {parse_error_text(page.body)}"
            return ParsedRecords(self.tables.prices.table.empty(), (), quarantine.reject_missing(sorted(tickers), reason))
        minutes = self.plan.period_minutes
        parsed = parse_or_reject(
            lambda: parse_candles(page.answer, page.origin, day=self.day, source=_source(page), period_minutes=minutes), quarantine
        )
        markets = self.markets_of_day.rows.filter(pl.col("ticker").is_in(tickers))
        return replace(parsed, rows=self.plan.within_window(parsed.rows, markets))


def _lists_candles(page: VenuePage) -> None:
    """Raise for a page of candles without a list of candles; an empty list is valid."""
    if page.status != _NOT_FOUND:
        page.items("markets" if "markets" in page.answer else "candlesticks")


def _source(page: VenuePage) -> str:
    """Return "historical" for a page of the archive's routes, else "live"."""
    return "historical" if page.request.startswith("GET /historical/") else "live"


class _Day(DayWork[DayMarkets, DayPull]):
    """Requests of one day's pull. archive: rows of raw/kalshi_archive, needed if the day began before the venue's cutoff."""

    plan: CandlePlan

    def __init__(self, client: KalshiClient, pages: PageStore, day: date, plan: CandlePlan, archive: pl.LazyFrame | None) -> None:
        super().__init__(client, pages, day, plan)
        self.archive = archive
        self.needed_archive: pl.LazyFrame | None = None

    def create_collector(self) -> MarketCollector:
        return MarketCollector(self.day)

    async def collect_markets(self, puller: Puller, known_ids: set[str]) -> MarketCollector:
        """Collect the day's markets: from the live listing, the archive, requests by name, and the events of all these markets."""
        cutoff = await puller.request("cutoff", routes.historical_cutoff(), fits=parse_cutoff)
        scan = find_covering_archive(self.pages, self.archive, self.day, parse_cutoff(cutoff))
        collector = MarketCollector(self.day, responded_at=cutoff.fetched_at)
        start, end = self.start - timedelta(seconds=1), self.start + timedelta(days=1)
        async for page in puller.follow("markets", [routes.markets(closing_after=start, closing_before=end)]):
            await puller.process("markets", page, partial(collector.add, "markets"))
        self.needed_archive = self.archive if scan else None
        if scan is not None and self.archive is not None:
            collector.add_archive(self.archive, scan.rejects(self.day))
        await self.add_named(puller, collector, known_ids)
        batches = split_batches(collector.event_tickers(), _EVENTS_PER_CALL)
        async for page in puller.follow("events", [routes.events(tickers=batch) for batch in batches]):
            await puller.process("events", page, partial(collector.add, "events"))
        return collector

    def list_named_calls(self, names: Iterable[str], answered: object) -> Iterator[Listing]:
        return (routes.markets(tickers=batch, mve_filter=None) for batch in split_batches(sorted(names), routes.MOST_TICKERS))

    async def complete(self, puller: Puller, markets: DayMarkets) -> None:
        await puller.request_all("candles", self.plan.build_calls(markets.rows), accept=frozenset({_NOT_FOUND}), fits=_lists_candles)

    def list_open_markets(self, puller: Puller, markets: DayMarkets) -> list[str]:
        """Return the tickers of the live markets that have not been paid out."""
        return markets.rows.filter(pl.col("status") != PAID_OUT, ~pl.col("archived"))["ticker"].to_list()

    def is_settled(self, puller: Puller, markets: DayMarkets) -> bool:
        """Return True if every market has been paid out, including archived ones."""
        return markets.settled

    def result(self, puller: Puller, markets: DayMarkets) -> DayPull:
        return DayPull(self.day, puller.pull, self.plan, markets, puller.requests, archive=self.needed_archive)


async def pull_day(
    client: KalshiClient,
    pages: PageStore,
    day: date,
    *,
    archive: pl.LazyFrame | None,
    plan: CandlePlan,
    refresh: bool = False,
    today: date | None = None,
    progress: Progress | None = None,
) -> DayPull:
    """Pull all data of the markets that closed on `day`, or reuse the stored pull; see `DayWork.pull`.

    archive: rows of raw/kalshi_archive, needed if the day began before the venue's cutoff. Raises `LakeError` if the archive is missing
    or older than the cutoff.
    """
    return await _Day(client, pages, day, plan, archive).pull(refresh=refresh, today=today, progress=progress)
