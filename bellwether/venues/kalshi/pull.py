"""Pulls of Kalshi: the series, the archive, and the markets that closed on one UTC day, live and archived, with their events and candles.

Markets settled before the venue's cutoff, an instant, are only in its archive, which cannot be filtered by time, so that each new cutoff needs
a complete scan. A hole is an empty page whose cursor continues. Only keys of records stay in memory; rows are read page by page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import polars as pl

from bellwether.errors import LakeError, VenueError
from bellwether.tables.raw import (
    KALSHI_ARCHIVE,
    KALSHI_CANDLES,
    KALSHI_EVENTS,
    KALSHI_MARKETS,
    KALSHI_PULLS,
    KALSHI_REJECTS,
    KALSHI_SERIES,
)
from bellwether.venues.day import FOLLOWED, NAMED, Markets, PullPlan, VenueDay, build_keys, key_schema, select_records
from bellwether.venues.http.client import KalshiClient
from bellwether.venues.http.page import VenueCall, VenuePage, split_batches
from bellwether.venues.http.pages import Note, PageStore, Progress, Puller, StoredPull, run_pull
from bellwether.venues.http.paging import Listing
from bellwether.venues.http.retry import parse_error_text
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.routes import MOST_CANDLES, MOST_TICKERS
from bellwether.venues.kalshi.wire import parse_candles, parse_events, parse_markets, parse_series
from bellwether.venues.wire.rejects import ParsedRecords, Quarantine, RecordType
from bellwether.venues.wire.times import parse_instant

_NOT_FOUND = 404
_PAID_OUT = "finalized"
_ROWS_AT_ONCE = 1000


#: Listing and step of a scan of the archive, and keys of its records.
_ARCHIVE, _SCAN = "archive", "markets"
_ARCHIVE_KEYS = key_schema(KALSHI_ARCHIVE, ("ticker", "updated_at", "result"))


def rank_records() -> list[tuple[str | pl.Expr, bool]]:
    """Return the order in which records of a market count, as columns, and whether they descend: the newest first; among equally new ones
    the first with a result, else the first.
    """
    return [("updated_at", True), (pl.col("result") == "", False), ("listing", False), ("page", False), ("ordinal", False)]


def parse_cutoff(page: VenuePage) -> datetime:
    """Parse the cutoff in the response of /historical/cutoff. Raises `VenueError` if the response lacks it."""
    text = page.answer.get("market_settled_ts")
    cutoff = parse_instant(text)
    if cutoff is None:
        raise VenueError(
            page.request,
            1,
            f"market_settled_ts is {text!r:.80}, not a time of the years 1970 to 2200",
            "Without the cutoff no day is complete; run again later",
            kind="malformed",
        )
    return cutoff


@dataclass(frozen=True, slots=True)
class ArchivePull:
    """Finished scan of the archive. requests: number of pages fetched by this run; 0 if the scan was already stored.

    Its note has the `cutoff` (all markets settled before it were in the archive), `superseded` (page and ordinal of the records that were not
    chosen), `reject_pages` (ordinals of the pages with invalid records) and `holes` (ordinals of the empty pages whose cursor continues).
    """

    pull: StoredPull
    requests: int = 0

    @property
    def note(self) -> Note:
        """Note of the scan."""
        assert self.pull.note is not None
        return self.pull.note

    @property
    def cutoff(self) -> datetime:
        """The venue's cutoff at the time of the scan."""
        return datetime.fromisoformat(self.note["cutoff"])

    def markets(self) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/kalshi_archive, one per page with records, each market once."""
        superseded: defaultdict[int, list[int]] = defaultdict(list)
        for number, ordinal in self.note["superseded"]:
            superseded[number].append(ordinal)
        for page in self.pull.pages(_SCAN):
            parsed = _parse_archived(page)
            rows = parsed.rows.filter(~pl.Series(parsed.ordinals, dtype=pl.Int32()).is_in(superseded[page.ordinal]))
            if rows.height:
                yield rows

    def rejects(self, day: date | None = None) -> pl.DataFrame:
        """Return the rejects, with the day of the market's close, or of the response if the close is unreadable.

        day: return only its rejects, and the holes, as their markets may belong to any day; None: all.
        """
        frames = [KALSHI_REJECTS.empty()]
        for ordinal in self.note["reject_pages"]:
            rejects = _parse_archived(self.pull.page(_SCAN, ordinal)).rejects
            frames.append(rejects if day is None else rejects.filter(pl.col("day") == day))
        for ordinal in self.note["holes"]:
            page = self.pull.page(_SCAN, ordinal)
            quarantine = Quarantine(KALSHI_ARCHIVE, "ticker", day or page.fetched_at.date(), page.origin)
            frames.append(quarantine.reject_hole(page.answer))
        return pl.concat(frames)


async def pull_archive(client: KalshiClient, pages: PageStore, *, refresh: bool = False, progress: Progress | None = None) -> ArchivePull:
    """Scan the archive at the venue's current cutoff; without `refresh`, reuse the stored scan of that cutoff.

    Raises `VenueError` if the venue does not respond, or if its listing loops.
    """
    cutoff = parse_cutoff(await client.fetch(routes.historical_cutoff()))
    pull = pages.open(_ARCHIVE, f"{cutoff:%Y-%m-%dT%H%M%S.%fZ}", refresh=refresh)

    async def work(puller: Puller) -> ArchivePull:
        if puller.pull.note is None:
            puller.finish(await _scan(puller, cutoff))
        return ArchivePull(puller.pull, puller.requests)

    return await run_pull(client, pages, pull, work, progress)


def find_covering_archive(pages: PageStore, rows: pl.LazyFrame | None, day: date, cutoff: datetime) -> ArchivePull | None:
    """Return the stored scan from which the table raw/kalshi_archive was made (`rows`); None if no market of `day` can be in the archive.

    Markets of a day that began before `cutoff` can be archived. Raises `LakeError` if the scan is missing, or older than `cutoff`.
    """
    if datetime.combine(day, time(), UTC) >= cutoff:
        return None
    if rows is None:
        raise LakeError(
            f"pulling {day}: the venue has archived what settled before {cutoff:%Y-%m-%d %H:%M}; run `bellwether pull {day} --archive`"
        )
    known_at = rows.select(pl.col("known_at").max()).collect().item()
    stated = known_at.isoformat() if known_at else None
    scans = [scan for scan in map(ArchivePull, pages.list_finished(_ARCHIVE)) if scan.note["known_at"] == stated]
    if not scans or scans[-1].cutoff < cutoff:
        problem = f"was scanned at the cutoff {scans[-1].cutoff:%Y-%m-%d %H:%M}" if scans else "belongs to no stored scan"
        raise LakeError(
            f"pulling {day}: raw/kalshi_archive {problem}, but the venue has archived what settled before {cutoff:%Y-%m-%d %H:%M}; "
            f"run `bellwether pull {day} --archive --refresh`"
        )
    return scans[-1]


async def _scan(puller: Puller, cutoff: datetime) -> dict[str, Any]:
    """Fetch and store the archive; return the note of the scan."""
    keys, reject_pages, holes = [pl.DataFrame(schema=_ARCHIVE_KEYS)], list[int](), list[int]()
    known_at: datetime | None = None
    listing = routes.historical_markets()
    async for page in puller.follow(_SCAN, [listing]):
        parsed = _parse_archived(page)
        keys.append(build_keys(parsed, 0, _ARCHIVE_KEYS))
        if listing.is_hole(page):
            holes.append(page.ordinal)
        if parsed.rejects.height:
            reject_pages.append(page.ordinal)
        if parsed.rows.height:
            known_at = max(page.fetched_at, known_at or page.fetched_at)
    records = pl.concat(keys)
    chosen = select_records(records, "ticker", rank_records())
    superseded = records.join(chosen, on=["page", "ordinal"], how="anti", maintain_order="left")
    return {
        "cutoff": cutoff.isoformat(),
        "known_at": known_at.isoformat() if known_at else None,
        "reject_pages": reject_pages,
        "holes": holes,
        "superseded": superseded.select("page", "ordinal").rows(),
    }


def _parse_archived(page: VenuePage) -> ParsedRecords:
    return parse_markets(page.items("markets"), page.origin, day=page.fetched_at.date(), table=KALSHI_ARCHIVE)


class KalshiDay(VenueDay):
    """Kalshi's markets of a day. archive: rows of raw/kalshi_archive, needed if the day began before the venue's cutoff.

    `collect` raises `LakeError` if the archive is missing or older than the cutoff.
    """

    markets = RecordType(KALSHI_MARKETS, "ticker", "ticker")
    events = RecordType(KALSHI_EVENTS, "event_ticker", "event_ticker")
    prices = RecordType(KALSHI_CANDLES, "ticker", "ticker")
    pulls, rejects = KALSHI_PULLS, KALSHI_REJECTS
    names = r"^[A-Za-z0-9._/-]{1,150}$"
    cursor = "cursor"
    market_steps = ("markets", NAMED, FOLLOWED)
    price_steps = ("candles",)
    columns = ("day", "ticker", "event_ticker", "status", "is_combo", "updated_at", "result", "close_time")
    moved = ("close_time", "close_time", "the market was open on this day and closes on another one now; pull that day to have it")
    price_key = ("ticker", "end_at")

    def __init__(self, client: KalshiClient, day: date, plan: PullPlan, archive: pl.LazyFrame | None) -> None:
        super().__init__(client, day, plan)
        self._archive = archive

    def parse_markets(self, step: str, page: VenuePage, markets: Markets) -> ParsedRecords:
        return parse_markets(page.items("markets"), page.origin, day=self.day)

    def parse_events(self, page: VenuePage) -> ParsedRecords:
        return parse_events(page.items("events"), page.origin, day=self.day)

    def parse_prices(self, step: str, pages: Sequence[VenuePage], markets: Markets) -> ParsedRecords:
        known = [page for page in pages if page.status != _NOT_FOUND]
        parsed = parse_candles(known, day=self.day)
        missing = [
            self.prices.quarantine(self.day, page.origin).reject_missing(
                sorted(self.requested(page)), f"the venue has no candles of this market: {parse_error_text(page.body)}"
            )
            for page in pages
            if page.status == _NOT_FOUND
        ]
        rows = self.plan.within_window(parsed.rows, markets.rows, "ticker", "end_at")
        return ParsedRecords(rows, (), pl.concat([parsed.rejects, *missing]).sort("page", maintain_order=True))

    def requested(self, page: VenuePage) -> frozenset[str]:
        return routes.parse_requested_tickers(page.request)

    def rank(self) -> list[tuple[str | pl.Expr, bool]]:
        return rank_records()

    def describe(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(archived=pl.col("listing") == len(self.market_steps))

    def list_event_ids(self, rows: pl.DataFrame) -> list[str]:
        """Return the sorted event tickers of some markets, without combos, whose events cannot be requested."""
        return rows.filter(~pl.col("is_combo"))["event_ticker"].unique().sort().to_list()

    def other_markets(self, markets: Markets) -> Iterator[pl.DataFrame]:
        """Yield the chosen records that come from the archive."""
        tickers = markets.rows.filter("archived")["ticker"]
        for start in range(0, len(tickers), _ROWS_AT_ONCE):
            assert self._archive is not None
            wanted = (pl.col("day") == self.day) & pl.col("ticker").is_in(tickers[start : start + _ROWS_AT_ONCE].implode())
            yield self._archive.filter(wanted).select(KALSHI_MARKETS.names).collect().sort("ticker")

    async def collect(self, puller: Puller, markets: Markets, pages: PageStore, known_ids: set[str]) -> None:
        """Collect the day's markets: from the live listing, the archive, and by name."""
        await puller.request_all("cutoff", [routes.historical_cutoff()])
        cutoff = next(puller.pages("cutoff"))
        markets.note_response(cutoff)
        scan = find_covering_archive(pages, self._archive, self.day, parse_cutoff(cutoff))
        start, end = self.start - timedelta(seconds=1), self.start + timedelta(days=1)
        await markets.collect(puller, "markets", [routes.markets(closing_after=start, closing_before=end)])
        if scan is not None and self._archive is not None:
            self._add_archive(markets, self._archive)
            markets.reject(scan.rejects(self.day))
        await markets.collect_named(puller, NAMED, known_ids - markets.seen_ids())

    def _add_archive(self, markets: Markets, archive: pl.LazyFrame) -> None:
        """Add the day's rows of raw/kalshi_archive."""
        of_day = archive.filter(pl.col("day") == self.day).select("page", *self.columns).sort("ticker").collect().with_row_index("ordinal")
        places = of_day.with_columns(pl.col("ordinal").cast(pl.Int32()), listing=pl.lit(len(self.market_steps), pl.UInt8()))
        markets.keys.append(places.select(markets.keys[0].columns))

    def list_named_calls(self, names: Iterable[str], answered: object) -> list[Listing]:
        return [routes.markets(tickers=batch, mve_filter=None) for batch in split_batches(sorted(names), MOST_TICKERS)]

    async def complete(self, puller: Puller, markets: Markets) -> None:
        batches = split_batches(self.list_event_ids(markets.rows), routes.MOST_EVENTS)
        async for _ in puller.follow("events", [routes.events(tickers=batch, nested=False) for batch in batches]):
            pass
        await puller.request_all("candles", build_candle_calls(self.plan, markets.rows), accept=frozenset({_NOT_FOUND}))

    def list_open_markets(self, puller: Puller, markets: Markets) -> list[str]:
        """Return the tickers of the live markets that have not been paid out."""
        return markets.rows.filter(pl.col("status") != _PAID_OUT, ~pl.col("archived"))["ticker"].to_list()


