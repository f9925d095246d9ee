"""Recognition of column roles by the names and values of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import NoReturn

import polars as pl

from bellwether.errors import ScoringError
from bellwether.scoring.columns import (
    FINAL_PRICES,
    NAMES,
    ColumnRoles,
    Role,
    find_named,
    find_statistics,
    format_names,
    format_option,
    is_number,
    recognise_columns,
)
from bellwether.scoring.outcome_join import check_outcomes
from bellwether.scoring.parsing import is_fraction, is_numeric, is_outcome, parse_probabilities
from bellwether.scoring.table import ForecastTable


def recognise_table(table: ForecastTable, roles: ColumnRoles, *, independent: bool) -> ColumnRoles:
    """Complete `roles`, the columns that the user named, with columns recognised by name and values. independent: ignore cluster columns.
    Raises `ScoringError` if probabilities or outcomes are missing or ambiguous.
    """
    present = _usable_columns(table, roles)
    numeric = [column for column in present if is_numeric(table.frame[column])]
    if roles.outcome is None:
        used = {column for columns in roles.used().values() for column in columns}
        readable = [column for column in find_named(present, NAMES[Role.OUTCOME]) if column not in used and is_outcome(table, column)]
        roles = replace(roles, outcome=check_outcomes(table, readable)) if readable else roles
    columns = recognise_columns(table.source, present, numeric, roles)
    if independent:
        columns = replace(columns, cluster=())
    if not columns.probability:
        _raise_missing_probability(table, columns)
    if columns.outcome is None:
        raise ScoringError(
            f"{table.source}: no column is recognised as the outcome among {format_names(present)}; name it with --outcome COLUMN, or give --outcomes FILE"
        )
    if len(columns.probability) > 1 and columns.forecaster is not None:
        raise ScoringError(
            f"{table.source}: there are several columns of probabilities ({format_names(columns.probability)}) and a column of forecasters "
            f"({columns.forecaster!r}); give one column of probabilities, or name no forecaster"
        )
    return columns


def _usable_columns(table: ForecastTable, given: ColumnRoles) -> list[str]:
    """Return the columns of the table, leaving out unreadable label columns if another column is named for the same role. given: roles
    named by the user.
    """
    named = {column for columns in given.used().values() for column in columns}
    unfit = {column for column in table.faults if column not in table.lists and column not in named}
    candidates = [find_named(table.frame.columns, NAMES[role]) for role in (Role.QUESTION, Role.CLUSTER, Role.FORECASTER)]
    replaced = {column for columns in candidates if not unfit.issuperset(columns) for column in columns if column in unfit}
    return [column for column in table.frame.columns if column not in replaced]


def drop_bounds(table: ForecastTable, series: dict[str, pl.Series]) -> tuple[dict[str, pl.Series], list[str]]:
    """Remove columns of lower and upper bounds from the forecast columns. Returns the rest, and a note on the bounds and statistics that
    are not read.

    Raises `ScoringError` if one column is the complement of another.
    """
    bounds = {column for pair in _BOUNDS for column in _find_bounds(series, *pair)}
    forecasts = {column: values for column, values in series.items() if column not in bounds}
    for first, second in combinations(forecasts, 2) if len(forecasts) <= _COMPLEMENTS else ():
        total = (forecasts[first] + forecasts[second]).drop_nulls()
        if len(total) >= _SURE and ((total - 1).abs() < 1e-6).all() and not (forecasts[first].drop_nulls() == 1 / 2).all():
            advice = f"give {format_option('probability', first)} or {format_option('probability', second)}, the one of yes"
            raise ScoringError(
                f"{table.source}: {first!r} and {second!r} add up to 1 in every row, so that one is the probability of no; {advice}"
            )
    is_wide = not find_named([*series], NAMES[Role.PROBABILITY])
    left_out = [*find_statistics(table.frame.columns), *bounds] if is_wide else []
    unread = [column for column in table.frame.columns if column in left_out and is_numeric(table.frame[column])]
    return forecasts, [f"Not read as forecasters: {format_names(unread)}; give --probability COLUMN for those that are."] if unread else []


def _find_bounds(series: dict[str, pl.Series], low: str, high: str) -> Iterator[str]:
    """Yield the names of columns that are pairs of lower and upper bounds: every row is in order, and the rows are enough to exclude
    chance. low, high: suffixes of the names.
    """
    for lower, values in series.items():
        stem = lower[: -len(low)]
        upper = series.get(stem + high)
        if not lower.lower().endswith(low) or not stem or upper is None:
            continue
        middle = series.get(stem.rstrip("_ .:-"))
        frame = pl.DataFrame({"low": values, "middle": values if middle is None else middle, "high": upper}).drop_nulls()
        ordered = frame.select(((pl.col("low") <= pl.col("middle")) & (pl.col("middle") <= pl.col("high"))).all()).item()
        if ordered and frame.height >= (_SURE if middle is not None else _SURER):
            yield from (lower, stem + high)


#: Suffixes of columns of bounds; names of models may have them, too.
_BOUNDS = (("low", "high"), ("min", "max"))


#: Number of rows from which an order of three columns, or of two, is no coincidence.
_SURE, _SURER = 3, 7


#: Maximum number of columns among which complements are detected.
_COMPLEMENTS = 30


def _raise_missing_probability(table: ForecastTable, columns: ColumnRoles) -> NoReturn:
    """Raise `ScoringError` for a missing probability column. The message names candidates, or states what is wrong with a column that is
    named like a probability.
    """
    present = table.frame.columns
    prefix = f"{table.source}: no column is recognised as the probability among {format_names(present)}"
    if any(map(is_number, present)):
        raise ScoringError(f"{prefix}; if these are values, add a line with the names of the columns before them")
    unfit = {columns.market, columns.weight, *find_statistics(present), *find_named(present, (*FINAL_PRICES, "confidence"))}
    likely = [column for column in present if column not in unfit and is_fraction(table.frame[column])]
    if likely:
        raise ScoringError(
            f"{prefix}; {format_names(likely)} would do by the values: give {' '.join(format_option('probability', column_) for column_ in likely)}"
        )
    by_name = recognise_columns(table.source, present, present, ColumnRoles()).probability
    if by_name and columns.outcome not in by_name:
        parse_probabilities(table, by_name[0], percent=False, clip=False)
    other = f"; {format_names(find_statistics(present))} by name is no probability of yes" if find_statistics(present) else ""
    raise ScoringError(f"{prefix}{other}; name it with --probability COLUMN")
