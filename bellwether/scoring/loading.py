"""Loading of forecast tables into one sheet for scoring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from bellwether.errors import ScoringError
from bellwether.formatting import counted
from bellwether.scoring.column_recognition import drop_bounds, recognise_table
from bellwether.scoring.columns import RESOLVED, ColumnRoles, Role, check_present, find_named, format_names, format_option
from bellwether.scoring.consistency import check_duplicates, check_questions
from bellwether.scoring.forecast_sheet import Sheet, TableRows
from bellwether.scoring.outcome_join import join_outcomes, note_unused
from bellwether.scoring.parsing import (
    format_value,
    is_outcome,
    parse_labels,
    parse_outcomes,
    parse_probabilities,
    parse_weights,
    refuse,
    to_texts,
)
from bellwether.scoring.prices import add_market, check_final, check_prices, note_known_outcomes, note_unread_final
from bellwether.scoring.repeated_forecasts import Keep, check_times, check_zones, parse_instants, select_in_time, select_one
from bellwether.scoring.table import ForecastTable

#: Separator between the parts of a question's name from several columns.
_BETWEEN = " / "

_WAYS = 2

#: Share of values of at most 1 % above which a note on a percentage column is added.
_MOSTLY = 0.5


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for reading forecasts.

    columns: columns named by the user. by: columns of groups. on: columns to join outcomes on, `COLUMN` or `COLUMN=COLUMN OF THE OUTCOMES`.
    keep: choice among repeated forecasts. at: column of their times. before: column of times that forecasts must precede.
    percent: columns to divide by 100. clip: clip rounding errors to [0, 1]. fractional: accept outcomes between no and yes.
    skip_unresolved: leave out rows without an outcome. independent: ignore columns of clusters.
    """

    columns: ColumnRoles = field(default_factory=ColumnRoles)
    by: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    keep: Keep | None = None
    at: str | None = None
    before: str | None = None
    percent: tuple[str, ...] = ()
    clip: bool = False
    fractional: bool = False
    skip_unresolved: bool = False
    independent: bool = False


def read_sheet(tables: Sequence[ForecastTable], reading: LoadOptions, outcomes: ForecastTable | None = None) -> Sheet:
    """Combine forecast tables into one sheet. outcomes: table with the outcome of each question, optionally with clusters, weights, prices
    and groups.

    Raises `ScoringError` with the file, line, column, value and remedy.
    """
    _check_options(tables, reading, outcomes)
    read = [_load_table(table, reading, outcomes, name) for table, name in zip(tables, _name_tables(tables), strict=True)]
    parts = [part for part, _, _ in read]
    notes = [note for _, part_notes, _ in read for note in part_notes]
    _check_roles(parts, reading)
    check_zones([part.table for part in parts], (reading.at, reading.before))
    frame = pl.concat([part.rows.with_columns(file=pl.lit(index, pl.Int32)) for index, part in enumerate(parts)])
    frame, added = _drop_unresolved(frame, parts, reading, outcomes)
    notes += added
    columns = parts[0].columns
    if reading.before is not None:
        frame, added = select_in_time(frame, reading.before)
        notes += added
    if reading.keep is not None:
        check_questions(frame, parts)
        frame, added = select_one(frame, parts, reading.keep, reading.at)
        notes += added
    elif columns.question:
        check_duplicates(frame, parts)
        check_questions(frame, parts)
    notes += _percent_notes(parts, reading)
    if outcomes is not None:
        notes += note_unused(outcomes, frozenset().union(*(used for _, _, used in read)))
    notes += _forecast_notes(frame, parts)
    notes += check_prices(frame, parts)
    notes += note_known_outcomes(frame)
    clusters = " x ".join(columns.cluster) or f"each {' and '.join(columns.question[:1]) or 'row'} independent of the others"
    frame, added = add_market(frame)
    notes += added
    numbered = frame.with_columns(forecaster_index=_forecaster_numbers(frame))
    numbered = numbered.with_columns(question_index=_question_numbers(numbered, columns))
    names = tuple(Path(name).name for name in _list_sources(tables))
    return Sheet(numbered.drop("file", "row", "place", "stated", "ends"), names, columns, reading.by, clusters, tuple(dict.fromkeys(notes)))


