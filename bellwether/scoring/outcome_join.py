"""Join of forecasts with a table of outcomes, on one or several columns."""

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
#: Pairs of columns that a message suggests.
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
    table: ForecastTable, known: ForecastTable, given: ColumnRoles, on: Sequence[str], *, fractional: bool
) -> JoinedForecasts:
    """Add the columns of `known` to the forecasts. on: join columns, `COLUMN` or `COLUMN=COLUMN OF THE OUTCOMES`; if empty, they are found by name.

    Raises `ScoringError` if no row matches, several outcomes match a forecast, or a forecast's own outcome differs.
    """
    outcome = _outcome(known, given)
    pairs = _pairs(table, known, given, on)
    places = _places(table, known, pairs, by_question=not on)
    used = places.drop_nulls().unique().sort()
    if used.is_empty():
        _refuse_unmatched(table, known, pairs, given)
    asked = replace(known, frame=known.frame[used.to_list()], place=lambda row: known.place(used[row]))
    state = next(
        iter(column for column in find_named(known.frame.columns, RESOLVED) if column != outcome and is_outcome(known, column)), None
    )
    resolved = pl.Series(parse_outcomes(asked, outcome, fractional=fractional, resolved=state), nan_to_null=True)
    values = pl.DataFrame({"place": used, "value": resolved})
    column = places.to_frame("place").join(values, on="place", how="left", maintain_order="left")["value"]
    _check_own(table, known, column)
    kept = _usable(known, given)
    beside = [known.frame[name].gather(places) for name in kept if name not in table.frame.columns and name != outcome]
    frame = table.frame.drop(outcome, strict=False).with_columns(column.alias(outcome), *beside)
    renamed = [f"{left} = {right}" for left, right in pairs if left != right]
    notes = (f"Outcomes of {known.source} by {', '.join(renamed)}.",) if renamed else ()
    question = given.question or tuple(left for left, _ in pairs)
    return JoinedForecasts(replace(table, frame=frame), replace(given, question=question, outcome=outcome), frozenset(used), notes)


def note_unused(known: ForecastTable, used: frozenset[int]) -> list[str]:
    """Return a note on the outcomes that no forecast matches."""
    rest = known.frame.height - len(used)
    verb = "has" if rest == 1 else "have"
    return [f"{counted(rest, 'question')} of {known.source} {verb} no row: coverage does not count them."] if rest else []


def _outcome(known: ForecastTable, given: ColumnRoles) -> str:
    if given.outcome is not None:
        check_present(known.source, known.frame.columns, given.outcome, "--outcome")
        return given.outcome
    likely = find_named(known.frame.columns, NAMES[Role.OUTCOME])
    if not likely:
        raise ScoringError(f"{known.source}: no column is recognised as the outcome; name it with --outcome COLUMN")
    readable = [column for column in likely if is_outcome(known, column)]
    return check_outcomes(known, readable) if readable else likely[0]


def check_outcomes(table: ForecastTable, columns: Sequence[str]) -> str:
    """Return the first of the outcome columns. Raises `ScoringError` if another one contradicts it."""
    first, *others = columns
    value, void = parse_outcomes(table, first, fractional=True), find_voided(table.frame[first])
    for other in others:
        second, also = parse_outcomes(table, other, fractional=True), find_voided(table.frame[other])
        differ = (value != second) & ~np.isnan(value) & ~np.isnan(second)
        differ |= (void & ~np.isnan(second)) | (also & ~np.isnan(value))
        if differ.any():
            row = int(np.argmax(differ))
            both = f"{format_value(table, first, row)}, but column {other!r} has {format_value(table, other, row)}"
            refuse(table, row, first, f"the outcome is {both}; name the right one with --outcome, or correct it")
    return first


def _pairs(table: ForecastTable, known: ForecastTable, given: ColumnRoles, on: Sequence[str]) -> list[Pair]:
    present = known.frame.columns
    if on:
        return [_pair(table, known, one) for one in on]
    if given.question and all(column in present for column in given.question):
        for column in given.question:
            check_present(table.source, table.frame.columns, column, "--question")
        return [(column, column) for column in given.question]
    if len(given.question) > 1:
        lacking = [column for column in given.question if column not in present]
        raise ScoringError(
            f"{known.source}: {format_names(lacking)} is not there to join on; give {format_option('on', lacking[0])}=COLUMN, and the others"
        )
    left = list(given.question) or find_named(table.frame.columns, NAMES[Role.QUESTION])
    right = find_named(present, NAMES[Role.QUESTION])
    for source, columns in ((table, left), (known, right)):
        if not columns:
            advice = "give --on COLUMN, or --on COLUMN=COLUMN OF THE OUTCOMES"
            raise ScoringError(
                f"{source.source}: no column is recognised as the question among {format_names(source.frame.columns)}; {advice}"
            )
    found = sorted(((one, other) for one in left for other in right), key=lambda pair: pair[0] != pair[1])
    counts = {pair: _matches(table, known, pair) for pair in found}
    good = (pair for pair in found if 2 * counts[pair][0] >= counts[pair][1])
    return [next(good, max(found, key=lambda pair: counts[pair][0]))]


def _pair(table: ForecastTable, known: ForecastTable, text: str) -> Pair:
    """Return the two columns that an --on option names; a column name may contain an equals sign."""
    left, _, right = (text, "", text) if text in table.frame.columns else text.partition("=")
    check_present(table.source, table.frame.columns, left, "--on")
    check_present(known.source, known.frame.columns, right or left, "--on")
    return left, right or left


def _matches(table: ForecastTable, known: ForecastTable, pair: Pair) -> tuple[int, int]:
    """Count the distinct values of the forecasts' column: those that the outcomes' column also has, and all."""
    one, other = (_values(source, column) for source, column in ((table, pair[0]), (known, pair[1])))
    return len(one & other), len(one)


