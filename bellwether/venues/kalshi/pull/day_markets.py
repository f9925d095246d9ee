"""Collection of a day's markets from several sources, with one record per market.

A record's key has its place in the pull and the columns by which records are compared. A superseded record was not chosen.

Sources are the live listing, the markets nested in the day's events, later responses about markets that were open, and the archive. Only
keys stay in memory; rows are read page by page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import polars as pl

from bellwether.tables.raw import KALSHI_ARCHIVE, KALSHI_CANDLES, KALSHI_EVENTS, KALSHI_MARKETS, KALSHI_PULLS, KALSHI_REJECTS
from bellwether.venues.http.day_markets import FOLLOWED, NAMED, BaseDayMarkets, BaseMarketCollector, DayTables, RecordType
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import StoredPull
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.pull.conflicts import KEYS, SUPERSEDED, build_keys, drop_superseded, reject_contradictions, select_records
from bellwether.venues.kalshi.wire import ParsedRecords, extract_nested_markets, parse_markets
from bellwether.venues.wire.rejects import parse_or_reject

TABLES = DayTables(
    RecordType(KALSHI_MARKETS, "ticker", "ticker"),
    RecordType(KALSHI_EVENTS, "event_ticker", "event_ticker"),
    RecordType(KALSHI_CANDLES, "ticker", "ticker"),
    KALSHI_PULLS,
    KALSHI_REJECTS,
    names=r"^[A-Za-z0-9._/-]{1,150}$",
    cursor="cursor",
)
#: Steps of a day's pull whose pages contain markets; of equally new records, the one of an earlier step counts.
STEPS = ("markets", NAMED, "events", FOLLOWED)
_FOLLOWED, ARCHIVED = STEPS.index(FOLLOWED), len(STEPS)
PAID_OUT = "finalized"
_ROWS_AT_ONCE = 1000


def extract_markets(step: str, page: VenuePage) -> list[Any]:
    """Return the market objects on a page of a step."""
    return extract_nested_markets(page.items("events")) if step == "events" else page.items("markets")


def parse_step(step: str, page: VenuePage, day: date) -> ParsedRecords:
    """Parse all markets of a page, whichever day they belong to; a page that cannot be processed becomes a reject."""
    return parse_or_reject(
        lambda: parse_markets(extract_markets(step, page), page.origin, day=day, source="live"),
        TABLES.markets.quarantine(day, page.origin),
    )


@dataclass
class MarketCollector(BaseMarketCollector["DayMarkets"]):
    """Collector of the keys and rejects of a day's markets."""

    tables = TABLES
    steps = STEPS
    moved = ("close_time", "close_time", "the market was open on this day and closes on another one now; pull that day to have it")

    keys: list[pl.DataFrame] = field(default_factory=lambda: [pl.DataFrame(schema=KEYS)])

    def parse(self, step: str, page: VenuePage) -> ParsedRecords:
        return parse_step(step, page, self.day)

    def add_parsed(self, step: str, page: VenuePage, parsed: ParsedRecords) -> None:
        self.keys.append(build_keys(parsed, STEPS.index(step)))

    def ids(self) -> set[str]:
        return set(pl.concat(self.keys).filter(pl.col("day") == self.day)["ticker"])

    def requested(self, page: VenuePage) -> frozenset[str]:
        return routes.parse_requested_tickers(page.request)

    def add_archive(self, rows: pl.LazyFrame, rejects: pl.DataFrame) -> None:
        """Add the rows of raw/kalshi_archive and the rejects of its scan."""
        columns = [name for name in KEYS.names() if name not in ("listing", "ordinal")]
        of_day = rows.filter(pl.col("day") == self.day).select(columns).sort("ticker").collect().with_row_index("ordinal")
        places = of_day.with_columns(pl.col("ordinal").cast(pl.Int32()), pl.lit(ARCHIVED, dtype=pl.UInt8()).alias("listing"))
        self.keys.append(places.select(KEYS.names()))
        self.rejects.append(rejects)

    def event_tickers(self) -> list[str]:
        """Return the sorted event tickers of the markets so far, without combos, whose events cannot be requested."""
        keys = pl.concat(self.keys).filter((pl.col("day") == self.day) & ~pl.col("is_combo"))
        return keys["event_ticker"].unique().sort().to_list()

    def choose_records(self) -> DayMarkets:
        """Choose the newest record of each market. If a market was requested again later, its earlier records do not count."""
        keys = pl.concat(self.keys)
        later = keys.filter(pl.col("listing") == _FOLLOWED)["ticker"].unique()
        is_replaced = (pl.col("listing") != _FOLLOWED) & pl.col("ticker").is_in(later.implode())
        replaced = keys.filter(is_replaced).select(
            pl.col(name) if name in keys.columns else pl.lit(None, dtype).alias(name) for name, dtype in SUPERSEDED.items()
        )
        winners, superseded = select_records(keys.filter(~is_replaced))
        superseded = pl.concat([superseded, replaced])
        of_day = winners.filter(pl.col("day") == self.day).with_columns(archived=pl.col("listing") == ARCHIVED).sort("ticker")
        is_of_day = (pl.col("day") == self.day) | pl.col("ticker").is_in(of_day["ticker"].implode())
        return DayMarkets(self.day, of_day, pl.concat(self.rejects), self.parsed, superseded.filter(is_of_day))