def _check_options(tables: Sequence[ForecastTable], reading: LoadOptions, outcomes: ForecastTable | None) -> None:
    """Raise `ScoringError` if options contradict each other or the files."""
    if len(reading.columns.cluster) > _WAYS:
        raise ScoringError(f"scoring: {len(reading.columns.cluster)} columns of clusters are given; give one, or two for two-way clusters")
    if len({Path(table.source).resolve() for table in tables}) < len(tables):
        raise ScoringError(f"scoring: a file is given twice among {', '.join(_list_sources(tables))}; give each once")
    if reading.on and outcomes is None:
        raise ScoringError(f"scoring: {format_option('on', reading.on[0])} joins a file of outcomes; give it with --outcomes FILE")
    check_times(tables, reading.keep, reading.at, reading.before)


def _forecast_notes(frame: pl.DataFrame, parts: Sequence[TableRows]) -> Iterator[str]:
    """Yield notes on missing forecasts and unnamed questions. Raises `ScoringError` if there is no forecast."""
    columns = parts[0].columns
    if not frame["probability"].count():
        advice = f"give probabilities in {format_names(columns.probability)}"
        raise ScoringError(f"{parts[0].table.source}: no row of a resolved question holds a forecast; {advice}")
    if (missing := frame["probability"].null_count()) > 0:
        yield f"{counted(missing, 'row')} without a forecast: coverage counts them."
    if not columns.question and frame["forecaster"].n_unique() > 1 and len(columns.probability) == 1:
        yield "No column names the question, so that forecasters are not compared with each other; give --question COLUMN."


def _list_sources(tables: Sequence[ForecastTable]) -> list[str]:
    return [table.source for table in tables]


def _name_tables(tables: Sequence[ForecastTable]) -> list[str | None]:
    """Return the forecaster's name that each table implies: the file name without suffix, the whole path if such names repeat, None for a
    frame.
    """
    paths = [Path(name) for name in _list_sources(tables)]
    short = [path.name.split(".")[0] or path.name for path in paths]
    names = short if len({*short}) == len(short) else [str(path) for path in paths]
    return [name if path.suffix else None for name, path in zip(names, paths, strict=True)]


def _forecaster_numbers(frame: pl.DataFrame) -> pl.Series:
    """Return the number of each row's forecaster. Forecasters are numbered by file, column and name; the market is the last."""
    order = (
        frame.group_by("forecaster")
        .agg(pl.col("file").min(), pl.col("place").min())
        .sort("file", "place", "forecaster")
        .with_row_index("number")
    )
    return frame.select("forecaster").join(order, on="forecaster", how="left", maintain_order="left")["number"].cast(pl.Int64)


def _question_numbers(frame: pl.DataFrame, columns: ColumnRoles) -> pl.Series:
    """Return the number of each row's question. Questions are numbered by name; without a question column, by the values in their rows."""
    if columns.question:
        return frame["question"].rank("dense").cast(pl.Int64) - 1
    ways = [f"cluster_{index}" for index in range(len(columns.cluster))]
    shared = (*ways, "outcome", "weight", "market", "forecaster_index")
    values, forecasts = (
        frame.filter(pl.col("place") == 0).select("question", *shared, p_0="probability"),
        [f"p_{index}" for index in range(len(columns.probability))],
    )
    for index, name in enumerate(forecasts[1:], 1):
        values = values.join(
            frame.filter(pl.col("place") == index).select("question", pl.col("probability").alias(name)), on="question", how="left"
        )
    order = (
        values.sort(*shared, *forecasts, maintain_order=True).select("question").with_row_index("number")
    )  # equal rows are interchangeable
    return frame.select("question").join(order, on="question", how="left", maintain_order="left")["number"].cast(pl.Int64)


