"""Parsers of columns: probabilities, outcomes, prices, weights and labels. Errors name line, column, value and remedy."""

from __future__ import annotations

import json
from typing import NoReturn

import numpy as np
import polars as pl

from bellwether.calibration.forecasts import Bools, Floats
from bellwether.errors import ScoringError
from bellwether.scoring.columns import format_brief, format_option
from bellwether.scoring.table import ForecastTable

#: Maximum distance from [0, 1] that counts as a rounding error, larger than that of a 32-bit float.
ROUNDING = 1e-6

#: Maximum ratio of weights; beyond it a sum ignores the smaller one.
LARGEST_RATIO = 1e12

#: Smallest float above which whole numbers may have lost digits.
_INEXACT = 2.0**53

#: Pattern of a decimal point or thousands point.
_POINT = r"\d\.\d|^\.\d"

#: Texts for a missing value.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-"})

YES = frozenset({"yes", "true", "y", "t"})
NO = frozenset({"no", "false", "n", "f"})

#: Texts for an outcome that is open or void.
UNRESOLVED = MISSING | {
    *("unresolved", "open", "pending", "active", "void", "voided", "cancelled", "canceled", "annulled", "ambiguous", "unknown", "?")
}


def is_numeric(values: pl.Series) -> bool:
    """Return True if a column is empty, has a numeric type, or is text that contains a number or percentage."""
    if values.dtype.is_numeric() or not values.count():
        return True
    if values.dtype != pl.String:
        return False
    texts = _to_lower(values.head(10_000).drop_nulls())
    texts = texts.filter(~texts.is_in(list(MISSING)))
    numbers = texts.str.strip_suffix("%").str.strip_chars().str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    return not len(texts) or numbers.count() > 0


def is_fraction(values: pl.Series) -> bool:
    """Return True if all values of a column are numbers from 0 to 1, and some lie strictly between."""
    if values.dtype not in (pl.String, pl.Float32, pl.Float64):
        return False
    numbers = values.cast(pl.Float64, strict=False)
    inside = numbers.is_between(0, 1).sum() == values.count() > 0
    return bool(inside and numbers.is_between(0, 1, closed="none").any())


def parse_probabilities(table: ForecastTable, column: str, *, percent: bool, clip: bool) -> Floats:
    """Parse probabilities of yes, NaN if missing. percent: divide by 100. clip: clip rounding errors to [0, 1]."""
    values = _parse_numbers(table, column, percent=percent)
    if percent:
        values = values / 100
    outside = ~np.isnan(values) & ~((values >= 0) & (values <= 1))
    near = outside & (values >= -ROUNDING) & (values <= 1 + ROUNDING)
    if clip:
        values[near] = np.clip(values[near], 0, 1)
        outside &= ~near
    if outside.any():
        row = int(np.argmax(outside))
        value = format_value(table, column, row)
        if (outside == near).all():
            refuse(table, row, column, f"{value} is a rounding error beyond [0, 1]; give --clip (clip=True) to clip it")
        row = int(np.argmax(outside & ~near))
        value = format_value(table, column, row)
        if not percent and _may_be_percentages(values):
            refuse(table, row, column, f"{value} is no probability; if the column holds percentages or cents, {_percent_advice(column)}")
        refuse(table, row, column, f"{value} is no probability; correct it, or leave the row out")
    return values


def _may_be_percentages(values: Floats) -> bool:
    """Return True if numbers look like percentages: all are from 0 to 100, and most nonzero ones exceed 1."""
    nonzero = values[~np.isnan(values) & (values != 0)]
    return bool(nonzero.min() >= 0 and nonzero.max() <= 100 and (nonzero > 1 + ROUNDING).mean() > 1 / 2)


def parse_outcomes(table: ForecastTable, column: str, *, fractional: bool = False, resolved: str | None = None) -> Floats:
    """Parse outcomes: 1 for yes, 0 for no, NaN if unresolved. fractional: accept shares between 0 and 1. resolved: column that states
    whether a question is resolved.
    """
    values = _parse_raw_outcomes(table, column)
    if resolved is not None:
        values[_parse_raw_outcomes(table, resolved) == 0] = np.nan
    outside = ~np.isnan(values) & ~((values >= 0) & (values <= 1))
    if outside.any():
        row = int(np.argmax(outside))
        refuse(table, row, column, f"{format_value(table, column, row)} is no outcome; it is 1 for yes and 0 for no")
    between = (values > 0) & (values < 1)
    if between.any() and not fractional:
        row = int(np.argmax(between))
        advice = "correct it, or give --fractional (fractional=True) to score shares of yes"
        refuse(table, row, column, f"{format_value(table, column, row)} is a share between no (0) and yes (1); {advice}")
    return values


