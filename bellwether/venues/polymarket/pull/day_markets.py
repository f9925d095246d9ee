"""Collection of a day's markets from several listings of Gamma, with one record per market."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl

from bellwether.tables.raw import POLYMARKET_EVENTS, POLYMARKET_MARKETS, POLYMARKET_PRICES, POLYMARKET_PULLS, POLYMARKET_REJECTS
from bellwether.venues.http.day_markets import FOLLOWED, NAMED, BaseDayMarkets, BaseMarketCollector, DayTables, RecordType
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import PageStore, StoredPull
from bellwether.venues.http.pull_choice import LISTING
from bellwether.venues.polymarket.wire import parse_markets
from bellwether.venues.polymarket.wire.markets import DISTANT
from bellwether.venues.polymarket.wire.rules import ID
from bellwether.venues.wire.rejects import ParsedRecords, parse_or_reject

TABLES = DayTables(
    RecordType(POLYMARKET_MARKETS, "id", "market_id"),
    RecordType(POLYMARKET_EVENTS, "id", "event_id"),
    RecordType(POLYMARKET_PRICES, "token_id", "token_id"),
    POLYMARKET_PULLS,
    POLYMARKET_REJECTS,
    names=ID,
    cursor="next_cursor",
)
LISTED = "markets"
#: Step that requests markets by closing time, for markets without a useful scheduled end.
CLOSINGS = "closings"
#: Columns that stay in memory: those that the choice of a record and the resolution need.
COLUMNS = [name for name in POLYMARKET_MARKETS.names if name not in ("body", "description", "question", "request", "tags")]


def parse_page(step: str, page: VenuePage, day: date, by_close: Collection[str]) -> ParsedRecords:
    """Parse all markets of a page, whichever day they belong to; a page that cannot be processed becomes a reject. by_close: ids of the
    markets that belong to the day on which they closed.
    """
    closed = None if step == CLOSINGS else by_close
    return parse_or_reject(
        lambda: parse_markets(page.items("markets"), page.origin, day=day, by_close=closed), TABLES.markets.quarantine(day, page.origin)
    )


def parse_requested_ids(page: VenuePage) -> list[str]:
    """Parse the market ids from a page's request."""
    return parse_qs(urlsplit(page.request.removeprefix("GET ")).query).get("id", [])