def _load_table(
    table: ForecastTable, reading: LoadOptions, outcomes: ForecastTable | None, name_of_file: str | None
) -> tuple[TableRows, list[str], frozenset[int]]:
    """Load one table; return its forecasts with one row per table row and probability column, notes on them, and the indexes of the rows of
    `outcomes` that it uses.
    """
    roles, used, notes = reading.columns, frozenset[int](), []
    if outcomes is not None:
        joined = join_outcomes(table, outcomes, roles, reading.on, fractional=reading.fractional)
        table, roles, used, notes = joined.table, joined.columns, joined.used, [*joined.notes]
    columns = recognise_table(table, roles, independent=reading.independent)
    check_final(table, roles, columns)
    for column in reading.by:
        check_present(table.source, table.frame.columns, column, "--by")
    probabilities = {column: _probabilities(table, column, reading) for column in columns.probability}
    if not roles.probability:
        probabilities, added = drop_bounds(table, probabilities)
        columns = replace(columns, probability=tuple(probabilities))
        notes += added
    notes += note_unread_final(table, columns)
    base = _shared_columns(table, columns, reading, given_outcome=outcomes is not None)
    names = _forecasters(table, columns, name_of_file)
    rows = [
        base.with_columns(forecaster=name, probability=probabilities[column], place=pl.lit(index, pl.Int32))
        for index, (column, name) in enumerate(names.items())
    ]
    return TableRows(table, columns, pl.concat(rows)), notes, used


def _shared_columns(table: ForecastTable, columns: ColumnRoles, reading: LoadOptions, *, given_outcome: bool) -> pl.DataFrame:
    """Build the columns of a sheet that do not depend on the probability column. given_outcome: the outcomes come from a table of their
    own.
    """
    height, outcome = table.frame.height, str(columns.outcome)
    states = (
        []
        if given_outcome
        else [column for column in find_named(table.frame.columns, RESOLVED) if column != outcome and is_outcome(table, column)]
    )
    values = parse_outcomes(table, outcome, fractional=reading.fractional, resolved=next(iter(states), None))
    return pl.DataFrame(
        {
            "row": pl.int_range(height, eager=True, dtype=pl.Int64),
            "question": _questions(table, columns),
            "outcome": pl.Series(values, nan_to_null=True),
            "market": pl.repeat(None, height, dtype=pl.Float64, eager=True)
            if columns.market is None
            else _probabilities(table, columns.market, reading),
            "weight": pl.Series([1.0] * height) if columns.weight is None else pl.Series(parse_weights(table, columns.weight)),
            "stated": _times(table, reading.at, "--at"),
            "ends": _times(table, reading.before, "--before"),
            **{f"cluster_{index}": values for index, values in enumerate(_clusters(table, columns))},
            **{f"by_{index}": to_texts(table, column) for index, column in enumerate(reading.by)},
        }
    )


def _times(table: ForecastTable, column: str | None, name: str) -> pl.Series:
    if column is None:
        return pl.repeat(None, table.frame.height, dtype=pl.Int64, eager=True)
    check_present(table.source, table.frame.columns, column, name)
    return parse_instants(table, column)


def _questions(table: ForecastTable, columns: ColumnRoles) -> pl.Series:
    """Return the name of each row's question. Without a question column every row is a question of its own."""
    if not columns.question:
        return pl.select(pl.format("{}{}{}", pl.lit(table.source), pl.lit(_BETWEEN), pl.int_range(table.frame.height))).to_series()
    first, *others = columns.question
    parts = [
        parse_labels(table, first, "question", "fill it in, or leave the row out"),
        *(to_texts(table, column).fill_null("") for column in others),
    ]
    return pl.select(pl.concat_str(parts, separator=_BETWEEN)).to_series() if len(parts) > 1 else parts[0]


def _clusters(table: ForecastTable, columns: ColumnRoles) -> list[pl.Series]:
    """Return the columns of cluster labels; without cluster columns, each question is a cluster (by the first question column)."""
    missing = "give every row a cluster, one of its own where it shares none, or give --independent (independent=True)"
    columns_ = [parse_labels(table, column, "cluster", missing) for column in columns.cluster]
    return columns_ or [_questions(table, replace(columns, question=columns.question[:1]))]


