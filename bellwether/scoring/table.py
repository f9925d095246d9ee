"""Table of forecasts from a file or frame, with row locations for error messages."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from bellwether.errors import ScoringError


@dataclass(frozen=True, slots=True, eq=False)
class ForecastTable:
    """Rows of forecasts or outcomes from a file or frame.

    source: its name in messages. frame: the columns; columns of text files are text. place: formats the location of a row for messages.
    faults: by column, the row and the reason that make it unusable: values of several types, or objects.
    lists: columns with lists, as JSON text, which can only be labels.
    decimal_commas: numbers may have decimal commas, because another character separates the columns.
    """

    source: str
    frame: pl.DataFrame
    place: Callable[[int], str]
    faults: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    lists: frozenset[str] = frozenset()
    decimal_commas: bool = False

    def where(self, row: int, column: str) -> str:
        """Format the location of a value (file, line, column) as the beginning of a message."""
        return f"{self.source}, {self.place(row)}, column {column!r}"

    def values(self, column: str) -> pl.Series:
        """Return a column. Raises `ScoringError` if the column is unusable, for example with values of several types."""
        if column in self.faults:
            row, text = self.faults[column]
            raise ScoringError(f"{self.where(row, column)}: {text}")
        return self.frame[column]


def format_place(index: int) -> str:
    """Format the number of a row, from 1, for messages."""
    return f"row {index + 1}"


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN or a missing value of pandas."""
    return value is None or type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and math.isnan(value))


def build_from_records(source: str, rows: Sequence[Mapping[str, Any]], place: Callable[[int], str]) -> ForecastTable:
    """Build a table from mappings, with a column for every key. place: formats the location of a row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return build_from_columns(source, {name: [row.get(name) for row in rows] for name in names}, place)


def build_from_columns(source: str, columns: Mapping[str, list[Any]], place: Callable[[int], str]) -> ForecastTable:
    """Build a table from columns of Python values. Unusable columns, such as those with values of several types, are recorded in `faults`.
    place: formats the location of a row.
    """
    series, faults, lists = {}, {}, set()
    for name, values in columns.items():
        firsts: dict[str, int] = {}
        for index, value in enumerate(values):
            if not is_missing(value):
                firsts.setdefault(name_type(value), index)
        fault = _find_fault(values, firsts, place)
        if fault is None:
            try:
                series[name] = pl.Series(name, [None if is_missing(value) else value for value in values], strict=False)
                continue
            except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
                kind, row = next(iter(firsts.items()))
                fault = row, f"it holds {type(values[row]).__name__} values, which cannot be read as {kind}; give text or numbers"
        faults[name] = fault
        if "a list" in firsts and "an object" not in firsts:
            lists.add(name)
        series[name] = pl.Series(name, [None if is_missing(value) else _label(value) for value in values], dtype=pl.String)
    return ForecastTable(source, pl.DataFrame(series), place, faults, frozenset(lists))


def _label(value: object) -> str:
    """Format a value as text; lists as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | tuple) else str(value)


def _find_fault(values: Sequence[Any], firsts: Mapping[str, int], place: Callable[[int], str]) -> tuple[int, str] | None:
    """Return why a column is unusable, as (row, reason); None if it is usable. firsts: first row of each type of value."""
    for kind in ("an object", "a list"):
        if kind in firsts:
            return firsts[kind], f"it holds {kind}; write one value"
    if len(firsts) < _TWO:
        return None
    (kind, first), (other, second), *_ = sorted(firsts.items(), key=lambda item: item[1])
    return second, f"{values[second]!r} is {other}, but {place(first)} holds {values[first]!r}, {kind}; write the whole column as one type"


_TWO = 2


def name_type(value: object) -> str:
    """Return a readable name for the type of a value, such as "a number" or "a list"."""
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    return "a number" if hasattr(value, "__float__") else f"a {type(value).__name__}"


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"),
    (bool, "a boolean"),
    (str, "text"),
    (Mapping, "an object"),
    ((list, tuple), "a list"),
    ((int, float), "a number"),
)
