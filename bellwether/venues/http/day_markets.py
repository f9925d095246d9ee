"""Collection of a day's markets from the pages of the day's pull, and the reasons why the day is not final.

A step is a named group of a pull's requests. A reject is an invalid or missing record; it is curable if a later response may contain a
valid one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar, Generic, TypeVar

import polars as pl

from bellwether.tables.schema import Table
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import PageStore
from bellwether.venues.http.pull_choice import build_completion
from bellwether.venues.wire.rejects import (
    HOLE,
    NOT_LISTED,
    Origin,
    ParsedPages,
    ParsedRecords,
    Quarantine,
    RejectReason,
    is_processed,
    select_curable,
)

#: Steps that request markets by name: markets of an earlier pull that are not listed any more, and markets that were still open.
NAMED, FOLLOWED = "named", "followed"


@dataclass(frozen=True, slots=True)
class RecordType:
    """Kind of records, such as markets, that one raw table has. field: name of their identifier in the response. column: its name in the
    table.
    """

    table: Table
    field: str
    column: str

    def quarantine(self, day: date, origin: Origin) -> Quarantine:
        """Create the quarantine that converts invalid records of a page to rejects."""
        return Quarantine(self.table, self.field, day, origin)

    def reject_missing(self, day: date, requested: Mapping[str, Origin], missing: Iterable[str], reason: str) -> Iterator[pl.DataFrame]:
        """Yield rejects for the `missing` records, which the venue did not return. requested: by record, the page of the last call that
        named it.
        """
        places = sorted((requested[name].page, name) for name in missing)
        for _, group in groupby(places, key=itemgetter(0)):
            names = [name for _, name in group]
            yield self.quarantine(day, requested[names[0]]).reject_missing(names, reason)


@dataclass(frozen=True, slots=True)
class DayTables:
    """Raw tables of one venue that the pull of a day fills.

    names: pattern of the ids that can be requested by name. cursor: response field with the next cursor.
    """

    markets: RecordType
    events: RecordType
    prices: RecordType
    pulls: Table
    rejects: Table
    names: str
    cursor: str

    def select_named(self, rejects: pl.DataFrame) -> pl.DataFrame:
        """Return the rejects whose record has a valid id, so that the record can be requested by name."""
        return rejects.filter(pl.col("record_id").str.contains(self.names))


@dataclass(frozen=True)
class BaseDayMarkets(ABC):
    """Markets of a day, one per row of `rows`. rejects: rows for invalid records. parsed: cache of parsed pages."""

    tables: ClassVar[DayTables]

    day: date
    rows: pl.DataFrame
    rejects: pl.DataFrame
    parsed: ParsedPages[tuple[str, int]] = field(repr=False, compare=False)

    @property
    @abstractmethod
    def event_ids(self) -> list[str]:
        """Event ids of the markets, sorted."""

    @property
    def price_tokens(self) -> set[tuple[str, str | None]]:
        """Pairs of market id and price token; empty on a venue whose markets have no separate token."""
        return set()

    def build_completion(self, responded_at: datetime, *, settled: bool, complete: bool) -> dict[str, Any]:
        """Describe for the pull's note (stored as JSON) whether the day is final; see `pull_choice.build_completion`."""
        holes = self.rejects.filter(
            pl.col("reason") == HOLE, pl.col("table").is_in([self.tables.markets.table.name, self.tables.events.table.name])
        )
        waiting = select_curable(self.rejects)
        return build_completion(
            self.day,
            responded_at,
            settled=settled,
            complete=complete and holes.is_empty(),
            waiting=not waiting.is_empty(),
            named=self.tables.select_named(waiting).height == waiting.height,
        )


M = TypeVar("M", bound=BaseDayMarkets)


