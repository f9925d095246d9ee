"""Conversion of the objects of a page to typed columns, exactly and column by column.

An invalid value is null in its column and noted as the problem of its object; other objects are unaffected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import NoneType
from typing import Any

import orjson
import polars as pl

from bellwether.tables.schema import TIME
from bellwether.venues.wire.rejects import CROSSED, MISSING, RejectReason
from bellwether.venues.wire.times import END_SECOND, OUTSIDE

Record = Mapping[str, Any]
Typed = dict[str, pl.Series]

_NO_TICKER = r"^\.*$|[\x00-\x20,\x7f]"
_SECOND = 1_000_000
#: Zero time of Go servers, 0001-01-01T00:00:00Z, in microseconds since 1970; it means a missing time.
_UNSET = -62_135_596_800 * _SECOND


def format_number(number: float) -> str:
    """Format a number as decimal text without an exponent: 1e-05 -> "0.00001"."""
    return format(Decimal(repr(number)), "f")


@dataclass(frozen=True, slots=True)
class DecimalRule:
    """Format of a decimal field in JSON, and its valid values.

    suffix: `X` + suffix contains the number as a string; if that is null, `X` does. pattern: strings that fit `dtype` exactly. unfit: reason
    of the reject for other strings. highest: largest valid value; the smallest is 0. absent: values that mean a missing value. text: converts
    a JSON number to a string; None: numbers are invalid.
    """

    suffix: str
    pattern: str
    dtype: pl.DataType
    unfit: str
    highest: int
    absent: tuple[int, ...] = ()
    text: Callable[[Any], str] | None = None


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """Names of the fields that a JSON object has, grouped by type.

    tickers: required ids that may be elements of a comma-separated list. texts: verbatim text. text_lists: lists of texts, empty for null.
    times: column -> field with an RFC 3339 time. decimals: field (without suffix) -> rule. flags: booleans. numbers: JSON numbers, stored as
    Float64. objects: any value, stored as JSON text. names: column -> field of columns with another name than their field.
    """

    tickers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    text_lists: tuple[str, ...] = ()
    times: Mapping[str, str] = field(default_factory=dict)
    decimals: Mapping[str, DecimalRule] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


class RejectReasons(dict[int, RejectReason]):
    """First problem of each invalid object, by the object's position within the page."""

    def note(self, index: int, field: str | None, value: Any, reason: str) -> None:
        """Record the problem of object `index`, unless it already has one."""
        self.setdefault(index, RejectReason(field, value, reason))


def to_records(objects: Sequence[Any], problems: RejectReasons) -> list[Record]:
    """Return the objects as dictionaries by field; a value that is not a JSON object is noted as a problem and becomes an empty one."""
    for index, item in enumerate(objects):
        if type(item) is not dict:
            problems.note(index, None, item, "not a JSON object")
    return [item if type(item) is dict else {} for item in objects]


