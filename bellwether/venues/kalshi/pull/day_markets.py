"""The markets of one day from its sources, with the one record of each that counts.

Sources are the live listing, the markets nested in the day's events, what was later asked about those that were open, and the archive; only keys
are held, rows are read page by page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from bellwether.tables.raw import KALSHI_ARCHIVE, KALSHI_EVENTS, KALSHI_MARKETS, KALSHI_REJECTS
from bellwether.venues.http.following import ending
from bellwether.venues.http.page import Page
from bellwether.venues.http.pages import StoredPull
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.pull.resolve import KEYS, SUPERSEDED, contradicted, counting, keys_of, resolve
from bellwether.venues.kalshi.wire import Parsed, nested_markets, parse_markets
from bellwether.venues.wire.rejects import HOLE, NOT_LISTED, FewPages, Origin, Problem, Quarantine, curable, is_processed, processed

#: Steps of a day's pull that bring markets; their position orders equally new records.
STEPS = ("markets", "named", "events", "followed")
#: Of these, the steps that request markets by name.
BY_NAME = ("named", "followed")
TABLES = {"markets": KALSHI_MARKETS, "named": KALSHI_MARKETS, "events": KALSHI_EVENTS, "followed": KALSHI_MARKETS}
LISTINGS = {"markets": routes.markets(), "named": routes.markets(), "events": routes.events(), "followed": routes.markets()}
FOLLOWED, ARCHIVED = STEPS.index("followed"), len(STEPS)
MOVED = "the market was open on this day and closes on another one now; pull that day to have it"
PAID_OUT = "finalized"
_ROWS_AT_ONCE = 1000


def named(rejects: pl.DataFrame) -> pl.DataFrame:
    """The rejects whose market can be requested by its ticker."""
    return rejects.filter(pl.col("record_id").str.contains(r"^[A-Za-z0-9._/-]{1,150}$"))


def market_objects(step: str, page: Page) -> list[Any]:
    """The market objects that a page of a step brings."""
    return nested_markets(page.items("events")) if step == "events" else page.items("markets")


def parse_step(step: str, page: Page, day: date) -> Parsed:
    """The markets of a page, of whatever day; a page that cannot be processed is a reject."""
    quarantine = Quarantine(KALSHI_MARKETS, "ticker", day, page.origin)
    return processed(lambda: parse_markets(market_objects(step, page), page.origin, day=day, source="live"), quarantine)


@dataclass
class Gathering:
    """Keys and rejects of a day's markets while its pages come in."""

    day: date
    keys: list[pl.DataFrame] = field(default_factory=lambda: [pl.DataFrame(schema=KEYS)])
    rejects: list[pl.DataFrame] = field(default_factory=lambda: [KALSHI_REJECTS.empty()])
    parsed: FewPages[tuple[str, int]] = field(default_factory=FewPages)
    refused: set[tuple[str | None, str]] = field(default_factory=set)
    asked: dict[str, Origin] = field(default_factory=dict)
    answered: defaultdict[str, set[str | None]] = field(default_factory=lambda: defaultdict(set))

    def add(self, step: str, page: Page, *, last: bool = False) -> bool:
        """Take in the markets of one page; what an earlier page already gave as a reject for the same reason is not counted again.

        Returns whether it was taken in: not one that cannot be processed, unless it is the `last` try.
        """
        parsed = parse_step(step, page, self.day)
        if not last and not is_processed(parsed):
            return False
        self.parsed[step, page.ordinal] = parsed
        if LISTINGS[step].is_hole(page):
            self.rejects.append(Quarantine(TABLES[step], "ticker", self.day, page.origin).hole(page.answer))
        self.keys.append(keys_of(parsed, STEPS.index(step)))
        if step in BY_NAME:
            self.rejects.append(self._moved(parsed, page))
            self.asked.update((ticker, page.origin) for ticker in routes.asked_tickers(page.request))
            self.answered[step].update(parsed.rows["ticker"], parsed.rejects["record_id"])
        if parsed.rejects.height:
            new = parsed.rejects.filter(pl.col("day") == self.day)
            self.rejects.append(new.join(pl.concat(self.rejects), on=["record_id", "field", "reason"], how="anti", maintain_order="left"))
            if step == "followed":
                self.refused.update(zip(parsed.rejects["record_id"], parsed.rejects["reason"], strict=True))
        return True

    def absent(self, step: str) -> set[str]:
        """The markets that the calls of a step requested and that no answer to them lists; each becomes a reject."""
        absent = self.asked.keys() - self.answered[step]
        new = absent.difference(pl.concat(self.rejects).filter(pl.col("reason") == NOT_LISTED)["record_id"])
        places = sorted((self.asked[ticker].page, ticker) for ticker in new)
        for _, group in groupby(places, key=itemgetter(0)):
            tickers = [ticker for _, ticker in group]
            self.rejects.append(Quarantine(KALSHI_MARKETS, "ticker", self.day, self.asked[tickers[0]]).in_vain(tickers, NOT_LISTED))
        self.asked.clear()
        return absent

    def _moved(self, parsed: Parsed, page: Page) -> pl.DataFrame:
        """Rejects for markets that were followed and do not close on this day any more."""
        days = zip(parsed.ordinals, parsed.rows["day"], parsed.rows["close_time"], strict=True)
        problems = {ordinal: Problem("close_time", str(close), MOVED) for ordinal, day, close in days if day != self.day}
        return Quarantine(KALSHI_MARKETS, "ticker", self.day, page.origin).rows(page.items("markets"), problems, {})

    def open_tickers(self) -> list[str]:
        """The markets of the live pages so far that have not been paid out, in order."""
        winners, _ = resolve(pl.concat(self.keys))
        waiting = (pl.col("day") == self.day) & (pl.col("status") != PAID_OUT) & (pl.col("listing") != ARCHIVED)
        return winners.filter(waiting)["ticker"].sort().to_list()

    def known(self) -> set[str]:
        """The markets of the day so far, and those of its curable rejects."""
        return {*self.settle().keys["ticker"], *self.curable()}

    def met(self) -> set[str | None]:
        """The markets of the day so far, and those that are rejects."""
        keys = pl.concat(self.keys).filter(pl.col("day") == self.day)
        return {*keys["ticker"], *pl.concat(self.rejects)["record_id"]}

    def curable(self) -> dict[str, str]:
        """The reason by ticker of the rejects so far that a later answer may cure, as far as their markets can be requested."""
        return dict(named(curable(pl.concat(self.rejects))).select("record_id", "reason").iter_rows())

    def add_archive(self, rows: pl.LazyFrame, rejects: pl.DataFrame) -> None:
        """Take in the rows of raw/kalshi_archive and the rejects of its scan."""
        columns = [name for name in KEYS.names() if name not in ("listing", "ordinal")]
        of_day = rows.filter(pl.col("day") == self.day).select(columns).sort("ticker").collect().with_row_index("ordinal")
        places = of_day.with_columns(pl.col("ordinal").cast(pl.Int32()), pl.lit(ARCHIVED, dtype=pl.UInt8()).alias("listing"))
        self.keys.append(places.select(KEYS.names()))
        self.rejects.append(rejects)

    def event_tickers(self) -> list[str]:
        """The events of the markets gathered so far, in order; combos have none that could be asked for."""
        keys = pl.concat(self.keys).filter((pl.col("day") == self.day) & ~pl.col("is_combo"))
        return keys["event_ticker"].unique().sort().to_list()

    def settle(self) -> DayMarkets:
        """Decide which record of every market counts: of one that was asked about later, the later answer."""
        keys = pl.concat(self.keys)
        later = keys.filter(pl.col("listing") == FOLLOWED)["ticker"].unique()
        is_replaced = (pl.col("listing") != FOLLOWED) & pl.col("ticker").is_in(later.implode())
        replaced = keys.filter(is_replaced).select(
            pl.col(name) if name in keys.columns else pl.lit(None, dtype).alias(name) for name, dtype in SUPERSEDED.items()
        )
        winners, superseded = resolve(keys.filter(~is_replaced))
        superseded = pl.concat([superseded, replaced])
        of_day = winners.filter(pl.col("day") == self.day).with_columns(archived=pl.col("listing") == ARCHIVED).sort("ticker")
        ours = (pl.col("day") == self.day) | pl.col("ticker").is_in(of_day["ticker"].implode())
        return DayMarkets(self.day, of_day, superseded.filter(ours), pl.concat(self.rejects), self.parsed)


