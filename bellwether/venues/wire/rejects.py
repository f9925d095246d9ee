"""Rejects: objects that do not fit a table, as rows of raw/<venue>_rejects with the field, the value and the reason.

The origin of an object is the page that contains it. A reject is curable if a later response may be valid, for example because a missing
value appears.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson
import polars as pl

from bellwether.tables.raw import REJECTS
from bellwether.tables.schema import TIME, Table

#: Maximum characters of the invalid value in a reject, whose body contains the whole object.
VALUE_LIMIT = 200
#: Reason of the reject for an empty page whose cursor continues.
HOLE = "the page lists nothing although its cursor goes on, also when asked for again: records may be missing"
MISSING = "missing"
UNKNOWN_STATUS = "not a status of the venue"
NO_RESULT = "a settled market without a result"
WITHOUT_END = "missing: without an end a market belongs to no day"
UNKNOWN_VERSION = "not v1 or v2: without it the trading ids cannot be determined"
NO_TRADING_IDS = "missing: a deployed market with an order book has trading ids"
CROSSED = "the bid lies above the ask"
NOT_LISTED = "requested by name and not in the answer"
#: Reasons that may not apply to a later response, such as a missing value. Every other reason is permanent.
CURABLE = frozenset({MISSING, UNKNOWN_STATUS, NO_RESULT, WITHOUT_END, UNKNOWN_VERSION, NO_TRADING_IDS, CROSSED, NOT_LISTED})
#: Tables whose curable rejects keep a day from being final, and the maximum time.
_KEEP_OPEN = frozenset({"raw/kalshi_markets", "raw/polymarket_markets"})
PATIENCE = timedelta(days=45)


@dataclass(frozen=True, slots=True)
class Origin:
    """Page that contains an object: its request, number and response time.

    request: method, path and query. page: ordinal within its pull. fetched_at: time of the response, aware, UTC.
    """

    request: str
    page: int
    fetched_at: datetime


@dataclass(frozen=True, slots=True)
class RejectReason:
    """Problem of an object: its field (None for the whole object), the invalid value and the reason."""

    field: str | None
    value: Any
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedRecords:
    """Result of parsing a page: valid `rows` of a table, the positions of their objects within the page (`ordinals`), and `rejects`."""

    rows: pl.DataFrame
    ordinals: Sequence[int]
    rejects: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Builder of the rejects of one page.

    table: table that the objects belong to. identity: field with their id. day: day of a reject whose object has no valid day.
    """

    table: Table
    identity: str
    day: date
    origin: Origin

    def rows(self, objects: Sequence[Any], problems: Mapping[int, RejectReason], days: Mapping[int, date | None]) -> pl.DataFrame:
        """Build one reject per object with a problem. problems: by position in `objects`. days: day of each object, by position."""
        return REJECTS[read_venue(self.table)].frame(
            [self._row(index, objects[index], problems[index], days.get(index)) for index in sorted(problems)]
        )

    def reject_missing(self, names: Sequence[str], reason: str) -> pl.DataFrame:
        """Build the rejects of records that the page's request names and its response lacks."""
        return self.rows([{self.identity: name} for name in names], dict.fromkeys(range(len(names)), RejectReason(None, None, reason)), {})

    def reject_hole(self, answer: Any) -> pl.DataFrame:
        """Build the reject of a hole, a page that is empty although its cursor continues. answer: content of the page."""
        return self.rows([answer], {0: RejectReason(None, None, HOLE)}, {})

    def _row(self, ordinal: int, item: Any, problem: RejectReason, day: date | None) -> dict[str, Any]:
        return {
            "day": day or self.day,
            "venue": read_venue(self.table),
            "table": self.table.name,
            "record_id": _ticker(item, self.identity),
            "field": problem.field,
            "value": format_value(problem.value),
            "reason": problem.reason,
            "body": orjson.dumps(item).decode(),
            "ordinal": ordinal,
            **to_origin_columns(self.origin),
        }

    def sift(
        self, frame: pl.DataFrame, objects: Sequence[Any], problems: Mapping[int, RejectReason], *, unwanted: frozenset[int] = frozenset()
    ) -> ParsedRecords:
        """Split the objects of the page into valid rows and rejects. frame: one row per object, with the columns of the table except those
        of the origin, which are added. unwanted: positions of rows to drop, such as duplicates.
        """
        dropped = problems.keys() | unwanted
        ordinals = [index for index in range(frame.height) if index not in dropped]
        origin = [pl.lit(value, self.table.schema[name]).alias(name) for name, value in to_origin_columns(self.origin).items()]
        rows = keep_rows(frame, dropped).with_columns(origin)[self.table.names]
        days = {index: frame["day"][index] for index in problems} if "day" in frame.columns else {}
        return ParsedRecords(rows, ordinals, self.rows(objects, problems, days))


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


def select_curable(rejects: pl.DataFrame) -> pl.DataFrame:
    """Return the rejects that a later response may cure, in the tables whose rejects keep a day from being final."""
    return rejects.filter(pl.col("reason").is_in(CURABLE) & pl.col("table").is_in(_KEEP_OPEN))


def keep_rows(frame: pl.DataFrame, dropped: Collection[int]) -> pl.DataFrame:
    """Return the rows of a frame except those at the positions `dropped`."""
    return frame[[index for index in range(frame.height) if index not in dropped]] if dropped else frame


def build_records(
    table: Table,
    quarantines: Sequence[Quarantine],
    counts: Sequence[int],
    rows: pl.DataFrame,
    objects: Sequence[Any],
    *,
    problems: Mapping[int, RejectReason],
) -> ParsedRecords:
    """Return the valid `rows` of pages that were parsed together, and the rejects of their objects with `problems`.

    quarantines, counts: of each page, the builder of its rejects and its number of objects. rows: without the columns of the origin, but with
    the column `number`, the position of each row's page.
    """
    origins = [quarantine.origin for quarantine in quarantines]
    pages = pl.DataFrame(
        [(number, origin.request, origin.page, origin.fetched_at, origin.fetched_at) for number, origin in enumerate(origins)],
        schema={"number": pl.UInt32(), "request": pl.String(), "page": pl.Int32(), "fetched_at": TIME, "known_at": TIME},
        orient="row",
    )
    rejects, start = [REJECTS[read_venue(table)].empty()], 0
    for quarantine, count in zip(quarantines, counts, strict=True) if problems else ():
        own = {index - start: problems[index] for index in range(start, start + count) if index in problems}
        if own:
            rejects.append(quarantine.rows(objects[start : start + count], own, {}))
        start += count
    return ParsedRecords(rows.join(pages, on="number", how="left", maintain_order="left").select(table.names), (), pl.concat(rejects))


def read_venue(table: Table) -> str:
    """Return the venue of a raw table, the prefix of its name: raw/kalshi_markets -> kalshi."""
    return table.short_name.partition("_")[0]


def repeat_value(value: Any, dtype: pl.DataType, height: int) -> pl.Series:
    """Create a column with `value` in every row."""
    return pl.Series([value], dtype=dtype).new_from_index(0, height)


def to_origin_columns(origin: Origin) -> dict[str, Any]:
    """Return the columns that identify the page of a row, by name; `known_at` is the time of the response."""
    return {"request": origin.request, "page": origin.page, "fetched_at": origin.fetched_at, "known_at": origin.fetched_at}


def format_value(value: Any) -> str | None:
    """Format `value` as text of at most `VALUE_LIMIT` characters; values other than strings as JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text[:VALUE_LIMIT]


def _ticker(item: Any, identity: str) -> str | None:
    return format_value(item.get(identity)) if isinstance(item, dict) else None