def _probabilities(table: ForecastTable, column: str, reading: LoadOptions) -> pl.Series:
    values = parse_probabilities(table, column, percent=column in reading.percent, clip=reading.clip)
    return pl.Series(values, nan_to_null=True)


def _forecasters(table: ForecastTable, columns: ColumnRoles, name_of_file: str | None) -> dict[str, pl.Expr | pl.Series]:
    """Return the forecaster's name of the rows, by probability column. name_of_file: used if there is one probability column and no
    forecaster column.
    """
    first, *others = columns.probability
    if columns.forecaster is not None:
        return {first: parse_labels(table, columns.forecaster, "forecaster", "fill it in, or leave the row out").alias("forecaster")}
    if others:
        return {column: pl.lit(name) for column, name in columns.forecaster_names().items()}
    return {first: pl.lit(name_of_file or first)}


def _check_roles(parts: Sequence[TableRows], reading: LoadOptions) -> None:
    """Raise `ScoringError` if only some tables have a question or cluster column, or if --percent names a column that is no probability or
    price.
    """
    first, *others = parts
    for other in others:
        for role in (Role.QUESTION, Role.CLUSTER):
            for having, lacking_part in ((first, other), (other, first)):
                with_role, lacking = having.columns.used().get(role, ()), lacking_part.columns.used().get(role, ())
                if with_role and not lacking:
                    advice = " or give --independent (independent=True)" if role is Role.CLUSTER else ""
                    raise ScoringError(
                        f"{lacking_part.table.source}: no column is recognised as the {role}, and {having.table.source} has {with_role[0]!r}; add it{advice}"
                    )
    for column in reading.percent:
        if not any(column in _probability_columns(part.columns) for part in parts):
            raise ScoringError(
                f"scoring: --percent names {column!r}, which is read as no probability or price; give it the role, or leave it out"
            )


def _probability_columns(columns: ColumnRoles) -> tuple[str, ...]:
    return (*columns.probability, *([] if columns.market is None else [columns.market]))


def _percent_notes(parts: Sequence[TableRows], reading: LoadOptions) -> Iterator[str]:
    """Yield a note on each column given as percentages (--percent) whose values are mostly at most 1 %, which suggests probabilities."""
    for part in parts:
        for column in _probability_columns(part.columns):
            if column not in reading.percent:
                continue
            values = _probabilities(part.table, column, reading)
            small = values.filter(values > 0) <= 0.01
            if int(small.sum()) > _MOSTLY * len(small):
                share = "Every value" if small.all() else "More than half of the values"
                yield f"{share} of {column!r} {'is' if small.all() else 'are'} at most 1 %: check that it holds percentages."


def _drop_unresolved(
    frame: pl.DataFrame, parts: Sequence[TableRows], reading: LoadOptions, outcomes: ForecastTable | None
) -> tuple[pl.DataFrame, list[str]]:
    """Drop the rows without an outcome; return the others, and a note on the number dropped. Raises `ScoringError` if dropping is not
    allowed, or if no rows remain.
    """
    open_rows = frame.filter(pl.col("outcome").is_null())
    if open_rows.is_empty():
        return frame, []
    if not reading.skip_unresolved:
        file, row, question = open_rows.select("file", "row", "question").row(0)
        part = parts[file]
        skip = "give --skip-unresolved (skip_unresolved=True) to leave such rows out"
        if outcomes is not None:
            refuse(part.table, row, part.columns.question[0], f"{question!r} has no outcome in {outcomes.source}; {skip}")
        column = str(part.columns.outcome)
        refuse(part.table, row, column, f"{format_value(part.table, column, row)} is no outcome: the question is not resolved; {skip}")
    rest = frame.filter(pl.col("outcome").is_not_null())
    if rest.is_empty():
        raise ScoringError(f"scoring: none of the {frame.height} rows has an outcome; give forecasts on questions that are resolved")
    questions = open_rows["question"].n_unique()
    return rest, [f"{counted(open_rows.height, 'row')} on {counted(questions, 'question')} left out: not resolved."]