@dataclass
class MarketCollector(BaseMarketCollector["DayMarkets"]):
    """Collector of a day's markets.

    by_close: ids of markets that belong to the day on which they closed. followed: ids of markets that were requested again.
    """

    tables = TABLES
    steps = (LISTED, CLOSINGS, NAMED, FOLLOWED)
    moved = ("endDate", "end_time", "the market was open on this day and is to end on another one now; pull that day to have it")

    frames: list[pl.DataFrame] = field(
        default_factory=lambda: [POLYMARKET_MARKETS.empty().select(COLUMNS).with_columns(ordinal=pl.lit(0, pl.Int32), step=pl.lit(""))]
    )
    by_close: set[str] = field(default_factory=set)
    followed: set[str] = field(default_factory=set)

    def parse(self, step: str, page: VenuePage) -> ParsedRecords:
        if step == NAMED:
            self._add_closings(parse_page(CLOSINGS, page, self.day, ()).rows)
        return parse_page(step, page, self.day, self.by_close)

    def add_parsed(self, step: str, page: VenuePage, parsed: ParsedRecords) -> None:
        rows = parsed.rows.select(COLUMNS).with_columns(pl.Series("ordinal", parsed.ordinals, dtype=pl.Int32()), step=pl.lit(step))
        if step == CLOSINGS:
            rows = self._add_closings(rows)
        self.frames.append(rows.filter(pl.col("day") == self.day))
        if step == FOLLOWED:
            self.followed.update(rows["market_id"])

    def ids(self) -> set[str]:
        return set(pl.concat(self.frames)["market_id"])

    def requested(self, page: VenuePage) -> list[str]:
        return parse_requested_ids(page)

    def _add_closings(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the markets that closed long before their scheduled end, or that have no scheduled end. Add the ids of those that closed
        on this day to `by_close`.
        """
        early = rows.filter((pl.col("end_time") == pl.col("closed_at")) | (pl.col("end_time") > pl.col("closed_at") + DISTANT))
        self.by_close.update(early.filter(pl.col("day") == self.day)["market_id"])
        return early

    def choose_records(self) -> DayMarkets:
        """Choose one record per market: closed records before open ones, then the one with the latest update.

        Only later responses count for a market that was requested again.
        """
        records = pl.concat(self.frames).filter((pl.col("step") == FOLLOWED) | ~pl.col("market_id").is_in(list(self.followed)))
        ranked = records.sort(
            "market_id", "closed", "updated_at", "page", "ordinal", descending=[False, True, True, False, False], nulls_last=True
        )
        rows = ranked.unique("market_id", keep="first", maintain_order=True).with_columns(
            price_token=pl.when(pl.col("market_type") == "binary")
            .then("yes_token")
            .when(pl.col("market_type") == "named")
            .then(pl.col("token_ids").list.first()),
            close_time=pl.min_horizontal("closed_at", "end_time"),
        )
        return DayMarkets(self.day, rows, pl.concat(self.rejects), self.parsed, frozenset(self.by_close))

    def drop_moved(self, pages: PageStore) -> None:
        """Remove markets that closed long before their scheduled end and belong to the day on which they closed."""
        early = pl.concat(self.frames).filter(pl.col("step") == LISTED, pl.col("end_time") > pl.col("closed_at") + DISTANT)
        days = early["closed_at"].dt.date()
        pulls = {day: pages.latest_finished(LISTING, day.isoformat()) for day in days.unique() if day != self.day}
        listed = [day for day, pull in pulls.items() if pull is not None and pull.count(CLOSINGS)]
        left_out = early.filter(days.is_in(listed))["market_id"].implode()
        self.frames = [rows.filter(~pl.col("market_id").is_in(left_out)) for rows in self.frames]


@dataclass(frozen=True)
class DayMarkets(BaseDayMarkets):
    """Markets of a day.

    rows: `COLUMNS`, the place of the record (step, page, ordinal), price_token (of YES, or of the first of two named outcomes) and
    close_time (the earlier of the actual and the scheduled end).
    """

    tables = TABLES

    by_close: frozenset[str]

    @property
    def price_tokens(self) -> set[tuple[str, str | None]]:
        return set(self.rows.select("market_id", "price_token").iter_rows())

    @property
    def event_ids(self) -> list[str]:
        return self.rows["event_id"].drop_nulls().unique().sort().to_list()

    @property
    def closed_conditions(self) -> list[str]:
        """Sorted condition ids of the closed markets."""
        return self.rows.filter(pl.col("closed"))["condition_id"].drop_nulls().unique().sort().to_list()

    @cached_property
    def by_token(self) -> dict[str, dict[str, Any]]:
        """Return market_id and close_time of each market with a price token (the token whose prices are pulled), by token."""
        rows = self.rows.filter(pl.col("price_token").is_not_null()).select("price_token", "market_id", "close_time")
        return {row.pop("price_token"): row for row in rows.iter_rows(named=True)}

    def frames(self, pull: StoredPull) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/polymarket_markets, each market once."""
        places = [(step, ordinal) for step in MarketCollector.steps for ordinal in range(pull.count(step))]
        for step, ordinal in places:
            counting = self.rows.filter(pl.col("step") == step, pl.col("page") == ordinal)["ordinal"]
            if len(counting):
                parsed = self.parsed.get((step, ordinal)) or parse_page(step, pull.page(step, ordinal), self.day, self.by_close)
                yield parsed.rows.filter(pl.Series(parsed.ordinals, dtype=pl.Int32()).is_in(counting.implode()))
