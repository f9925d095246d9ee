"""The markets of one day from Gamma's two listings, with the one record of each that counts; only what decides is held in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any

import polars as pl

from bellwether.tables.raw import POLYMARKET_MARKETS, POLYMARKET_REJECTS
from bellwether.venues.http.page import Page
from bellwether.venues.http.pages import StoredPull
from bellwether.venues.polymarket.wire import parse_markets
from bellwether.venues.wire.rejects import FewPages, Parsed, Problem, Quarantine

STEP = "markets"
#: What was later asked about those that were open.
FOLLOWED = "followed"
#: What is held of every market: all that its resolution rests on, and where its record stands.
HELD = [name for name in POLYMARKET_MARKETS.names if name not in ("body", "description", "question", "request", "tags")]


#: Why a market that was followed is on its day no more.
MOVED = "the market was open on this day and is to end on another one now; pull that day to have it"


def parse_page(page: Page, day: date) -> Parsed:
    """The markets of a page, of whatever day."""
    return parse_markets(page.items("markets"), page.origin, day=day)


@dataclass
class Gathering:
    """A day's markets while their pages come in."""

    day: date
    held: list[pl.DataFrame] = field(
        default_factory=lambda: [POLYMARKET_MARKETS.empty().select(HELD).with_columns(ordinal=pl.lit(0, pl.Int32), followed=pl.lit(False))]
    )
    rejects: list[pl.DataFrame] = field(default_factory=lambda: [POLYMARKET_REJECTS.empty()])
    parsed: FewPages[tuple[str, int]] = field(default_factory=FewPages)
    answered: set[str] = field(default_factory=set)

    def add(self, page: Page, *, step: str = STEP) -> None:
        """Take in the markets of one page; what an earlier page already gave as a reject for the same reason is not counted again."""
        parsed = self.parsed[step, page.ordinal] = parse_page(page, self.day)
        places = pl.Series("ordinal", parsed.ordinals, dtype=pl.Int32())
        rows = parsed.rows.select(HELD).with_columns(places, followed=pl.lit(step == FOLLOWED))
        self.held.append(rows.filter(pl.col("day") == self.day))
        if step == FOLLOWED:
            self.answered.update(rows["market_id"])
            self.rejects.append(self._moved(rows, page))
        new = parsed.rejects.filter(pl.col("day") == self.day)
        if new.height:
            self.rejects.append(new.join(pl.concat(self.rejects), on=["record_id", "field", "reason"], how="anti", maintain_order="left"))

    def _moved(self, rows: pl.DataFrame, page: Page) -> pl.DataFrame:
        """Rejects for markets that were followed and do not belong to this day any more."""
        ends = zip(rows["ordinal"], rows["day"], rows["end_time"], strict=True)
        problems = {ordinal: Problem("endDate", str(end), MOVED) for ordinal, day, end in ends if day != self.day}
        return Quarantine(POLYMARKET_MARKETS, "id", self.day, page.origin).rows(page.items("markets"), problems, {})

    def settle(self) -> DayMarkets:
        """Decide which record of every market counts.

        Of one that was asked about later only the later answers; of these, one that is closed before one that is not, then the one updated last,
        then the first.
        """
        held = pl.concat(self.held).filter(pl.col("followed") | ~pl.col("market_id").is_in(list(self.answered)))
        ranked = held.sort(
            "market_id", "closed", "updated_at", "page", "ordinal", descending=[False, True, True, False, False], nulls_last=True
        )
        rows = ranked.unique("market_id", keep="first", maintain_order=True).with_columns(
            price_token=pl.when(pl.col("market_type") == "binary")
            .then("yes_token")
            .when(pl.col("market_type") == "named")
            .then(pl.col("token_ids").list.first()),
            close_time=pl.min_horizontal("closed_at", "end_time"),
        )
        return DayMarkets(self.day, rows, pl.concat(self.rejects), self.parsed)


@dataclass(frozen=True)
class DayMarkets:
    """The markets of a day.

    rows: one per market: the columns `HELD`, its place (followed, page, ordinal), price_token (of yes, or of the first of two named outcomes) and
    close_time (the earlier of the real and the scheduled end). rejects: records that do not fit. parsed: pages that need not be read again.
    """

    day: date
    rows: pl.DataFrame
    rejects: pl.DataFrame
    parsed: FewPages[tuple[str, int]] = field(default_factory=FewPages, repr=False, compare=False)

    @property
    def event_ids(self) -> list[str]:
        """The events of the markets, in order."""
        return self.rows["event_id"].drop_nulls().unique().sort().to_list()

    @property
    def closed_conditions(self) -> list[str]:
        """The condition ids of the closed markets, in order."""
        return self.rows.filter(pl.col("closed"))["condition_id"].drop_nulls().unique().sort().to_list()

    @cached_property
    def by_token(self) -> dict[str, dict[str, Any]]:
        """market_id and close_time of every market by the token that prices it."""
        rows = self.rows.filter(pl.col("price_token").is_not_null()).select("price_token", "market_id", "close_time")
        return {row.pop("price_token"): row for row in rows.iter_rows(named=True)}

    def frames(self, pull: StoredPull) -> Iterator[pl.DataFrame]:
        """Frames of raw/polymarket_markets, unique over all of them."""
        places = [(step, ordinal) for step in (STEP, FOLLOWED) for ordinal in range(pull.count(step))]
        for step, ordinal in places:
            counting = self.rows.filter(pl.col("followed") == (step == FOLLOWED), pl.col("page") == ordinal)["ordinal"]
            if len(counting):
                parsed = self.parsed.get((step, ordinal)) or parse_page(pull.page(step, ordinal), self.day)
                yield parsed.rows.filter(pl.Series(parsed.ordinals, dtype=pl.Int32()).is_in(counting.implode()))
