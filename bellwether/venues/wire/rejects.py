"""Quarantine: objects that do not fit a table, as rows of raw/<venue>_rejects with the field, the value and the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any, TypeVar

import orjson
import polars as pl
from polars.exceptions import PanicException

from bellwether.tables.raw import REJECTS
from bellwether.tables.schema import TIME, Table
from bellwether.venues.wire.json_decoding import UnusableValue

#: Longest offending value that a reject repeats; its body holds the whole object.
VALUE_LIMIT = 200
#: Why a page without records is a reject.
HOLE = "the page lists nothing although its cursor goes on, also when asked for again: records may be missing"
#: Why a page as a whole is a reject; the value is the error.
UNPROCESSABLE = "the page cannot be processed, also when requested again"
MISSING = "missing"
UNKNOWN_STATUS = "not a status of the venue"
NO_RESULT = "a settled market without a result"
WITHOUT_END = "missing: without an end a market belongs to no day"
UNKNOWN_VERSION = "not v1 or v2: without it the trading ids cannot be determined"
NO_TRADING_IDS = "missing: a deployed market with an order book has trading ids"
CROSSED = "the bid lies above the ask"
NOT_LISTED = "requested by name and not in the answer"
#: Reasons that a later answer may cure: something has not come yet, or is not known yet. Every other reason is permanent.
CURABLE = frozenset({UNPROCESSABLE, MISSING, UNKNOWN_STATUS, NO_RESULT, WITHOUT_END, UNKNOWN_VERSION, NO_TRADING_IDS, CROSSED, NOT_LISTED})
#: Tables of which a curable reject keeps a day open; and for how long.
_KEEP_OPEN = frozenset({"raw/kalshi_markets", "raw/polymarket_markets"})
PATIENCE = timedelta(days=45)
#: Rows of a day's pages that are held in memory, of the many days of a run.
FEW_ROWS = 500

Place = TypeVar("Place")
Rows = TypeVar("Rows")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Origin:
    """The page that brought an object.

    request: method, path and query. page: ordinal within its pull. fetched_at: when the venue answered, aware, UTC.
    """

    request: str
    page: int
    fetched_at: datetime


@dataclass(frozen=True, slots=True)
class RejectReason:
    """Why an object does not fit; `field` is None when the object as a whole does not."""

    field: str | None
    value: Any
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedRecords:
    """Content of a page: `rows` of the declared table, the `ordinals` of their objects within the page, and `rejects`."""

    rows: pl.DataFrame
    ordinals: Sequence[int]
    rejects: pl.DataFrame


class ParsedPages(dict[Place, ParsedRecords]):
    """Parsed pages by their place, as long as they have few rows together: those of a small day are then read and parsed once."""

    def __setitem__(self, place: Place, parsed: ParsedRecords) -> None:
        if parsed.rows.height + sum(held.rows.height for held in self.values()) <= FEW_ROWS:
            super().__setitem__(place, parsed)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Files objects of a page that do not fit as rejects.

    table: the table that they were meant for. identity: the field that holds their ticker. day: the partition of rejects for objects
    whose own day cannot be read.
    """

    table: Table
    identity: str
    day: date
    origin: Origin

    def rows(self, objects: Sequence[Any], problems: Mapping[int, RejectReason], days: Mapping[int, date | None]) -> pl.DataFrame:
        """Rows of the venue's rejects, one for every object that has a problem, in the order of the page; `days` are the objects' own."""
        if not problems:
            return _no_rejects(read_venue(self.table)).clone()
        return REJECTS[read_venue(self.table)].frame(
            [self._row(index, objects[index], problems[index], days.get(index)) for index in sorted(problems)]
        )

    def unprocessable(self, error: BaseException) -> pl.DataFrame:
        """The row of a page as a whole that cannot be processed, because of `error`; the stored page has its content."""
        return self.rows([None], {0: RejectReason(None, f"{type(error).__name__}: {error}", UNPROCESSABLE)}, {})

    def in_vain(self, names: Sequence[str], reason: str) -> pl.DataFrame:
        """The rows of what the page's call requested by name and is not there."""
        return self.rows([{self.identity: name} for name in names], dict.fromkeys(range(len(names)), RejectReason(None, None, reason)), {})

    def hole(self, answer: Any) -> pl.DataFrame:
        """The row of the page as a whole, `answer`, that lists nothing although its cursor continues."""
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
            "body": format_body(item),
            "ordinal": ordinal,
            **to_origin_columns(self.origin),
        }

    def sift(
        self, frame: pl.DataFrame, objects: Sequence[Any], problems: Mapping[int, RejectReason], *, unwanted: frozenset[int] = frozenset()
    ) -> ParsedRecords:
        """The rows of `frame` whose objects have no problem and are not `unwanted`, with the page's columns, and the rejects.

        `frame` has one row per object and every column of the table but those that tell where it came from.
        """
        dropped = problems.keys() | unwanted
        ordinals = [index for index in range(frame.height) if index not in dropped] if dropped else range(frame.height)
        rows = (frame[ordinals] if dropped else frame).hstack(_fetched_columns(self.origin, len(ordinals)))
        days = {index: frame["day"][index] for index in problems} if "day" in frame.columns else {}
        return ParsedRecords(rows[self.table.names], ordinals, self.rows(objects, problems, days))