@dataclass(frozen=True)
class DayMarkets(BaseDayMarkets):
    """Markets of a day.

    rows: ticker, event_ticker, status, close_time, is_combo, archived and others. superseded: places of the records that were not chosen.
    """

    tables = TABLES

    superseded: pl.DataFrame

    @property
    def event_ids(self) -> list[str]:
        """Sorted event tickers of the markets, without combos."""
        return self.rows.filter(~pl.col("is_combo"))["event_ticker"].unique().sort().to_list()

    @property
    def settled(self) -> bool:
        """True if every market of the day has been paid out."""
        return bool((self.rows["status"] == PAID_OUT).all())

    def frames(self, pull: StoredPull, archive: pl.LazyFrame | None) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/kalshi_markets, each market once: first from the stored pages, then from the archive."""
        for step in STEPS:
            for ordinal in range(pull.count(step)):
                parsed = self.parsed.get((step, ordinal)) or parse_step(step, pull.page(step, ordinal), self.day)
                rows = drop_superseded(parsed, self._superseded_on(step, ordinal)).filter(pl.col("day") == self.day)
                if rows.height:
                    yield rows
        if archive is not None:
            yield from self._archived(archive)

    def _archived(self, archive: pl.LazyFrame) -> Iterator[pl.DataFrame]:
        """Yield the chosen records that come from the archive."""
        tickers = self.rows.filter("archived")["ticker"]
        for start in range(0, len(tickers), _ROWS_AT_ONCE):
            wanted = (pl.col("day") == self.day) & pl.col("ticker").is_in(tickers[start : start + _ROWS_AT_ONCE].implode())
            yield archive.filter(wanted).select(KALSHI_MARKETS.names).collect().sort("ticker")

    def reject_contradictions(self, pull: StoredPull, archive: pl.LazyFrame | None) -> Iterator[pl.DataFrame]:
        """Yield rejects for records that contradict the chosen record of their market."""
        disputed = self.superseded.filter(pl.col("reason").is_not_null()).with_columns(day=pl.lit(self.day))
        paged = disputed.filter(pl.col("listing") < ARCHIVED)
        for listing, ordinal in paged.select("listing", "page").unique().sort("listing", "page").rows():
            page = pull.page(STEPS[listing], ordinal)
            on_page = paged.filter((pl.col("listing") == listing) & (pl.col("page") == ordinal))
            yield reject_contradictions(TABLES.markets.quarantine(self.day, page.origin), extract_markets(STEPS[listing], page), on_page)
        archived = disputed.filter(pl.col("listing") == ARCHIVED)
        if archive is not None and archived.height:
            yield self._reject_archived(archive, archived)

    def _reject_archived(self, archive: pl.LazyFrame, disputed: pl.DataFrame) -> pl.DataFrame:
        """Build the rejects for archived records that contradict the chosen ones."""
        rows = archive.filter(pl.col("ticker").is_in(disputed["ticker"].implode())).drop("day", "page").collect()
        return (
            rows.join(disputed, on="ticker")
            .sort("ticker")
            .with_columns(venue=pl.lit("kalshi"), table=pl.lit(KALSHI_ARCHIVE.name), record_id=pl.col("ticker"))
            .select(KALSHI_REJECTS.names)
        )

    def _superseded_on(self, step: str, ordinal: int) -> pl.DataFrame:
        """Return the superseded records of a page."""
        return self.superseded.filter((pl.col("listing") == STEPS.index(step)) & (pl.col("page") == ordinal))