def select_markets(plan: PullPlan, markets: pl.DataFrame) -> pl.DataFrame:
    """Return the markets whose candles are pulled, sorted by close time: all but combos, or a reproducible sample if there are more than the
    plan's `markets`.

    `markets` has the columns ticker, close_time, is_combo and archived.
    """
    return plan.sample(markets.filter(~pl.col("is_combo")), "ticker").sort("close_time", "ticker")


def build_candle_calls(plan: PullPlan, markets: pl.DataFrame) -> list[VenueCall]:
    """Build the calls for the candles of the selected markets: live markets in batches, archived ones one by one."""
    chosen = select_markets(plan, markets)
    live, archived = (chosen.filter(pl.col("archived") == is_old).select("ticker", "close_time").rows() for is_old in (False, True))
    batches = [
        routes.candles_batch([ticker for ticker, _ in batch], batch[0][1] - plan.window, batch[-1][1]) for batch in _batches(plan, live)
    ]
    return batches + [routes.historical_candles(ticker, close - plan.window, close) for ticker, close in archived]


def _batches(plan: PullPlan, markets: Sequence[tuple[str, datetime]]) -> Iterator[list[tuple[str, datetime]]]:
    """Yield consecutive markets, sorted by close, in batches that fit into one call."""
    batch: list[tuple[str, datetime]] = []
    for market in markets:
        if batch:
            candles = (market[1] - batch[0][1] + plan.window) // timedelta(hours=1) + 1
            if len(batch) >= MOST_TICKERS or (len(batch) + 1) * candles > MOST_CANDLES:
                yield batch
                batch = []
        batch.append(market)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class SeriesPull:
    """Finished pull of the series. `requests`: pages fetched by this run; 0 if the pull was already stored."""

    pull: StoredPull
    requests: int

    def series(self) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/kalshi_series with one row per series; if a series occurs repeatedly, its first record counts."""
        return (parse_series(page.items("series"), page.origin).rows for page in self.pull.pages("series"))

    def rejects(self) -> pl.DataFrame:
        """Return rows of raw/kalshi_series_rejects: invalid records, and records that contradict an earlier one."""
        return pl.concat(parse_series(page.items("series"), page.origin).rejects for page in self.pull.pages("series"))


async def pull_series(client: KalshiClient, pages: PageStore, *, refresh: bool = False, progress: Progress | None = None) -> SeriesPull:
    """Pull all series; without `refresh`, reuse the stored pull. Raises `VenueError` if the venue does not respond."""

    async def work(puller: Puller) -> SeriesPull:
        async for _ in puller.follow("series", [routes.series()]):
            pass
        puller.finish({"table": KALSHI_SERIES.name})
        return SeriesPull(puller.pull, puller.requests)

    return await run_pull(client, pages, pages.open("series", "all", refresh=refresh), work, progress)