class WireColumns:
    """Typed columns of the records of one page; invalid values are noted in `problems`.

    prefix: of the field names in `problems`.
    """

    def __init__(self, records: Sequence[Record], problems: RejectReasons, prefix: str = "") -> None:
        self.records = records
        self.problems = problems
        self._prefix = prefix

    def values(self, name: str) -> list[Any]:
        """Return the values of a field as decoded from JSON; None for a record without it."""
        return [record.get(name) for record in self.records]

    def note_where(self, mask: pl.Series, name: str, reason: str, *, instead: str | None = None) -> None:
        """Note a problem of every record whose `mask` is true, in its field `name`. instead: field to blame if `name` is null in the
        record.
        """
        for index in mask.arg_true() if mask.any() else ():
            record = self.records[index]
            field = instead if instead is not None and record.get(name) is None else name
            self.problems.note(index, self._prefix + field, record.get(field), reason)

    def part(self, name: str) -> WireColumns:
        """Return the columns of a nested object, field `name`; problems in them are noted for the outer object."""
        nested = self._of_types(name, (dict,), "not a JSON object")
        return WireColumns([value or {} for value in nested], self.problems, f"{self._prefix}{name}.")

    def typed(self, shape: ObjectShape) -> Typed:
        """Convert the fields of `shape`; return one Series per column."""
        # One query for all columns, because its cost hardly depends on their number.
        texts = {name: self._text(name) for name in shape.tickers}
        texts |= {name: self._decimal_text(name, rule) for name, rule in shape.decimals.items()}
        patterns = {**dict.fromkeys(shape.tickers, _NO_TICKER), **{name: rule.pattern for name, rule in shape.decimals.items()}}
        matches = pl.DataFrame(texts).select(pl.col(name).str.contains(pattern) for name, pattern in patterns.items()).to_dict()
        times = pl.DataFrame({column: self._text(name).alias(column) for column, name in shape.times.items()})
        read = times.select(pl.all().str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False))
        typed = {name: self._ticker(texts[name], matches[name]) for name in shape.tickers}
        typed |= {name: self._decimal(texts[name], rule, matches[name]) for name, rule in shape.decimals.items()}
        typed |= {column: self._time(name, times[column], read[column]) for column, name in shape.times.items()}
        typed |= {name: self._text(name) for name in shape.texts} | {name: self._text_list(name) for name in shape.text_lists}
        typed |= {name: self._flag(name) for name in shape.flags} | {name: self._number(name) for name in shape.numbers}
        typed |= {name: _to_json(name, self.values(name)) for name in shape.objects}
        columns = {name: column for column, name in shape.names.items()}
        return {columns.get(name, name): series for name, series in typed.items()}

    def epoch(self, name: str) -> pl.Series:
        """Convert a field with whole seconds since 1970 to times; a record without it has a problem."""
        numbers = self.values(name)
        inside = [number if type(number) is int and 0 <= number < END_SECOND else None for number in numbers]
        series = pl.Series(name, inside, dtype=pl.Int64())
        if series.null_count():
            whole = pl.Series([type(number) is int for number in numbers], dtype=pl.Boolean())
            self.note_where(series.is_null() & whole, name, OUTSIDE)
            self.note_where(~whole, name, "missing, or no whole seconds since 1970")
        return (series * _SECOND).cast(TIME)

    def note_crossed(self, bid: pl.Series, ask: pl.Series, name: str) -> None:
        """Note a problem of every record whose bid is above its ask, in its field `name`."""
        self.note_where(bid > ask, name, CROSSED)

    def bodies(self, objects: Sequence[Any]) -> pl.Series:
        """Serialize `objects` as JSON text; null for a value that is not a JSON object."""
        return _to_json("body", [item if type(item) is dict else None for item in objects])

    def _text(self, name: str) -> pl.Series:
        return pl.Series(name, self._of_types(name, (str,), "not text"), dtype=pl.String())

    def _flag(self, name: str) -> pl.Series:
        return pl.Series(name, self._of_types(name, (bool,), "not true or false"), dtype=pl.Boolean())

    def _number(self, name: str) -> pl.Series:
        numbers = self._of_types(name, (int, float), "not a number")
        return pl.Series(name, [None if number is None else float(number) for number in numbers], dtype=pl.Float64())

    def _text_list(self, name: str) -> pl.Series:
        lists = [texts or [] for texts in self._of_types(name, (list,), "not a list")]
        mixed = pl.Series([not all(type(text) is str for text in texts) for texts in lists], dtype=pl.Boolean())
        self.note_where(mixed, name, "not a list of texts")
        return pl.Series(name, [[] if bad else texts for texts, bad in zip(lists, mixed, strict=True)], dtype=pl.List(pl.String()))

    def _ticker(self, texts: pl.Series, unfit: pl.Series) -> pl.Series:
        """Return a required id; a missing or invalid one is noted as a problem."""
        self.note_where(texts.is_null() | (texts == ""), texts.name, MISSING)
        self.note_where(unfit, texts.name, "not a ticker")
        return texts

    def _time(self, name: str, texts: pl.Series, times: pl.Series) -> pl.Series:
        """Return the times that were read from RFC 3339 texts, truncated to microseconds. A text without a plausible time is noted as a problem
        and becomes null, unless it is empty or a zero time.
        """
        self.note_where(times.is_null() & (texts != ""), name, "not a time (RFC 3339 with a zone)")
        # As numbers, because a wrong time may be outside of Python's calendar.
        stamps = times.to_physical()
        outside = (stamps < 0) | (stamps >= END_SECOND * _SECOND)
        self.note_where(outside & (stamps != _UNSET), name, OUTSIDE)
        return _null_where(times, outside)

    def _decimal_text(self, name: str, rule: DecimalRule) -> pl.Series:
        values = [
            plain if value is None else value for value, plain in zip(self.values(name + rule.suffix), self.values(name), strict=True)
        ]
        if rule.text is not None:
            values = [rule.text(value) if type(value) in (int, float) else value for value in values]
        return pl.Series(name, [text if type(text) in (str, NoneType) else "no text" for text in values], dtype=pl.String())

    def _decimal(self, texts: pl.Series, rule: DecimalRule, fits: pl.Series) -> pl.Series:
        """Convert texts to exact decimals; an empty text is null."""
        name = texts.name
        self.note_where(~fits & (texts != ""), name + rule.suffix, rule.unfit, instead=name)
        series = _null_where(texts, ~fits).cast(rule.dtype)
        self.note_where((series < 0) | (series > rule.highest), name + rule.suffix, f"outside [0, {rule.highest}]", instead=name)
        for absent in rule.absent:
            series = _null_where(series, series == absent)
        return series

    def _of_types(self, name: str, types: tuple[type, ...], reason: str) -> Sequence[Any]:
        """Return the values of field `name`. A value that has none of the `types` is noted as a problem and becomes None."""
        values = self.values(name)
        if set(map(type, values)) <= {*types, NoneType}:
            return values
        for index, value in enumerate(values):
            if value is not None and type(value) not in types:
                self.problems.note(index, self._prefix + name, value, reason)
        return [value if type(value) in types else None for value in values]


def _to_json(name: str, values: Sequence[Any]) -> pl.Series:
    """Serialize values as a column of JSON text; None becomes null."""
    return pl.Series(name, [None if value is None else orjson.dumps(value) for value in values], dtype=pl.Binary()).cast(pl.String())


def _null_where(series: pl.Series, mask: pl.Series) -> pl.Series:
    return series.zip_with(~mask.fill_null(False), pl.Series([None], dtype=series.dtype)) if mask.any() else series


def find_repeats(keys: pl.DataFrame, objects: Sequence[Any], problems: RejectReasons, *, field: str, kind: str) -> frozenset[int]:
    """Return the positions of objects that repeat an earlier object with the same key; a different object with the same key is noted as a
    problem of `field`. kind: name of the objects in that message. Objects with a problem are ignored.
    """
    repeats: set[int] = set()
    first: dict[tuple[Any, ...], Any] = {}
    for index in keys.is_duplicated().arg_true():
        if index in problems:
            continue
        key = keys.row(index)
        if key not in first:
            first[key] = objects[index]
        elif first[key] == objects[index]:
            repeats.add(index)
        else:
            problems.note(index, field, objects[index].get(field), f"another {kind} says otherwise")
    return frozenset(repeats)
