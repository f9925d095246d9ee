"""Table of forecasts with all columns as text, and the parsers of its columns. Errors name file, line, column, value and remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import polars as pl

from bellwether.calibration.forecasts import Floats
from bellwether.errors import ScoringError
from bellwether.scoring.columns import RESOLVED, ColumnRoles, find_named, format_brief, format_option

#: Maximum ratio of weights; beyond it a sum ignores the smaller one.
_LARGEST_RATIO = 1e12

#: Seconds since 1970 at the beginning of the years 2000 and 2100.
_SECONDS = (946_684_800, 4_102_444_800)

#: Texts for a missing value.
MISSING = ("na", "n/a", "nan", "null", "none", "-")

_YES, _NO = ("yes", "true"), ("no", "false")

#: Texts for an outcome that is open or void.
_UNRESOLVED = (*MISSING, "unresolved", "open", "pending", "void", "annulled", "ambiguous")


@dataclass(frozen=True, slots=True, eq=False)
class ForecastTable:
    """Rows of forecasts or outcomes from a file or frame.

    source: its name in messages. frame: the columns as text without spaces around it, null if empty. place: formats the location of a row for messages.
    origins: columns joined from another table, with that table and the number of its row for each row.
    """

    source: str
    frame: pl.DataFrame
    place: Callable[[int], str]
    origins: Mapping[str, tuple[ForecastTable, pl.Series]] = field(default_factory=dict)

    def refuse(self, row: int, column: str, text: str) -> NoReturn:
        """Raise `ScoringError` for one value of the table; the message is the value's location, the value and `text`."""
        if column in self.origins and (origin := self.origins[column])[1][row] is not None:
            origin[0].refuse(origin[1][row], column, text)
        value = self.frame[column][row]
        shown = "an empty value" if value is None else format_brief(value)
        raise ScoringError(f"{self.source}, {self.place(row)}, column {column!r}: {shown} {text}")


@dataclass(frozen=True, slots=True, eq=False)
class TableRows:
    """A table, its column roles, and its rows in the form of a sheet, whose column `row` is the row number in the table."""

    table: ForecastTable
    columns: ColumnRoles
    rows: pl.DataFrame


def parse_numbers(texts: pl.Series) -> pl.Series:
    """Parse a column of text: numbers with a decimal point or, in columns without any point, a decimal comma. Null for all other text."""
    if not texts.str.contains(".", literal=True).any():
        texts = texts.str.replace(r"^([+-]?\d*),(\d+)$", "$1.$2")
    return texts.cast(pl.Float64, strict=False).fill_nan(None)


def parse_probabilities(table: ForecastTable, column: str, *, percent: bool) -> pl.Series:
    """Parse probabilities of yes, null if missing. percent: divide by 100; a percent sign may follow the number."""
    texts = _to_lower(table, column)
    if percent:
        numbers = parse_numbers(texts.str.strip_suffix("%").str.strip_chars())
        values = pl.Series(column, to_floats(numbers) / 100, nan_to_null=True)  # Polars multiplies by 0.01, which is another number
    else:
        values = parse_numbers(texts)
    _check(table, column, values.is_between(0, 1), "is no probability from 0 to 1; correct it, " + _percent_advice(column, given=percent))
    return values


def _percent_advice(column: str, *, given: bool) -> str:
    return "or leave the row out" if given else f"or give {format_option('percent', column)} for percentages"


def parse_outcomes(table: ForecastTable, column: str, *, fractional: bool) -> pl.Series:
    """Parse outcomes: 1 for yes, 0 for no, null if unresolved, also by the table's column `resolved`. fractional: accept shares between 0 and 1."""
    texts = _to_lower(table, column)
    words = pl.when(texts.is_in(_YES)).then(1.0).when(texts.is_in(_NO)).then(0.0)
    values = pl.select(words.otherwise(parse_numbers(texts)).alias(column)).to_series()
    known = values.is_between(0, 1) | texts.is_in(_UNRESOLVED)
    _check(table, column, known, "is no outcome; write yes or no, 1 or 0, or nothing if it is not resolved")
    for state in find_named(table.frame.columns, [RESOLVED]):
        if state != column:
            values = values.set(_to_lower(table, state).is_in(("false", "no", "0")).fill_null(value=False), None)
    if not fractional:
        _check(
            table, column, (values == 0) | (values == 1), "is a share between no (0) and yes (1); correct it, or give --fractional", values
        )
    return values