def _values(table: ForecastTable, column: str) -> set[str]:
    try:
        return {*to_texts(table, column).drop_nulls()}
    except ScoringError:
        return set()


def _places(table: ForecastTable, known: ForecastTable, pairs: Sequence[Pair], *, by_question: bool) -> pl.Series:
    """Return the matching row of `known` for each forecast, null without one. In all join columns but the first, a null matches any value."""
    names = [f"key_{index}" for index in range(len(pairs))]
    first = parse_labels(table, pairs[0][0], "question", _FILL)
    asked = pl.DataFrame({names[0]: first, **{name: to_texts(table, left) for name, (left, _) in zip(names[1:], pairs[1:], strict=True)}})
    parse_labels(known, pairs[0][1], "question", _FILL)
    answered = pl.DataFrame({name: to_texts(known, right) for name, (_, right) in zip(names, pairs, strict=True)}).with_row_index("place")
    parts = []
    for pattern, rows in asked.with_row_index("row").group_by([pl.col(name).is_null() for name in names], maintain_order=True):
        keys = [name for name, missing in zip(names, pattern, strict=True) if not missing]
        one = answered.drop_nulls(keys).group_by(keys).agg(pl.col("place").first(), again=pl.col("place").get(1, null_on_oob=True))
        found = rows.join(one, on=keys, how="left")
        if found["again"].count():
            row = found.sort("row").filter(pl.col("again").is_not_null()).row(0, named=True)
            _refuse_repeated(table, known, pairs, row["again"], row[names[0]], by_question=by_question)
        parts.append(found.select("row", "place"))
    return pl.concat(parts).sort("row")["place"]


def _refuse_repeated(
    table: ForecastTable, known: ForecastTable, pairs: Sequence[Pair], row: int, label: str, *, by_question: bool
) -> NoReturn:
    lefts, rights = ([pair[side] for pair in pairs] for side in (0, 1))
    free = _labelled(table, ColumnRoles())
    common = [name for name in known.frame.columns if name in free and name not in rights]
    unique = (name for name in common if _is_unique(known, [*rights, name], rights[0], label))
    key = next(unique, None)
    words = [format_option("question", name) if by_question else format_option("on", name) for name in (*lefts, key) if name is not None]
    advice = f", or give {' '.join(words)}" if key is not None else ""
    refuse(known, row, rights[0], f"{label!r} has a row before; give every question one outcome{advice}")


def _is_unique(known: ForecastTable, columns: Sequence[str], first: str, label: str) -> bool:
    """Return whether `columns` distinguish all rows that have this label."""
    try:
        frame = pl.DataFrame({column: to_texts(known, column) for column in columns})
    except ScoringError:
        return False
    return not bool(frame.filter(pl.col(first) == label).is_duplicated().any())


def _refuse_unmatched(table: ForecastTable, known: ForecastTable, pairs: Sequence[Pair], given: ColumnRoles) -> NoReturn:
    """Raise `ScoringError` with the pairs of columns that have common values."""
    tried = " and ".join(f"{left} = {right}" for left, right in pairs)
    examples = " and ".join(
        format_brief(next(iter(to_texts(source, column).drop_nulls()), None))
        for source, column in ((table, pairs[0][0]), (known, pairs[0][1]))
    )
    found = sorted(_candidates(table, known, given), key=lambda one: -one[1])[:_SUGGESTED]
    if found:
        left, right = found[0][0]
        counts = ", ".join(f"{one} = {other} ({count} of {total})" for (one, other), count, total in found)
        advice = f"columns with values in common are {counts}; give {format_option('on', left if left == right else f'{left}={right}')}"
    else:
        advice = "no other columns have values in common; correct the names of the questions"
    raise ScoringError(f"{table.source}: no row has an outcome in {known.source} by {tried} (such as {examples}); {advice}")


def _candidates(table: ForecastTable, known: ForecastTable, given: ColumnRoles) -> Iterator[tuple[Pair, int, int]]:
    """Yield pairs of label columns with common values: the pair, the number of common values, and the number of values of the forecasts."""
    for left in _labelled(table, given):
        for right in _labelled(known, given):
            count, total = _matches(table, known, (left, right))
            if count:
                yield (left, right), count, total


def _labelled(table: ForecastTable, given: ColumnRoles) -> list[str]:
    """Return the columns that may name questions: columns with several values and no other role."""
    known = recognise_columns(table.source, table.frame.columns, table.frame.columns, ColumnRoles())
    other = {column for role, columns in known.used().items() if role not in (Role.QUESTION, Role.CLUSTER) for column in columns}
    other |= {*given.probability, given.outcome or "", given.market or "", given.weight or ""}
    return [column for column in table.frame.columns if column not in other and len(_values(table, column)) > 1]


def _check_own(table: ForecastTable, known: ForecastTable, joined: pl.Series) -> None:
    """Raise `ScoringError` if a forecast's own outcome contradicts the one in `known`."""
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
                table, row, column, f"the outcome is {format_value(table, column, row)}, but {known.source} has {value[row]:g}; {advice}"
            )


def _usable(known: ForecastTable, given: ColumnRoles) -> list[str]:
    """Return the columns without faults. Raises `ScoringError` if a faulty column has a role."""
    roles = {column for columns in given.used().values() for column in columns}
    for role, names in NAMES.items():
        roles |= {*find_named(known.frame.columns, names)} if role is not Role.QUESTION else set()
    for column in known.faults:
        if column in roles and column not in known.lists:
            known.values(column)
    return [column for column in known.frame.columns if column not in known.faults]
