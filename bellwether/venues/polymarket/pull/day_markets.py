"""The markets of one day from Gamma's two listings, with the one record of each that counts; only what decides is held in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl

from bellwether.tables.raw import POLYMARKET_MARKETS, POLYMARKET_REJECTS
from bellwether.venues.http.following import ending
from bellwether.venues.http.page import Page
from bellwether.venues.http.pages import StoredPull
from bellwether.venues.polymarket.wire import parse_markets
from bellwether.venues.polymarket.wire.markets import DISTANT
from bellwether.venues.polymarket.wire.rules import ID
from bellwether.venues.wire.rejects import NOT_LISTED, FewPages, Origin, Parsed, Problem, Quarantine, curable, is_processed, processed

STEP = "markets"
#: What was later asked about those that were open.
FOLLOWED = "followed"
#: What is held of every market: all that its resolution rests on, and where its record stands.
HELD = [name for name in POLYMARKET_MARKETS.names if name not in ("body", "description", "question", "request", "tags")]


#: Markets by the time at which they closed: those that no day lists by its scheduled end.
CLOSINGS = "closings"
#: Markets of the pull before that the listings lack, by id.
NAMED = "named"
#: The steps of a pull that bring markets.
STEPS = (STEP, CLOSINGS, NAMED, FOLLOWED)
#: Why a market that was followed is on its day no more.
MOVED = "the market was open on this day and is to end on another one now; pull that day to have it"


def parse_page(step: str, page: Page, day: date, by_close: Collection[str]) -> Parsed:
    """The markets of a page, of whatever day; those in `by_close` were found by their closing. A page that cannot be processed is a reject."""
    ended = None if step == CLOSINGS else by_close
    quarantine = Quarantine(POLYMARKET_MARKETS, "id", day, page.origin)
    return processed(lambda: parse_markets(page.items("markets"), page.origin, day=day, by_close=ended), quarantine)


def named(rejects: pl.DataFrame) -> pl.DataFrame:
    """The rejects whose market can be requested by its id."""
    return rejects.filter(pl.col("record_id").str.contains(ID))


def asked_ids(page: Page) -> list[str]:
    """The ids that a call, as text, asked for."""
    return parse_qs(urlsplit(page.request.removeprefix("GET ")).query).get("id", [])


@dataclass
class Gathering:
    """A day's markets while their pages come in."""

    day: date
    held: list[pl.DataFrame] = field(
        default_factory=lambda: [POLYMARKET_MARKETS.empty().select(HELD).with_columns(ordinal=pl.lit(0, pl.Int32), step=pl.lit(""))]
    )
    rejects: list[pl.DataFrame] = field(default_factory=lambda: [POLYMARKET_REJECTS.empty()])
    parsed: FewPages[tuple[str, int]] = field(default_factory=FewPages)
    answered: set[str] = field(default_factory=set)
    by_close: set[str] = field(default_factory=set)
    refused: set[tuple[str | None, str]] = field(default_factory=set)
    asked: dict[str, Origin] = field(default_factory=dict)
    met: defaultdict[str, set[str | None]] = field(default_factory=lambda: defaultdict(set))

    def add(self, page: Page, *, step: str = STEP, last: bool = False) -> bool:
        """Take in the markets of one page; what an earlier page already gave as a reject for the same reason is not counted again.

        Returns whether it was taken in: not one that cannot be processed, unless it is the `last` try.
        """
        if step == NAMED:
            self._add_closings(parse_page(CLOSINGS, page, self.day, ()).rows)
        parsed = parse_page(step, page, self.day, self.by_close)
        if not last and not is_processed(parsed):
            return False
        self.parsed[step, page.ordinal] = parsed
        places = pl.Series("ordinal", parsed.ordinals, dtype=pl.Int32())
        rows = parsed.rows.select(HELD).with_columns(places, step=pl.lit(step))
        if step == CLOSINGS:
            rows = self._add_closings(rows)
        self.held.append(rows.filter(pl.col("day") == self.day))
        if step in (NAMED, FOLLOWED):
            self.rejects.append(self._moved(rows, page))
            self.asked.update((market_id, page.origin) for market_id in asked_ids(page))
            self.met[step].update(rows["market_id"], parsed.rejects["record_id"])
        if step == FOLLOWED:
            self.answered.update(rows["market_id"])
            self.refused.update(zip(parsed.rejects["record_id"], parsed.rejects["reason"], strict=True))
        new = parsed.rejects.filter(pl.col("day") == self.day)
        if new.height:
            self.rejects.append(new.join(pl.concat(self.rejects), on=["record_id", "field", "reason"], how="anti", maintain_order="left"))
        return True

    def _add_closings(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Of `rows`, by their closing, the markets without an end or with a distant one; notes those that closed on the day."""
        found = rows.filter((pl.col("end_time") == pl.col("closed_at")) | (pl.col("end_time") > pl.col("closed_at") + DISTANT))
        self.by_close.update(found.filter(pl.col("day") == self.day)["market_id"])
        return found

    def absent(self, step: str) -> set[str]:
        """The markets that the calls of a step requested and that no answer to them lists; each becomes a reject."""
        absent = self.asked.keys() - self.met[step]
        new = absent.difference(pl.concat(self.rejects).filter(pl.col("reason") == NOT_LISTED)["record_id"])
        places = sorted((self.asked[market_id].page, market_id) for market_id in new)
        for _, group in groupby(places, key=itemgetter(0)):
            ids = [market_id for _, market_id in group]
            self.rejects.append(Quarantine(POLYMARKET_MARKETS, "id", self.day, self.asked[ids[0]]).in_vain(ids, NOT_LISTED))
        self.asked.clear()
        return absent

    def listed(self) -> set[str | None]:
        """The markets of the day so far, and those that are rejects."""
        return {*pl.concat(self.held)["market_id"], *pl.concat(self.rejects)["record_id"]}

    def known(self) -> set[str]:
        """The markets of the day so far, and those of its curable rejects."""
        return {*self.settle().rows["market_id"], *self.curable()}

    def curable(self) -> dict[str, str]:
        """The reason by id of the rejects so far that a later answer may cure, as far as their markets can be requested."""
        return dict(named(curable(pl.concat(self.rejects))).select("record_id", "reason").iter_rows())

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
        held = pl.concat(self.held).filter((pl.col("step") == FOLLOWED) | ~pl.col("market_id").is_in(list(self.answered)))
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
        return DayMarkets(self.day, rows, pl.concat(self.rejects), self.parsed, frozenset(self.by_close))

    def early(self) -> dict[str, date]:
        """The markets that were answered long before their scheduled end, with the day on which they closed."""
        held = pl.concat(self.held).filter(pl.col("step") == STEP, pl.col("end_time") > pl.col("closed_at") + DISTANT)
        return dict(held.select("market_id", pl.col("closed_at").dt.date()).iter_rows())

    def leave_out(self, market_ids: Collection[str]) -> None:
        """Leave out markets that the day of their closing has."""
        self.held = [rows.filter(~pl.col("market_id").is_in(list(market_ids))) for rows in self.held]


@dataclass(frozen=True)
class DayMarkets:
    """The markets of a day.

    rows: one per market: the columns `HELD`, its place (step, page, ordinal), price_token (of yes, or of the first of two named outcomes) and
    close_time (the earlier of the real and the scheduled end). rejects: records that do not fit. parsed: pages that need not be read again.
    """

    day: date
    rows: pl.DataFrame
    rejects: pl.DataFrame
    parsed: FewPages[tuple[str, int]] = field(default_factory=FewPages, repr=False, compare=False)
    by_close: frozenset[str] = frozenset()

    def ending(self, asked_at: datetime, *, settled: bool, complete: bool) -> dict[str, Any]:
        """The part of the pull's note about what the day still needs, as of `asked_at`; see `bellwether.venues.http.following.ending`."""
        waiting = curable(self.rejects)
        alone = named(waiting).height == waiting.height
        return ending(self.day, asked_at, settled=settled, complete=complete, waiting=not waiting.is_empty(), named=alone)

    @property
    def price_tokens(self) -> set[tuple[str, str | None]]:
        """Each market with the token that prices it."""
        return set(self.rows.select("market_id", "price_token").iter_rows())

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
        places = [(step, ordinal) for step in STEPS for ordinal in range(pull.count(step))]
        for step, ordinal in places:
            counting = self.rows.filter(pl.col("step") == step, pl.col("page") == ordinal)["ordinal"]
            if len(counting):
                parsed = self.parsed.get((step, ordinal)) or parse_page(step, pull.page(step, ordinal), self.day, self.by_close)
                yield parsed.rows.filter(pl.Series(parsed.ordinals, dtype=pl.Int32()).is_in(counting.implode()))
