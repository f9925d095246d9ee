"""Join of forecasts with a table of outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from bellwether.errors import ScoringError
from bellwether.formatting import counted
from bellwether.scoring.columns import NAMES, ColumnRoles, Role, check_present, find_named, format_names
from bellwether.scoring.table import ForecastTable, parse_labels

_FILL = "fill it in, or leave the row out"

Pair = tuple[str, str]


def join_outcomes(
    table: ForecastTable, outcomes: ForecastTable, roles: ColumnRoles, on: Sequence[str], *, skip_unresolved: bool
) -> tuple[ForecastTable, ColumnRoles, frozenset[int]]:
    """Add the columns of `outcomes` to the forecasts; they replace columns of the same name. on: join columns, `COLUMN` or `COLUMN=COLUMN OF THE
    OUTCOMES`; by default the question columns.

    Returns the table, the roles with the question filled in, and the indexes of the matched rows of `outcomes`. Raises `ScoringError` if a forecast has
    several outcomes, or none without `skip_unresolved`.
    """
    pairs = [_parse_pair(table, outcomes, text) for text in on] or _find_pairs(table, outcomes, roles)
    places = _match_rows(table, outcomes, pairs)
    tried = " and ".join(f"{left} = {right}" for left, right in pairs)
    if not places.count():
        raise ScoringError(
            f"{table.source}: no row has an outcome in {outcomes.source} by {tried}; give --on COLUMN=COLUMN OF THE OUTCOMES"
        )
    if places.null_count() and not skip_unresolved:
        row = int(places.is_null().arg_max() or 0)
        table.refuse(row, pairs[0][0], f"has no outcome in {outcomes.source}; give --skip-unresolved to leave such rows out")
    keys = {name for pair in pairs for name in pair}
    added = {name: outcomes.frame[name].gather(places) for name in outcomes.frame.columns if name not in keys}
    joined = replace(table, frame=table.frame.with_columns(**added), origins=dict.fromkeys(added, (outcomes, places)))
    question = roles.question or tuple(left for left, _ in pairs)
    return joined, replace(roles, question=question), frozenset(places.drop_nulls())


def note_unused(outcomes: ForecastTable, used: frozenset[int]) -> list[str]:
    """Return a note on the number of outcomes without a forecast; an empty list if every outcome has one. used: indexes of the rows that
    were matched.
    """
    rest = outcomes.frame.height - len(used)
    verb = "has" if rest == 1 else "have"
    return [f"{counted(rest, 'question')} of {outcomes.source} {verb} no row: coverage does not count them."] if rest else []


def _parse_pair(table: ForecastTable, outcomes: ForecastTable, text: str) -> Pair:
    """Parse the text of an --on option to (column of the forecasts, column of the outcomes)."""
    left, _, right = text.partition("=")
    check_present(table.source, table.frame.columns, left, "--on")
    check_present(outcomes.source, outcomes.frame.columns, right or left, "--on")
    return left, right or left


def _find_pairs(table: ForecastTable, outcomes: ForecastTable, roles: ColumnRoles) -> list[Pair]:
    """Return the question columns, which both tables must have under the same names, or one recognised by its name in each."""
    if roles.question:
        for column in roles.question:
            check_present(table.source, table.frame.columns, column, "--question")
            check_present(outcomes.source, outcomes.frame.columns, column, "--question")
        return [(column, column) for column in roles.question]
    found = [find_named(source.frame.columns, NAMES[Role.QUESTION]) for source in (table, outcomes)]
    for source, columns in zip((table, outcomes), found, strict=True):
        if not columns:
            names = format_names(source.frame.columns)
            raise ScoringError(
                f"{source.source}: no column is named as the question among {names}; give --on COLUMN=COLUMN OF THE OUTCOMES"
            )
    common = next((column for column in found[0] if column in found[1]), None)
    return [(found[0][0], found[1][0]) if common is None else (common, common)]


def _match_rows(table: ForecastTable, outcomes: ForecastTable, pairs: Sequence[Pair]) -> pl.Series:
    """Return for each forecast the index of its row in `outcomes`, null if it has none. A forecast without a value in a column after the first
    matches any value of it.
    """
    parse_labels(table, pairs[0][0], "question", _FILL)
    parse_labels(outcomes, pairs[0][1], "question", _FILL)
    names = [f"key_{index}" for index in range(len(pairs))]
    asked = table.frame.select(pl.col(left).alias(name) for name, (left, _) in zip(names, pairs, strict=True)).with_row_index("row")
    answered = outcomes.frame.select(pl.col(right).alias(name) for name, (_, right) in zip(names, pairs, strict=True)).with_row_index(
        "place"
    )
    parts = []
    for pattern, rows in asked.group_by([pl.col(name).is_null() for name in names], maintain_order=True):
        keys = [name for name, missing in zip(names, pattern, strict=True) if not missing]
        again = pl.col("place").get(1, null_on_oob=True)
        first = answered.drop_nulls(keys).group_by(keys).agg(pl.col("place").first(), again=again)
        joined = rows.join(first, on=keys, how="left")
        if joined["again"].count():
            row = int(joined.sort("row")["again"].drop_nulls()[0])
            outcomes.refuse(row, pairs[0][1], "has a row before; give every question one outcome, or name it in full with --question")
        parts.append(joined.select("row", "place"))
    return pl.concat(parts).sort("row")["place"]
