"""Join of forecasts with a table of outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import polars as pl

from bellwether.errors import ScoringError
from bellwether.formatting import counted
from bellwether.scoring.columns import (
    NAMES,
    RESOLVED,
    ColumnRoles,
    Role,
    check_present,
    find_named,
    format_brief,
    format_names,
    format_option,
    recognise_columns,
)
from bellwether.scoring.parsing import find_voided, format_value, is_outcome, parse_labels, parse_outcomes, refuse, to_texts
from bellwether.scoring.table import ForecastTable

_FILL = "fill it in, or leave the row out"
#: Maximum number of pairs of columns in a suggestion.
_SUGGESTED = 5

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class JoinedForecasts:
    """Forecasts joined with outcomes.

    table: forecasts with the outcomes' columns. columns: column roles, with question and outcome filled in. used: indexes of the matched rows of outcomes.
    """

    table: ForecastTable
    columns: ColumnRoles
    used: frozenset[int]
    notes: tuple[str, ...] = ()


def join_outcomes(
    table: ForecastTable, outcomes: ForecastTable, roles: ColumnRoles, on: Sequence[str], *, fractional: bool
) -> JoinedForecasts:
    """Add the columns of `outcomes` to the forecasts. on: join columns, `COLUMN` or `COLUMN=COLUMN OF THE OUTCOMES`; default: by name.

    Raises `ScoringError` if no row matches, several outcomes match a forecast, or a forecast's own outcome differs.
    """
    outcome = _find_outcome(outcomes, roles)
    pairs = _find_pairs(table, outcomes, roles, on)
    places = _match_rows(table, outcomes, pairs, by_question=not on)
    used = places.drop_nulls().unique().sort()
    if used.is_empty():
        _refuse_unmatched(table, outcomes, pairs, roles)
    matched = replace(outcomes, frame=outcomes.frame[used.to_list()], place=lambda row: outcomes.place(used[row]))
    state = next(
        iter(column for column in find_named(outcomes.frame.columns, RESOLVED) if column != outcome and is_outcome(outcomes, column)), None
    )
    resolved = pl.Series(parse_outcomes(matched, outcome, fractional=fractional, resolved=state), nan_to_null=True)
    values = pl.DataFrame({"place": used, "value": resolved})
    column = places.to_frame("place").join(values, on="place", how="left", maintain_order="left")["value"]
    _check_own_outcomes(table, outcomes, column)
    columns = _joinable_columns(outcomes, roles)
    added = [outcomes.frame[name].gather(places) for name in columns if name not in table.frame.columns and name != outcome]
    frame = table.frame.drop(outcome, strict=False).with_columns(column.alias(outcome), *added)
    renamed = [f"{left} = {right}" for left, right in pairs if left != right]
    notes = (f"Outcomes of {outcomes.source} by {', '.join(renamed)}.",) if renamed else ()
    question = roles.question or tuple(left for left, _ in pairs)
    return JoinedForecasts(replace(table, frame=frame), replace(roles, question=question, outcome=outcome), frozenset(used), notes)


def note_unused(outcomes: ForecastTable, used: frozenset[int]) -> list[str]:
    """Return a note on the number of outcomes without a forecast; an empty list if every outcome has one. used: indexes of the rows that
    were matched.
    """
    rest = outcomes.frame.height - len(used)
    verb = "has" if rest == 1 else "have"
    return [f"{counted(rest, 'question')} of {outcomes.source} {verb} no row: coverage does not count them."] if rest else []


def _find_outcome(outcomes: ForecastTable, roles: ColumnRoles) -> str:
    """Return the outcome column of `outcomes`: the one that the user named, else the one recognised by name."""
    if roles.outcome is not None:
        check_present(outcomes.source, outcomes.frame.columns, roles.outcome, "--outcome")
        return roles.outcome
    likely = find_named(outcomes.frame.columns, NAMES[Role.OUTCOME])
    if not likely:
        raise ScoringError(f"{outcomes.source}: no column is recognised as the outcome; name it with --outcome COLUMN")
    readable = [column for column in likely if is_outcome(outcomes, column)]
    return check_outcomes(outcomes, readable) if readable else likely[0]


def check_outcomes(table: ForecastTable, columns: Sequence[str]) -> str:
    """Choose the first of several outcome columns. Raises `ScoringError` if another of them contradicts it."""
    first, *others = columns
    value, void = parse_outcomes(table, first, fractional=True), find_voided(table.frame[first])
    for other in others:
        second, other_void = parse_outcomes(table, other, fractional=True), find_voided(table.frame[other])
        differ = (value != second) & ~np.isnan(value) & ~np.isnan(second)
        differ |= (void & ~np.isnan(second)) | (other_void & ~np.isnan(value))
        if differ.any():
            row = int(np.argmax(differ))
            both = f"{format_value(table, first, row)}, but column {other!r} has {format_value(table, other, row)}"
            refuse(table, row, first, f"the outcome is {both}; name the right one with --outcome, or correct it")
    return first


def _find_pairs(table: ForecastTable, outcomes: ForecastTable, roles: ColumnRoles, on: Sequence[str]) -> list[Pair]:
    """Choose the columns to join on, as (column of the forecasts, column of the outcomes): those of --on, or question columns with common
    values.
    """
    present = outcomes.frame.columns
    if on:
        return [_parse_pair(table, outcomes, first) for first in on]
    if roles.question and all(column in present for column in roles.question):
        for column in roles.question:
            check_present(table.source, table.frame.columns, column, "--question")
        return [(column, column) for column in roles.question]
    if len(roles.question) > 1:
        lacking = [column for column in roles.question if column not in present]
        raise ScoringError(
            f"{outcomes.source}: {format_names(lacking)} is not there to join on; give {format_option('on', lacking[0])}=COLUMN, and the others"
        )
    left = list(roles.question) or find_named(table.frame.columns, NAMES[Role.QUESTION])
    right = find_named(present, NAMES[Role.QUESTION])
    for source, columns in ((table, left), (outcomes, right)):
        if not columns:
            advice = "give --on COLUMN, or --on COLUMN=COLUMN OF THE OUTCOMES"
            raise ScoringError(
                f"{source.source}: no column is recognised as the question among {format_names(source.frame.columns)}; {advice}"
            )
    candidates = sorted(((first, other) for first in left for other in right), key=lambda pair: pair[0] != pair[1])
    counts = {pair: _count_matches(table, outcomes, pair) for pair in candidates}
    good = (pair for pair in candidates if 2 * counts[pair][0] >= counts[pair][1])
    return [next(good, max(candidates, key=lambda pair: counts[pair][0]))]


def _parse_pair(table: ForecastTable, outcomes: ForecastTable, text: str) -> Pair:
    """Parse the text of an --on option to (column of the forecasts, column of the outcomes). A column name may contain an equals sign."""
    left, _, right = (text, "", text) if text in table.frame.columns else text.partition("=")
    check_present(table.source, table.frame.columns, left, "--on")
    check_present(outcomes.source, outcomes.frame.columns, right or left, "--on")
    return left, right or left


def _count_matches(table: ForecastTable, outcomes: ForecastTable, pair: Pair) -> tuple[int, int]:
    """Return the number of distinct values of the forecasts' column that also occur in the outcomes' column, and the number of all distinct
    values. pair: the two columns.
    """
    values, known_values = (_distinct_values(source, column) for source, column in ((table, pair[0]), (outcomes, pair[1])))
    return len(values & known_values), len(values)


def _distinct_values(table: ForecastTable, column: str) -> set[str]:
    try:
        return {*to_texts(table, column).drop_nulls()}
    except ScoringError:
        return set()


def _match_rows(table: ForecastTable, outcomes: ForecastTable, pairs: Sequence[Pair], *, by_question: bool) -> pl.Series:
    """Return for each forecast the index of its row in `outcomes`, null if it has none. A null in the forecast matches any value, except in
    the first join column.
    """
    names = [f"key_{index}" for index in range(len(pairs))]
    first = parse_labels(table, pairs[0][0], "question", _FILL)
    asked = pl.DataFrame({names[0]: first, **{name: to_texts(table, left) for name, (left, _) in zip(names[1:], pairs[1:], strict=True)}})
    parse_labels(outcomes, pairs[0][1], "question", _FILL)
    answered = pl.DataFrame({name: to_texts(outcomes, right) for name, (_, right) in zip(names, pairs, strict=True)}).with_row_index(
        "place"
    )
    parts = []
    for pattern, rows in asked.with_row_index("row").group_by([pl.col(name).is_null() for name in names], maintain_order=True):
        keys = [name for name, missing in zip(names, pattern, strict=True) if not missing]
        first_rows = answered.drop_nulls(keys).group_by(keys).agg(pl.col("place").first(), again=pl.col("place").get(1, null_on_oob=True))
        joined = rows.join(first_rows, on=keys, how="left")
        if joined["again"].count():
            row = joined.sort("row").filter(pl.col("again").is_not_null()).row(0, named=True)
            _refuse_repeated(table, outcomes, pairs, row["again"], row[names[0]], by_question=by_question)
        parts.append(joined.select("row", "place"))
    return pl.concat(parts).sort("row")["place"]


def _refuse_repeated(
    table: ForecastTable, outcomes: ForecastTable, pairs: Sequence[Pair], row: int, label: str, *, by_question: bool
) -> NoReturn:
    """Raise `ScoringError` for a forecast with several rows of outcomes. row: the second of these. label: value of the first join column."""
    lefts, rights = ([pair[side] for pair in pairs] for side in (0, 1))
    free = _label_columns(table, ColumnRoles())
    common = [name for name in outcomes.frame.columns if name in free and name not in rights]
    unique = (name for name in common if _is_unique(outcomes, [*rights, name], rights[0], label))
    key = next(unique, None)
    options = [format_option("question", name) if by_question else format_option("on", name) for name in (*lefts, key) if name is not None]
    advice = f", or give {' '.join(options)}" if key is not None else ""
    refuse(outcomes, row, rights[0], f"{label!r} has a row before; give every question one outcome{advice}")


def _is_unique(outcomes: ForecastTable, columns: Sequence[str], first: str, label: str) -> bool:
    """Return True if the rows in which column `first` is `label` are pairwise different in `columns`."""
    try:
        frame = pl.DataFrame({column: to_texts(outcomes, column) for column in columns})
    except ScoringError:
        return False
    return not bool(frame.filter(pl.col(first) == label).is_duplicated().any())


def _refuse_unmatched(table: ForecastTable, outcomes: ForecastTable, pairs: Sequence[Pair], roles: ColumnRoles) -> NoReturn:
    """Raise `ScoringError` for a join without any match; the message suggests pairs of columns that have values in common."""
    tried = " and ".join(f"{left} = {right}" for left, right in pairs)
    examples = " and ".join(
        format_brief(next(iter(to_texts(source, column).drop_nulls()), None))
        for source, column in ((table, pairs[0][0]), (outcomes, pairs[0][1]))
    )
    suggested = sorted(_find_common_columns(table, outcomes, roles), key=lambda candidate: -candidate[1])[:_SUGGESTED]
    if suggested:
        left, right = suggested[0][0]
        counts = ", ".join(f"{candidate} = {other} ({count} of {total})" for (candidate, other), count, total in suggested)
        advice = f"columns with values in common are {counts}; give {format_option('on', left if left == right else f'{left}={right}')}"
    else:
        advice = "no other columns have values in common; correct the names of the questions"
    raise ScoringError(f"{table.source}: no row has an outcome in {outcomes.source} by {tried} (such as {examples}); {advice}")


def _find_common_columns(table: ForecastTable, outcomes: ForecastTable, roles: ColumnRoles) -> Iterator[tuple[Pair, int, int]]:
    """Yield ((column of the forecasts, column of the outcomes), number of common values, number of values in the forecasts) for label
    columns with common values.
    """
    for left in _label_columns(table, roles):
        for right in _label_columns(outcomes, roles):
            count, total = _count_matches(table, outcomes, (left, right))
            if count:
                yield (left, right), count, total


def _label_columns(table: ForecastTable, roles: ColumnRoles) -> list[str]:
    """Return the columns that may name questions: those with several values and no other role."""
    recognised = recognise_columns(table.source, table.frame.columns, table.frame.columns, ColumnRoles())
    other = {column for role, columns in recognised.used().items() if role not in (Role.QUESTION, Role.CLUSTER) for column in columns}
    other |= {*roles.probability, roles.outcome or "", roles.market or "", roles.weight or ""}
    return [column for column in table.frame.columns if column not in other and len(_distinct_values(table, column)) > 1]


def _check_own_outcomes(table: ForecastTable, outcomes: ForecastTable, joined: pl.Series) -> None:
    """Raise `ScoringError` if an outcome column of the forecasts contradicts the outcomes table. joined: outcome of each forecast in that
    table.
    """
    value = joined.fill_null(float("nan")).to_numpy()
    for column in find_named(table.frame.columns, NAMES[Role.OUTCOME]):
        if not is_outcome(table, column):
            continue
        own = parse_outcomes(table, column, fractional=True)
        differ = (own != value) & ~np.isnan(own) & ~np.isnan(value)
        if differ.any():
            row = int(np.argmax(differ))
            advice = "correct one, or remove the column"
            refuse(
                table, row, column, f"the outcome is {format_value(table, column, row)}, but {outcomes.source} has {value[row]:g}; {advice}"
            )


def _joinable_columns(outcomes: ForecastTable, named: ColumnRoles) -> list[str]:
    """Return the columns of `outcomes` that are readable. Raises `ScoringError` if one with a role (such as weight) is not. named: roles
    named by the user.
    """
    roles = {column for columns in named.used().values() for column in columns}
    for role, names in NAMES.items():
        roles |= {*find_named(outcomes.frame.columns, names)} if role is not Role.QUESTION else set()
    for column in outcomes.faults:
        if column in roles and column not in outcomes.lists:
            outcomes.values(column)
    return [column for column in outcomes.frame.columns if column not in outcomes.faults]