def parse_weights(table: ForecastTable, column: str) -> pl.Series:
    """Parse positive weights. Raises `ScoringError` for any other value."""
    values = parse_numbers(table.frame[column]).fill_null(0)
    remedy = "is no weight; give a positive number, or leave the row out"
    _check(table, column, (values > 0) & values.is_finite(), remedy, values)
    top = int(values.arg_max() or 0)
    if len(values) and values[top] / _LARGEST_RATIO > values.min():
        table.refuse(top, column, f"is more than {_LARGEST_RATIO:.0e} times the smallest weight; correct one, or leave the row out")
    return values


def parse_labels(table: ForecastTable, column: str, kind: str, remedy: str, *, needed: pl.Series | None = None) -> pl.Series:
    """Return a column of labels. needed: rows that need one; None: all. Raises `ScoringError` for a missing label; `kind` and `remedy` are part of
    its message.
    """
    values = table.frame[column]
    missing = values.is_null() if needed is None else values.is_null() & needed
    if missing.any():
        table.refuse(int(missing.arg_max() or 0), column, f"is no {kind}; {remedy}")
    return values


def parse_times(table: ForecastTable, column: str, *, needed: pl.Series | None = None) -> pl.Series:
    """Parse times as UTC: ISO 8601, in UTC if it has no zone, or seconds since 1970. needed: rows whose value may not be missing; None: all.

    Raises `ScoringError` for any other value, and for numbers outside the years 2000 to 2100, such as milliseconds or 20260301.
    """
    texts = table.frame[column]
    seconds = texts.cast(pl.Float64, strict=False)
    seconds = seconds.set(~seconds.is_between(*_SECONDS), None)
    iso = texts.str.replace(r"^(\d{4}-\d\d-\d\d)$", "${1}T00:00:00").str.replace(" ", "T", literal=True)
    iso = iso.str.replace(r"T(\d\d:\d\d)(Z|[+-]|$)", "T${1}:00${2}")
    iso = pl.select(pl.when(iso.str.contains(r"(?i)(Z|[+-]\d\d:?\d\d)$")).then(iso).otherwise(iso + "Z").alias(column)).to_series()
    times = iso.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
    unix = (seconds * 1e6).cast(pl.Int64, strict=False).cast(pl.Datetime("us", "UTC"))
    values = pl.select(pl.when(seconds.is_not_null()).then(unix).otherwise(times).alias(column)).to_series()
    wrong = values.is_null() if needed is None else values.is_null() & (needed | texts.is_not_null())
    if wrong.any():
        table.refuse(int(wrong.arg_max() or 0), column, "is no time; write 2026-03-01T12:00:00Z, or seconds since 1970")
    return values


def to_floats(values: pl.Series) -> Floats:
    """Convert numbers to an array, with NaN for missing values."""
    return np.asarray(values.fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _to_lower(table: ForecastTable, column: str) -> pl.Series:
    """Return a column in small letters, null for words that stand for a missing value."""
    texts = table.frame[column].str.to_lowercase()
    return texts.set(texts.is_in(MISSING).fill_null(value=False), None)


def _check(table: ForecastTable, column: str, good: pl.Series, text: str, values: pl.Series | None = None) -> None:
    """Refuse the first value that is present (in `values`, by default the column) and not `good`."""
    present = (_to_lower(table, column) if values is None else values).is_not_null()
    bad = present & ~good.fill_null(value=False)
    if bad.any():
        table.refuse(int(bad.arg_max() or 0), column, text)
