"""Parsers of probability, outcome, price, weight and label columns; errors name line, column, value and remedy."""

from __future__ import annotations

import json
from typing import NoReturn

import numpy as np
import polars as pl

from bellwether.calibration.forecasts import Bools, Floats
from bellwether.errors import ScoringError
from bellwether.scoring.columns import format_brief, format_option
from bellwether.scoring.table import ForecastTable

#: A probability this far outside of [0, 1] is a rounding error: that of a 32-bit float, and more.
ROUNDING = 1e-6

#: Weights that differ by more leave nothing of the smaller one in a sum.
LARGEST_RATIO = 1e12

#: From here on not every whole number is a 64-bit float, so that labels may have lost digits.
_INEXACT = 2.0**53

#: A decimal point, or a point between thousands.
_POINT = r"\d\.\d|^\.\d"

#: Texts for a missing value.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-"})

YES = frozenset({"yes", "true", "y", "t"})
NO = frozenset({"no", "false", "n", "f"})

#: Texts for an outcome that is open or void.
UNRESOLVED = frozenset(
    {
        *MISSING,
        "unresolved",
        "open",
        "pending",
        "active",
        "void",
        "voided",
        "cancelled",
        "canceled",
        "annulled",
        "ambiguous",
        "unknown",
        "?",
    }
)


def is_numeric(values: pl.Series) -> bool:
    """Return whether a column is empty, numeric, or text with some numbers or percentages."""
    if values.dtype.is_numeric() or not values.count():
        return True
    if values.dtype != pl.String:
        return False
    known = _small(values.head(10_000).drop_nulls())
    known = known.filter(~known.is_in(list(MISSING)))
    numbers = known.str.strip_suffix("%").str.strip_chars().str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    return not len(known) or numbers.count() > 0


def is_fraction(values: pl.Series) -> bool:
    """Return whether all values of a column are numbers from 0 to 1, some of them strictly between."""
    if values.dtype not in (pl.String, pl.Float32, pl.Float64):
        return False
    numbers = values.cast(pl.Float64, strict=False)
    inside = numbers.is_between(0, 1).sum() == values.count() > 0
    return bool(inside and numbers.is_between(0, 1, closed="none").any())


def parse_probabilities(table: ForecastTable, column: str, *, percent: bool, clip: bool) -> Floats:
    """Parse probabilities of yes, NaN if missing. percent: divide by 100. clip: clip rounding errors to [0, 1]."""
    values = _numbers(table, column, percent=percent)
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
        if not percent and _like_percentages(values):
            refuse(table, row, column, f"{value} is no probability; if the column holds percentages or cents, {_percent(column)}")
        refuse(table, row, column, f"{value} is no probability; correct it, or leave the row out")
    return values


def _like_percentages(values: Floats) -> bool:
    """Return whether numbers could be percentages: all from 0 to 100, and most nonzero ones above 1."""
    some = values[~np.isnan(values) & (values != 0)]
    return bool(some.min() >= 0 and some.max() <= 100 and (some > 1 + ROUNDING).mean() > 1 / 2)


def parse_outcomes(table: ForecastTable, column: str, *, fractional: bool = False, resolved: str | None = None) -> Floats:
    """Parse outcomes: 1 for yes, 0 for no, NaN if unresolved. fractional: accept shares in between. resolved: column with the state of the question."""
    values = _outcomes(table, column)
    if resolved is not None:
        values[_outcomes(table, resolved) == 0] = np.nan
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
    """Return whether every value of a column is an outcome or unresolved, and at least one is an outcome."""
    try:
        return not bool(np.isnan(parse_outcomes(table, column, fractional=True)).all())
    except ScoringError:
        return False


def find_voided(values: pl.Series) -> Bools:
    """Return a mask of the rows whose outcome is explicitly unresolved, as opposed to missing."""
    if values.dtype != pl.String:
        return np.zeros(len(values), dtype=np.bool_)
    return np.asarray(_small(values).is_in(list(UNRESOLVED - MISSING)).fill_null(False))


def _outcomes(table: ForecastTable, column: str) -> Floats:
    raw = table.values(column)
    if raw.dtype == pl.Boolean:
        return _floats(raw)
    if raw.dtype != pl.String:
        return _numbers(table, column, percent=False)
    texts = replace_commas(table, _small(raw))
    yes, no = (texts.is_in(list(words)).fill_null(False) for words in (YES, NO))
    words, number = yes | no, texts.cast(pl.Float64, strict=False).fill_nan(None)
    numbers = number.is_not_null()
    strange = ~(words | numbers | texts.is_in(list(UNRESOLVED)).fill_null(True))
    if strange.any():
        row = _first(strange)
        advice = "write yes or no, 1 or 0, or nothing where it is not resolved"
        refuse(table, row, column, f"{format_value(table, column, row)} is no outcome; {advice}")
    if words.any() and numbers.any():
        row, other = _first(numbers), _first(words)
        mixed = (
            f"is a number, but {table.place(other)} holds {format_value(table, column, other)}; write all as 1 and 0, or all as yes and no"
        )
        refuse(table, row, column, f"{format_value(table, column, row)} {mixed}")
    values = _floats(number)
    values[yes.to_numpy()] = 1.0
    values[no.to_numpy()] = 0.0
    return values