@dataclass
class BaseMarketCollector(ABC, Generic[M]):
    """Collector of a day's markets and rejects, to which the pages of a pull are added.

    parsed: cache of parsed pages. refused: record and reason of the rejects in the step `FOLLOWED`. named_calls: the last call for
    each market requested by name in the current step. returned: ids in the responses, by step. responded_at: time of the venue's first response.
    """

    tables: ClassVar[DayTables]
    #: Steps of a pull whose pages contain markets; of equally new records, the one of an earlier step counts.
    steps: ClassVar[tuple[str, ...]]
    #: Field and column of the time that determines a market's day, and the reason of the reject for a market that has moved to another day.
    moved: ClassVar[tuple[str, str, str]]

    day: date
    rejects: list[pl.DataFrame] = field(default_factory=list)
    parsed: ParsedPages[tuple[str, int]] = field(default_factory=ParsedPages)
    refused: set[tuple[str | None, str]] = field(default_factory=set)
    named_calls: dict[str, Origin] = field(default_factory=dict)
    returned: defaultdict[str, set[str | None]] = field(default_factory=lambda: defaultdict(set))
    responded_at: datetime | None = None

    def __post_init__(self) -> None:
        self.rejects.append(self.tables.rejects.empty())

    @abstractmethod
    def parse(self, step: str, page: VenuePage) -> ParsedRecords:
        """Parse all markets of a page, whichever day they belong to; a page that cannot be processed becomes a reject."""

    @abstractmethod
    def add_parsed(self, step: str, page: VenuePage, parsed: ParsedRecords) -> None:
        """Add the parsed markets of a page."""

    @abstractmethod
    def ids(self) -> set[str]:
        """Return the ids of the day's markets so far."""

    @abstractmethod
    def requested(self, page: VenuePage) -> Iterable[str]:
        """Return the market ids in a page's request."""

    @abstractmethod
    def choose_records(self) -> M:
        """Choose one record per market, and return the day's markets."""

    def add(self, step: str, page: VenuePage, *, last: bool = False) -> bool:
        """Add the markets and rejects of a page; return False, and add nothing, if the page cannot be processed. last: add even such a
        page, as a reject.

        Rejects of the same record for the same reason are added once.
        """
        parsed = self.parse(step, page)
        if not last and not is_processed(parsed):
            return False
        self.parsed[step, page.ordinal] = parsed
        key, kind = ("events", self.tables.events) if step == "events" else ("markets", self.tables.markets)
        if isinstance(page.json, dict) and page.json.get(self.tables.cursor) and not page.items(key):
            self.rejects.append(kind.quarantine(self.day, page.origin).reject_hole(page.json))
        self.add_parsed(step, page, parsed)
        if step in (NAMED, FOLLOWED):
            self._note_returned(step, page, parsed)
        new = parsed.rejects.filter(pl.col("day") == self.day)
        if new.height:
            self.rejects.append(new.join(pl.concat(self.rejects), on=["record_id", "field", "reason"], how="anti", maintain_order="left"))
        return True

    def _note_returned(self, step: str, page: VenuePage, parsed: ParsedRecords) -> None:
        """Note which requested markets a page contains. A market that is now dated on another day becomes a reject."""
        field_, column, reason = self.moved
        days = zip(parsed.ordinals, parsed.rows["day"], parsed.rows[column], strict=True)
        problems = {ordinal: RejectReason(field_, str(at), reason) for ordinal, day, at in days if day != self.day}
        self.rejects.append(self.tables.markets.quarantine(self.day, page.origin).rows(page.items("markets"), problems, {}))
        self.named_calls.update(dict.fromkeys(self.requested(page), page.origin))
        self.returned[step].update(parsed.rows[self.tables.markets.column], parsed.rejects["record_id"])
        if step == FOLLOWED:
            self.refused.update(zip(parsed.rejects["record_id"], parsed.rejects["reason"], strict=True))

    def reject_absent(self, step: str) -> set[str]:
        """Return the ids that the step requested but no response contains, and add a reject for each."""
        absent = self.named_calls.keys() - self.returned[step]
        new = absent.difference(pl.concat(self.rejects).filter(pl.col("reason") == NOT_LISTED)["record_id"])
        self.rejects += self.tables.markets.reject_missing(self.day, self.named_calls, new, NOT_LISTED)
        self.named_calls.clear()
        return absent

    def drop_moved(self, pages: PageStore) -> None:
        """Remove the markets that belong to another day, on which they are stored."""

    def seen_ids(self) -> set[str | None]:
        """Return the ids of all markets and rejects so far."""
        return {*self.ids(), *pl.concat(self.rejects)["record_id"]}

    def known_ids(self) -> set[str]:
        """Return the ids of the day's markets and of its curable rejects."""
        return {*self.choose_records().rows[self.tables.markets.column], *self.find_curable()}

    def find_curable(self) -> dict[str, str]:
        """Return the curable rejects that can be requested by name, as a map from id to reason."""
        return dict(self.tables.select_named(select_curable(pl.concat(self.rejects))).select("record_id", "reason").iter_rows())