@dataclass(frozen=True, slots=True)
class DayMarkets:
    """The markets of a day.

    keys: one row per market (ticker, event_ticker, status, close_time, is_combo, archived, …). superseded: the places of records that do not
    count. rejects: records that do not fit. parsed: pages that need not be read again.
    """

    day: date
    keys: pl.DataFrame
    superseded: pl.DataFrame
    rejects: pl.DataFrame
    parsed: FewPages[tuple[str, int]] = field(default_factory=FewPages, repr=False, compare=False)

    @property
    def settled(self) -> bool:
        """Whether every market of the day has been paid out."""
        return bool((self.keys["status"] == PAID_OUT).all())

    def ending(self, asked_at: datetime, *, complete: bool) -> dict[str, Any]:
        """The part of the pull's note about what the day still needs, as of `asked_at`; see `bellwether.venues.http.following.ending`. complete: it was over, and no page is missing."""
        waiting = curable(self.rejects)
        alone = named(waiting).height == waiting.height
        complete = complete and not self.has_holes
        return ending(self.day, asked_at, settled=self.settled, complete=complete, waiting=not waiting.is_empty(), named=alone)

    @property
    def has_holes(self) -> bool:
        """Whether a page of the day's own listed nothing although its cursor went on."""
        return not self.rejects.filter(pl.col("reason") == HOLE, pl.col("table") != KALSHI_ARCHIVE.name).is_empty()

    def frames(self, pull: StoredPull, archive: pl.LazyFrame | None) -> Iterator[pl.DataFrame]:
        """Frames of raw/kalshi_markets, unique over all of them: those of the stored pages, then those of the archive."""
        for step in STEPS:
            for ordinal in range(pull.count(step)):
                parsed = self.parsed.get((step, ordinal)) or parse_step(step, pull.page(step, ordinal), self.day)
                rows = counting(parsed, self._superseded_on(step, ordinal)).filter(pl.col("day") == self.day)
                if rows.height:
                    yield rows
        if archive is not None:
            yield from self._archived(archive)

    def _archived(self, archive: pl.LazyFrame) -> Iterator[pl.DataFrame]:
        tickers = self.keys.filter("archived")["ticker"]
        for start in range(0, len(tickers), _ROWS_AT_ONCE):
            wanted = (pl.col("day") == self.day) & pl.col("ticker").is_in(tickers[start : start + _ROWS_AT_ONCE].implode())
            yield archive.filter(wanted).select(KALSHI_MARKETS.names).collect().sort("ticker")

    def contradicted(self, pull: StoredPull, archive: pl.LazyFrame | None) -> Iterator[pl.DataFrame]:
        """Frames of raw/kalshi_rejects: records that another one of the same market, at least as new, contradicts."""
        disputed = self.superseded.filter(pl.col("reason").is_not_null()).with_columns(day=pl.lit(self.day))
        paged = disputed.filter(pl.col("listing") < ARCHIVED)
        for listing, ordinal in paged.select("listing", "page").unique().sort("listing", "page").rows():
            page = pull.page(STEPS[listing], ordinal)
            on_page = paged.filter((pl.col("listing") == listing) & (pl.col("page") == ordinal))
            yield contradicted(Quarantine(KALSHI_MARKETS, "ticker", self.day, page.origin), market_objects(STEPS[listing], page), on_page)
        archived = disputed.filter(pl.col("listing") == ARCHIVED)
        if archive is not None and archived.height:
            yield self._contradicted_in_archive(archive, archived)

    def _contradicted_in_archive(self, archive: pl.LazyFrame, disputed: pl.DataFrame) -> pl.DataFrame:
        rows = archive.filter(pl.col("ticker").is_in(disputed["ticker"].implode())).drop("day", "page").collect()
        return (
            rows.join(disputed, on="ticker")
            .sort("ticker")
            .with_columns(venue=pl.lit("kalshi"), table=pl.lit(KALSHI_ARCHIVE.name), record_id=pl.col("ticker"))
            .select(KALSHI_REJECTS.names)
        )

    def _superseded_on(self, step: str, ordinal: int) -> pl.DataFrame:
        return self.superseded.filter((pl.col("listing") == STEPS.index(step)) & (pl.col("page") == ordinal))
