"""Columns of probabilities, outcomes, prices, weights and labels as arrays; every misfit is an error that names line, column, value and remedy."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import polars as pl

from bellwether.calibration.forecasts import Bools, Floats
from bellwether.errors import ScoringError
from bellwether.scoring.files import Table

#: A probability this far outside of [0, 1] is a rounding error: that of a 32-bit float, and more.
ROUNDING = 1e-6

#: How texts say that there is no value.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-"})

YES = frozenset({"yes", "true", "y", "t"})
NO = frozenset({"no", "false", "n", "f"})

#: How outcomes say that there is none yet, or never will be.
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
    """Whether a column holds numbers, texts some of which are numbers or percentages, or nothing."""
    if values.dtype.is_numeric() or not values.count():
        return True
    if values.dtype != pl.String:
        return False
    known = _small(values.head(10_000).drop_nulls())
    known = known.filter(~known.is_in(list(MISSING)))
    numbers = known.str.strip_suffix("%").str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    return not len(known) or numbers.count() > 0


def is_fraction(values: pl.Series) -> bool:
    """Whether a column holds numbers from 0 to 1, some of them in between."""
    if values.dtype not in (pl.String, pl.Float32, pl.Float64):
        return False
    numbers = values.cast(pl.Float64, strict=False)
    inside = numbers.is_between(0, 1).sum() == values.count() > 0
    return bool(inside and numbers.is_between(0, 1, closed="none").any())


def probabilities(table: Table, column: str, *, percent: bool, clip: bool) -> Floats:
    """Probabilities of yes, NaN where there is none. `percent` divides by 100; `clip` clips rounding errors to [0, 1]."""
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
        value = shown(table, column, row)
        if (outside == near).all():
            refuse(table, row, column, f"{value} is a rounding error beyond [0, 1]; give --clip (clip=True) to clip it")
        some = values[~np.isnan(values)]
        row = int(np.argmax(outside & ~near))
        value = shown(table, column, row)
        if not percent and some.min() >= 0 and some.max() <= 100:
            refuse(
                table,
                row,
                column,
                f"{value} is no probability; if the column holds percentages or cents, give --percent {column} (percent={column!r})",
            )
        refuse(table, row, column, f"{value} is no probability; correct it, or leave the row out")
    return values


def outcomes(table: Table, column: str) -> Floats:
    """Outcomes, 1 for yes and 0 for no or a share in between, NaN where the question is not resolved."""
    raw = table.values(column)
    if raw.dtype == pl.Boolean:
        return _floats(raw)
    if raw.dtype != pl.String:
        values = _numbers(table, column, percent=False)
    else:
        texts = _small(raw)
        words, number = texts.is_in([*YES, *NO]).fill_null(False), texts.cast(pl.Float64, strict=False)
        unresolved = texts.is_in(list(UNRESOLVED)).fill_null(True)
        numbers = number.is_not_null() & number.is_not_nan()
        strange = ~(words | unresolved | numbers)
        if strange.any():
            row = _first(strange)
            refuse(
                table,
                row,
                column,
                f"{shown(table, column, row)} is no outcome; write yes or no, 1 or 0, or nothing where it is not resolved",
            )
        if words.any() and numbers.any():
            row, other = _first(numbers), _first(words)
            refuse(
                table,
                row,
                column,
                f"{shown(table, column, row)} is a number, but {table.place(other)} holds {shown(table, column, other)}; write all as 1 and 0, or all as yes and no",
            )
        values = _floats(number.fill_nan(None))
        values[texts.is_in(list(YES)).fill_null(False).to_numpy()] = 1.0
        values[texts.is_in(list(NO)).fill_null(False).to_numpy()] = 0.0
    outside = ~np.isnan(values) & ~((values >= 0) & (values <= 1))
    if outside.any():
        row = int(np.argmax(outside))
        refuse(table, row, column, f"{shown(table, column, row)} is no outcome; it is 1 for yes and 0 for no, or a share in between")
    return values


def weights(table: Table, column: str) -> Floats:
    """Positive weights."""
    values = _numbers(table, column, percent=False)
    bad = ~((values > 0) & np.isfinite(values))
    if bad.any():
        row = int(np.argmax(bad))
        refuse(table, row, column, f"{shown(table, column, row)} is no weight; give a positive number, or leave the row out")
    return values


def labels(table: Table, column: str, what: str, remedy: str) -> pl.Series:
    """Labels as text, without spaces around. Raises where one is missing: `what` it is, and the `remedy`."""
    values = texts(table, column)
    missing = values.is_null()
    if missing.any():
        row = _first(missing)
        refuse(table, row, column, f"{shown(table, column, row)} is no {what}; {remedy}")
    return values


def texts(table: Table, column: str) -> pl.Series:
    """A column as text without spaces around, null where there is nothing."""
    values = table.values(column)
    if values.dtype.is_nested() or values.dtype == pl.Binary:
        refuse(table, 0, column, f"it holds {values.dtype} values; give text or numbers")
    if values.dtype.is_float():
        whole = values.drop_nulls().drop_nans()
        values = values.fill_nan(None)
        if len(whole) == 0 or (whole == whole.round()).all():
            values = values.cast(pl.Int64)
    stripped = values.cast(pl.String).str.strip_chars()
    return stripped.set(stripped == "", None)


def _numbers(table: Table, column: str, *, percent: bool) -> Floats:
    raw = table.values(column)
    if raw.dtype.is_numeric():
        return _floats(raw)
    if raw.dtype != pl.String:
        row = _first(raw.is_not_null()) if raw.count() else 0
        refuse(table, row, column, f"{shown(table, column, row)} is no number; give numbers")
    small = _small(raw)
    number = (small.str.strip_suffix("%") if percent else small).cast(pl.Float64, strict=False)
    strange = number.is_null() & ~small.is_in(list(MISSING)).fill_null(True)
    if strange.any():
        row = _first(strange)
        text, value = small[row], shown(table, column, row)
        if text.endswith("%"):
            refuse(table, row, column, f"{value} is a percentage; give --percent {column} (percent={column!r}) to divide by 100")
        if "," in text:
            refuse(table, row, column, f"{value} has a comma; write decimals with a point")
        refuse(table, row, column, f"{value} is no number; correct it, or leave it empty")
    return _floats(number.fill_nan(None))


def _floats(values: pl.Series) -> Floats:
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()


def _small(values: pl.Series) -> pl.Series:
    return values.str.strip_chars().str.to_lowercase()


def _first(flags: pl.Series | Bools) -> int:
    return int(np.argmax(np.asarray(flags)))


def shown(table: Table, column: str, row: int) -> str:
    """A value as messages show it."""
    value = table.frame[column][row]
    if value is None:
        return "an empty value"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def refuse(table: Table, row: int, column: str, text: str) -> NoReturn:
    """Raise `ScoringError` that names the place of a value and says what is wrong with it."""
    raise ScoringError(f"{table.where(row, column)}: {text}")