def is_outcome(table: ForecastTable, column: str) -> bool:
    """Return True if a column can be parsed as outcomes, and at least one of them is resolved."""
    try:
        return not bool(np.isnan(parse_outcomes(table, column, fractional=True)).all())
    except ScoringError:
        return False


def find_voided(values: pl.Series) -> Bools:
    """Return a mask of the rows whose outcome is stated to be unresolved or void, as opposed to missing."""
    if values.dtype != pl.String:
        return np.zeros(len(values), dtype=np.bool_)
    return np.asarray(_to_lower(values).is_in(list(UNRESOLVED - MISSING)).fill_null(False))


def _parse_raw_outcomes(table: ForecastTable, column: str) -> Floats:
    raw = table.values(column)
    if raw.dtype == pl.Boolean:
        return _to_floats(raw)
    if raw.dtype != pl.String:
        return _parse_numbers(table, column, percent=False)
    texts = replace_commas(table, _to_lower(raw))
    yes, no = (texts.is_in(list(words)).fill_null(False) for words in (YES, NO))
    words, number = yes | no, texts.cast(pl.Float64, strict=False).fill_nan(None)
    numbers = number.is_not_null()
    strange = ~(words | numbers | texts.is_in(list(UNRESOLVED)).fill_null(True))
    if strange.any():
        row = _first_row(strange)
        advice = "write yes or no, 1 or 0, or nothing where it is not resolved"
        refuse(table, row, column, f"{format_value(table, column, row)} is no outcome; {advice}")
    if words.any() and numbers.any():
        row, other = _first_row(numbers), _first_row(words)
        mixed = (
            f"is a number, but {table.place(other)} holds {format_value(table, column, other)}; write all as 1 and 0, or all as yes and no"
        )
        refuse(table, row, column, f"{format_value(table, column, row)} {mixed}")
    values = _to_floats(number)
    values[yes.to_numpy()] = 1.0
    values[no.to_numpy()] = 0.0
    return values


def parse_weights(table: ForecastTable, column: str) -> Floats:
    """Parse positive weights. Raises `ScoringError` for any other value."""
    values = _parse_numbers(table, column, percent=False)
    bad = ~((values > 0) & np.isfinite(values))
    if bad.any():
        row = int(np.argmax(bad))
        refuse(table, row, column, f"{format_value(table, column, row)} is no weight; give a positive number, or leave the row out")
    if len(values) and values.max() / LARGEST_RATIO > values.min():
        row, lightest = int(np.argmax(values)), int(np.argmin(values))
        refuse(
            table,
            row,
            column,
            f"{format_value(table, column, row)} is more than {LARGEST_RATIO:.0e} times the weight of {table.place(lightest)}, "
            f"{format_value(table, column, lightest)}; correct one, or leave the row out",
        )
    return values


def parse_labels(table: ForecastTable, column: str, kind: str, remedy: str) -> pl.Series:
    """Parse labels as stripped text. Raises `ScoringError` for a missing label; `kind` and `remedy` are part of its message."""
    values = to_texts(table, column)
    missing = values.is_null()
    if missing.any():
        row = _first_row(missing)
        refuse(table, row, column, f"{format_value(table, column, row)} is no {kind}; {remedy}")
    return values


def check_type(table: ForecastTable, column: str, values: pl.Series) -> None:
    """Raise `ScoringError` for a column of a type without a text form, such as lists, bytes, durations and Python objects."""
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Duration, pl.Object):
        row = next((index for index, value in enumerate(values) if value is not None), 0)
        kind = f"{type(values[row]).__name__} objects" if values.dtype == pl.Object else f"{values.dtype} values"
        refuse(table, row, column, f"it holds {kind}; give text or numbers")