def parse_or_reject(parse: Callable[[], ParsedRecords], quarantine: Quarantine) -> ParsedRecords:
    """The content of a page; where `parse` fails, with any error, nothing but the reject of the page as a whole."""
    try:
        return parse()
    except (Exception, PanicException) as error:
        return ParsedRecords(quarantine.table.empty(), (), quarantine.unprocessable(error))


def parse_together(parse: Callable[[], Rows]) -> Rows | None:
    """The result of `parse` over several pages at once; None where it fails, with any error: each page is then parsed alone."""
    try:
        return parse()
    except (Exception, PanicException):
        return None


def is_processed(parsed: ParsedRecords) -> bool:
    """True unless the only result is the reject of the page as a whole."""
    return not (parsed.rejects.height == 1 and parsed.rejects["reason"].item() == UNPROCESSABLE)


def select_curable(rejects: pl.DataFrame) -> pl.DataFrame:
    """The rejects of a day that a later answer may cure, and that keep the day open until then."""
    return rejects.filter(pl.col("reason").is_in(CURABLE) & pl.col("table").is_in(_KEEP_OPEN))


def assign_origins(parsed: ParsedRecords, origins: Sequence[Origin]) -> ParsedRecords:
    """`parsed` objects that came each on a page of its own, `origins[i]` the i-th: parsing them together costs as much as parsing one."""
    rejects = parsed.rejects
    return ParsedRecords(
        _with_origins(parsed.rows, [origins[ordinal] for ordinal in parsed.ordinals]),
        parsed.ordinals,
        _with_origins(rejects, [origins[ordinal] for ordinal in rejects["ordinal"]]).with_columns(ordinal=pl.lit(0, pl.Int32())),
    )


def build_origin_columns(origins: Sequence[Origin], counts: Sequence[int]) -> pl.DataFrame:
    """The columns that tell which call brought a row, for `counts[i]` rows of the i-th page after each other; `number` is i."""
    known = pl.DataFrame(
        [(origin.request, origin.page, origin.fetched_at, origin.fetched_at) for origin in origins],
        schema={"request": pl.String(), "page": pl.Int32(), "fetched_at": TIME, "known_at": TIME},
        orient="row",
    ).with_row_index("number")
    return known[[number for number, count in enumerate(counts) for _ in range(count)]]


def _with_origins(rows: pl.DataFrame, origins: Sequence[Origin]) -> pl.DataFrame:
    at = pl.Series([origin.fetched_at for origin in origins], dtype=TIME)
    return rows.with_columns(
        pl.Series("request", [origin.request for origin in origins], dtype=pl.String()),
        pl.Series("page", [origin.page for origin in origins], dtype=pl.Int32()),
        at.alias("fetched_at"),
        at.alias("known_at"),
    )


def read_venue(table: Table) -> str:
    """The venue of a raw table, which its name begins with: raw/kalshi_markets -> kalshi."""
    return table.short_name.partition("_")[0]


@cache
def _no_rejects(venue: str) -> pl.DataFrame:
    return REJECTS[venue].empty()


def repeat_value(value: Any, dtype: pl.DataType, height: int) -> pl.Series:
    """A column that holds `value` in every row."""
    return pl.Series([value], dtype=dtype).new_from_index(0, height)


def _fetched_columns(origin: Origin, height: int) -> list[pl.Series]:
    at = repeat_value((origin.fetched_at - _EPOCH) // timedelta(microseconds=1), pl.Int64(), height).cast(TIME)
    page = repeat_value(origin.page, pl.Int32(), height)
    return [
        repeat_value(origin.request, pl.String(), height).alias("request"),
        page.alias("page"),
        at.alias("fetched_at"),
        at.alias("known_at"),
    ]


def to_origin_columns(origin: Origin) -> dict[str, Any]:
    """The columns that tell which call brought a row; it is known as of when the venue answered."""
    return {"request": origin.request, "page": origin.page, "fetched_at": origin.fetched_at, "known_at": origin.fetched_at}


def format_body(item: Any) -> str:
    """`item` as JSON text; a note where it is nested too deeply to be written."""
    if isinstance(item, UnusableValue):
        return item.body
    try:
        return orjson.dumps(item).decode()
    except orjson.JSONEncodeError:
        return json.dumps("nested too deeply to be repeated here; the stored page has it")


def format_value(value: Any) -> str | None:
    """`value` as text of at most `VALUE_LIMIT` characters: strings unchanged, half surrogate pairs escaped, everything else as JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else format_body(value)
    return text[:VALUE_LIMIT].encode(errors="backslashreplace").decode()


def _ticker(item: Any, identity: str) -> str | None:
    record = item.record if isinstance(item, UnusableValue) else item
    if not isinstance(record, dict):
        return None
    return format_value(record.get(identity, record.get(f"_{identity}")))