def parse_weights(table: ForecastTable, column: str) -> Floats:
    """Parse positive weights."""
    values = _numbers(table, column, percent=False)
    bad = ~((values > 0) & np.isfinite(values))
    if bad.any():
        row = int(np.argmax(bad))
        refuse(table, row, column, f"{format_value(table, column, row)} is no weight; give a positive number, or leave the row out")
    if len(values) and values.max() / LARGEST_RATIO > values.min():
        row, least = int(np.argmax(values)), int(np.argmin(values))
        refuse(
            table,
            row,
            column,
            f"{format_value(table, column, row)} is more than {LARGEST_RATIO:.0e} times the weight of {table.place(least)}, "
            f"{format_value(table, column, least)}; correct one, or leave the row out",
        )
    return values


def parse_labels(table: ForecastTable, column: str, what: str, remedy: str) -> pl.Series:
    """Parse labels as stripped text. Raises `ScoringError` for a missing one. what, remedy: words of the message."""
    values = to_texts(table, column)
    missing = values.is_null()
    if missing.any():
        row = _first(missing)
        refuse(table, row, column, f"{format_value(table, column, row)} is no {what}; {remedy}")
    return values


def to_texts(table: ForecastTable, column: str) -> pl.Series:
    """Convert a column to stripped text, null if empty."""
    values = table.frame[column] if column in table.lists else table.values(column)
    if isinstance(values.dtype, pl.List):
        values = pl.Series(
            [None if one is None else json.dumps(one.to_list(), ensure_ascii=False, default=str) for one in values], dtype=pl.String
        )
    if values.dtype.is_nested() or values.dtype == pl.Binary:
        refuse(table, 0, column, f"it holds {values.dtype} values; give text or numbers")
    if values.dtype.is_float():
        whole = values.drop_nulls().drop_nans()
        values = values.fill_nan(None)
        large = (values.abs() >= _INEXACT).fill_null(False)
        if large.any():
            row = _first(large)
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


def _numbers(table: ForecastTable, column: str, *, percent: bool) -> Floats:
    raw = table.values(column)
    if raw.dtype.is_numeric() or raw.dtype == pl.Null:
        return _floats(raw)
    if raw.dtype != pl.String:
        row = _first(raw.is_not_null()) if raw.count() else 0
        refuse(table, row, column, f"{format_value(table, column, row)} is no number; give numbers")
    small = replace_commas(table, _small(raw))
    number = (small.str.strip_suffix("%").str.strip_chars() if percent else small).cast(pl.Float64, strict=False)
    strange = number.is_null() & ~small.is_in(list(MISSING)).fill_null(True)
    if strange.any():
        row = _first(strange)
        text, value = small[row], format_value(table, column, row)
        if text.endswith("%"):
            plain = _without_sign(small)
            if plain.any():
                _refuse_mixture(table, column, row, _first(plain))
            refuse(table, row, column, f"{value} is a percentage; {_percent(column)} to divide by 100")
        points = small.str.contains(_POINT).fill_null(False)
        if "," in text and table.decimal_commas and points.any():
            other = f"{table.place(_first(points))} holds {format_value(table, column, _first(points))}"
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
    plain = _without_sign(small)
    if signs.any() and plain.any():
        _refuse_mixture(table, column, _first(signs), _first(plain))
    return _floats(number.fill_nan(None))


def replace_commas(table: ForecastTable, small: pl.Series) -> pl.Series:
    """Replace decimal commas with points if the table may have decimal commas and no number has a point."""
    if not table.decimal_commas or small.str.contains(_POINT).any():
        return small
    return small.str.replace(r"^([+-]?\d*),(\d+(?:e[+-]?\d+)?\s*%?)$", "$1.$2")


def _without_sign(small: pl.Series) -> pl.Series:
    """Return a mask of the texts that are nonzero numbers without a percent sign."""
    number = small.cast(pl.Float64, strict=False)
    return (number.is_not_null() & number.is_not_nan() & (number != 0)).fill_null(False)


def _refuse_mixture(table: ForecastTable, column: str, signed: int, plain: int) -> NoReturn:
    other = f"{table.place(plain)} holds {format_value(table, column, plain)}"
    refuse(table, signed, column, f"{format_value(table, column, signed)} is a percentage, but {other}; write the whole column in one unit")


def _percent(column: str) -> str:
    return f"give {format_option('percent', column)} (percent={column!r})"


def _floats(values: pl.Series) -> Floats:
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()


def _small(values: pl.Series) -> pl.Series:
    return values.str.strip_chars().str.to_lowercase()


def _first(flags: pl.Series | Bools) -> int:
    return int(np.argmax(np.asarray(flags)))


def format_value(table: ForecastTable, column: str, row: int) -> str:
    """Format a value for messages."""
    value = table.frame[column][row]
    if value is None:
        return "an empty value"
    return format_brief(value)


def refuse(table: ForecastTable, row: int, column: str, text: str) -> NoReturn:
    """Raise `ScoringError` with the location and the fault of a value."""
    raise ScoringError(f"{table.where(row, column)}: {text}")