def to_texts(table: ForecastTable, column: str) -> pl.Series:
    """Convert a column to stripped text, null if empty."""
    values = table.frame[column] if column in table.lists else table.values(column)
    if isinstance(values.dtype, pl.List):
        values = pl.Series(
            [None if value is None else json.dumps(value.to_list(), ensure_ascii=False, default=str) for value in values], dtype=pl.String
        )
    check_type(table, column, values)
    if values.dtype.is_float():
        whole = values.drop_nulls().drop_nans()
        values = values.fill_nan(None)
        large = (values.abs() >= _INEXACT).fill_null(False)
        if large.any():
            row = _first_row(large)
            refuse(
                table,
                row,
                column,
                f"{format_value(table, column, row)} is a number too large to keep its digits; write it as text, in quotes",
            )
        if len(whole) == 0 or (whole == whole.round()).all():
            values = values.cast(pl.Int64)
    stripped = values.cast(pl.String).str.strip_chars()
    return stripped.set(stripped == "", None)


def _parse_numbers(table: ForecastTable, column: str, *, percent: bool) -> Floats:
    raw = table.values(column)
    if raw.dtype.is_numeric() or raw.dtype == pl.Null:
        return _to_floats(raw)
    if raw.dtype != pl.String:
        row = _first_row(raw.is_not_null()) if raw.count() else 0
        refuse(table, row, column, f"{format_value(table, column, row)} is no number; give numbers")
    small = replace_commas(table, _to_lower(raw))
    number = (small.str.strip_suffix("%").str.strip_chars() if percent else small).cast(pl.Float64, strict=False)
    strange = number.is_null() & ~small.is_in(list(MISSING)).fill_null(True)
    if strange.any():
        row = _first_row(strange)
        text, value = small[row], format_value(table, column, row)
        if text.endswith("%"):
            plain = _is_plain_number(small)
            if plain.any():
                _refuse_mixture(table, column, row, _first_row(plain))
            refuse(table, row, column, f"{value} is a percentage; {_percent_advice(column)} to divide by 100")
        points = small.str.contains(_POINT).fill_null(False)
        if "," in text and table.decimal_commas and points.any():
            other = f"{table.place(_first_row(points))} holds {format_value(table, column, _first_row(points))}"
            refuse(
                table,
                row,
                column,
                f"{value} has a comma, but {other} with a point; write all decimals alike, without separators of thousands",
            )
        if "," in text:
            refuse(table, row, column, f"{value} has a comma; write decimals with a point")
        refuse(table, row, column, f"{value} is no number; correct it, or leave it empty")
    signs = small.str.ends_with("%").fill_null(False)
    plain = _is_plain_number(small)
    if signs.any() and plain.any():
        _refuse_mixture(table, column, _first_row(signs), _first_row(plain))
    return _to_floats(number.fill_nan(None))


def replace_commas(table: ForecastTable, small: pl.Series) -> pl.Series:
    """Replace decimal commas by points, if the table may contain decimal commas and no value of the column has a point. small: the column
    as lower-case text.
    """
    if not table.decimal_commas or small.str.contains(_POINT).any():
        return small
    return small.str.replace(r"^([+-]?\d*),(\d+(?:e[+-]?\d+)?\s*%?)$", "$1.$2")


def _is_plain_number(small: pl.Series) -> pl.Series:
    """Return a mask of the texts that are nonzero numbers without a percent sign. small: lower-case text."""
    number = small.cast(pl.Float64, strict=False)
    return (number.is_not_null() & number.is_not_nan() & (number != 0)).fill_null(False)


def _refuse_mixture(table: ForecastTable, column: str, signed: int, plain: int) -> NoReturn:
    """Raise `ScoringError` for a column that mixes percentages with plain numbers. signed, plain: a row of each."""
    other = f"{table.place(plain)} holds {format_value(table, column, plain)}"
    refuse(table, signed, column, f"{format_value(table, column, signed)} is a percentage, but {other}; write the whole column in one unit")


def _percent_advice(column: str) -> str:
    return f"give {format_option('percent', column)} (percent={column!r})"


def _to_floats(values: pl.Series) -> Floats:
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()


def _to_lower(values: pl.Series) -> pl.Series:
    return values.str.strip_chars().str.to_lowercase()


def _first_row(flags: pl.Series | Bools) -> int:
    return int(np.argmax(np.asarray(flags)))


def format_value(table: ForecastTable, column: str, row: int) -> str:
    """Format one value of a column for messages."""
    value = table.frame[column][row]
    if value is None:
        return "an empty value"
    return format_brief(value)


def refuse(table: ForecastTable, row: int, column: str, text: str) -> NoReturn:
    """Raise `ScoringError` for one value of the table; the message is the value's location and `text`."""
    raise ScoringError(f"{table.where(row, column)}: {text}")
