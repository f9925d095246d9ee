"""Tables of forecasts as one sheet that can be scored; errors name line, column, value and remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import NoReturn

import polars as pl

from bellwether.errors import ScoringError
from bellwether.scoring.columns import (
    FINAL_PRICES,
    NAMES,
    RESOLVED,
    Columns,
    Role,
    is_number,
    listed,
    named,
    option,
    recognise,
    require,
    statistics,
)
from bellwether.scoring.consistency import check_duplicates, check_questions
from bellwether.scoring.files import Table
from bellwether.scoring.joining import check_outcomes, join_outcomes, unasked
from bellwether.scoring.prices import check_final, check_prices, known_outcomes, unread_final, with_market
from bellwether.scoring.repeats import Keep, check_keep, instants, keep_one
from bellwether.scoring.sheet import Part, Sheet
from bellwether.scoring.values import is_fraction, is_numeric, is_outcome, labels, outcomes, probabilities, refuse, shown, texts, weights
from bellwether.scoring.words import counted

#: Between the parts of a question's name that several columns make.
_BETWEEN = " / "

_WAYS = 2

#: A column of percentages with more than this share up to 1 % is worth a note.
_MOSTLY = 0.5


@dataclass(frozen=True, slots=True)
class Reading:
    """Options of reading.

    columns: columns that the user named. by: columns of groups. on: columns to join outcomes on, `COLUMN` or `COLUMN=COLUMN OF THE OUTCOMES`.
    keep: which of repeated forecasts counts; at: the column of their times. percent: columns to divide by 100. clip: clip rounding errors to [0, 1].
    fractional: accept outcomes between no and yes. skip_unresolved: leave out rows without an outcome. independent: ignore columns of clusters.
    """

    columns: Columns = field(default_factory=Columns)
    by: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    keep: Keep | None = None
    at: str | None = None
    percent: tuple[str, ...] = ()
    clip: bool = False
    fractional: bool = False
    skip_unresolved: bool = False
    independent: bool = False


def read_sheet(tables: Sequence[Table], reading: Reading, known: Table | None = None) -> Sheet:
    """The sheet of tables of forecasts. `known` contains outcomes by question, and optionally clusters, weights, prices and groups.

    Raises `ScoringError` that names the file, the line, the column, the value and the remedy.
    """
    _check_options(tables, reading, known)
    read = [_part(table, reading, known, name) for table, name in zip(tables, _called(tables), strict=True)]
    parts = [part for part, _, _ in read]
    notes = [note for _, some, _ in read for note in some]
    _check_roles(parts, reading)
    frame = pl.concat([part.rows.with_columns(file=pl.lit(index, pl.Int32)) for index, part in enumerate(parts)])
    frame, more = _resolved(frame, parts, reading, known)
    notes += more
    columns = parts[0].columns
    if reading.keep is not None:
        check_questions(frame, parts)
        frame, more = keep_one(frame, parts, reading.keep, reading.at)
        notes += more
    elif columns.question:
        check_duplicates(frame, parts)
        check_questions(frame, parts)
    notes += _percent_notes(parts, reading)
    if known is not None:
        notes += unasked(known, frozenset().union(*(used for _, _, used in read)))
    notes += _forecast_notes(frame, parts)
    notes += check_prices(frame, parts)
    notes += known_outcomes(frame)
    clusters = " x ".join(columns.cluster) or f"each {' and '.join(columns.question[:1]) or 'row'} independent of the others"
    frame, more = with_market(frame)
    notes += more
    numbered = frame.with_columns(forecaster_index=_forecaster_numbers(frame))
    numbered = numbered.with_columns(question_index=_question_numbers(numbered, columns))
    names = tuple(Path(name).name for name in _names(tables))
    return Sheet(numbered.drop("file", "row", "place", "stated"), names, columns, reading.by, clusters, tuple(dict.fromkeys(notes)))


def _check_options(tables: Sequence[Table], reading: Reading, known: Table | None) -> None:
    """Raise `ScoringError` where options contradict each other or the files."""
    if len(reading.columns.cluster) > _WAYS:
        raise ScoringError(f"scoring: {len(reading.columns.cluster)} columns of clusters are given; give one, or two for two-way clusters")
    if len({Path(table.source).resolve() for table in tables}) < len(tables):
        raise ScoringError(f"scoring: a file is given twice among {', '.join(_names(tables))}; give each once")
    if reading.on and known is None:
        raise ScoringError(f"scoring: {option('on', reading.on[0])} joins a file of outcomes; give it with --outcomes FILE")
    check_keep(tables, reading.keep, reading.at)


def _forecast_notes(frame: pl.DataFrame, parts: Sequence[Part]) -> Iterator[str]:
    """Notes on missing forecasts and on questions without names. Raises `ScoringError` where there is no forecast."""
    columns = parts[0].columns
    if not frame["probability"].count():
        advice = f"give probabilities in {listed(columns.probability)}"
        raise ScoringError(f"{parts[0].table.source}: no row of a resolved question holds a forecast; {advice}")
    if (missing := frame["probability"].null_count()) > 0:
        yield f"{counted(missing, 'row')} without a forecast: coverage counts them."
    if not columns.question and frame["forecaster"].n_unique() > 1 and len(columns.probability) == 1:
        yield "No column names the question, so that forecasters are not compared with each other; give --question COLUMN."


def _names(tables: Sequence[Table]) -> list[str]:
    return [table.source for table in tables]


def _called(tables: Sequence[Table]) -> list[str | None]:
    """What the forecaster of each file is called: the file without its folder where that tells all apart. None for a frame."""
    paths = [Path(name) for name in _names(tables)]
    short = [path.name.split(".")[0] or path.name for path in paths]
    names = short if len({*short}) == len(short) else [str(path) for path in paths]
    return [name if path.suffix else None for name, path in zip(names, paths, strict=True)]


def _forecaster_numbers(frame: pl.DataFrame) -> pl.Series:
    """Each forecaster's number by file, column and name, independent of the order of the rows; the market is last."""
    order = (
        frame.group_by("forecaster")
        .agg(pl.col("file").min(), pl.col("place").min())
        .sort("file", "place", "forecaster")
        .with_row_index("number")
    )
    return frame.select("forecaster").join(order, on="forecaster", how="left", maintain_order="left")["number"].cast(pl.Int64)


def _question_numbers(frame: pl.DataFrame, columns: Columns) -> pl.Series:
    """Each question's number by its name, or by its values where the row is its name; independent of the order of the rows."""
    if columns.question:
        return frame["question"].rank("dense").cast(pl.Int64) - 1
    named_clusters = [pl.col(f"cluster_{index}").first() for index in range(len(columns.cluster))]
    values = (
        frame.sort("forecaster_index")
        .group_by("question")
        .agg(*named_clusters, pl.col("outcome", "weight", "market").first(), pl.col("forecaster_index", "probability"))
    )
    parts = pl.concat_str(pl.all().exclude("question", "forecaster_index", "probability").cast(pl.String).fill_null(""), separator="\0")
    lists = [
        pl.col(name).list.eval(pl.element().cast(pl.String).fill_null("")).list.join(" ") for name in ("forecaster_index", "probability")
    ]
    order = (
        values.select("question", parts.alias("parts"), *lists)
        .sort("parts", *("forecaster_index", "probability"), "question")
        .with_row_index("number")
    )
    return frame.select("question").join(order, on="question", how="left", maintain_order="left")["number"].cast(pl.Int64)


def _part(table: Table, reading: Reading, known: Table | None, called: str | None) -> tuple[Part, list[str], frozenset[int]]:
    """A table's rows with a forecast each, notes on it, and the rows of `known` that were used."""
    given, used, notes = reading.columns, frozenset[int](), []
    if known is not None:
        joined = join_outcomes(table, known, given, reading.on, fractional=reading.fractional)
        table, given, used, notes = joined.table, joined.columns, joined.used, [*joined.notes]
    check_final(table, given)
    columns = _recognised(table, given, independent=reading.independent)
    for column in reading.by:
        require(table.source, table.frame.columns, column, "--by")
    found = {column: _probabilities(table, column, reading) for column in columns.probability}
    if not given.probability:
        found, some = _without_bounds(table, found)
        columns = replace(columns, probability=tuple(found))
        notes += some
    notes += unread_final(table, columns)
    base = _base(table, columns, reading, given_outcome=known is not None)
    names = _forecasters(table, columns, called)
    rows = [
        base.with_columns(forecaster=name, probability=found[column], place=pl.lit(index, pl.Int32))
        for index, (column, name) in enumerate(names.items())
    ]
    return Part(table, columns, pl.concat(rows)), notes, used


def _base(table: Table, columns: Columns, reading: Reading, *, given_outcome: bool) -> pl.DataFrame:
    """The columns of a sheet that all forecasters of a table share."""
    height, outcome = table.frame.height, str(columns.outcome)
    states = (
        []
        if given_outcome
        else [column for column in named(table.frame.columns, RESOLVED) if column != outcome and is_outcome(table, column)]
    )
    values = outcomes(table, outcome, fractional=reading.fractional, resolved=next(iter(states), None))
    return pl.DataFrame(
        {
            "row": pl.int_range(height, eager=True, dtype=pl.Int64),
            "question": _questions(table, columns),
            "outcome": pl.Series(values, nan_to_null=True),
            "market": pl.repeat(None, height, dtype=pl.Float64, eager=True)
            if columns.market is None
            else _probabilities(table, columns.market, reading),
            "weight": pl.Series([1.0] * height) if columns.weight is None else pl.Series(weights(table, columns.weight)),
            "stated": pl.repeat(None, height, dtype=pl.Int64, eager=True) if reading.at is None else _stated(table, reading.at),
            **{f"cluster_{index}": values for index, values in enumerate(_clusters(table, columns))},
            **{f"by_{index}": texts(table, column) for index, column in enumerate(reading.by)},
        }
    )


def _stated(table: Table, at: str) -> pl.Series:
    require(table.source, table.frame.columns, at, "--at")
    return instants(table, at)


def _recognised(table: Table, given: Columns, *, independent: bool) -> Columns:
    present = table.frame.columns
    numeric = [column for column in present if is_numeric(table.frame[column])]
    if given.outcome is None:
        taken = {column for columns in given.used().values() for column in columns}
        readable = [column for column in named(present, NAMES[Role.OUTCOME]) if column not in taken and is_outcome(table, column)]
        given = replace(given, outcome=check_outcomes(table, readable)) if readable else given
    columns = recognise(table.source, present, numeric, given)
    if independent:
        columns = replace(columns, cluster=())
    if not columns.probability:
        _refuse_without_probability(table, columns)
    if columns.outcome is None:
        raise ScoringError(
            f"{table.source}: no column is recognised as the outcome among {listed(present)}; name it with --outcome COLUMN, or give --outcomes FILE"
        )
    if len(columns.probability) > 1 and columns.forecaster is not None:
        raise ScoringError(
            f"{table.source}: there are several columns of probabilities ({listed(columns.probability)}) and a column of forecasters "
            f"({columns.forecaster!r}); give one column of probabilities, or name no forecaster"
        )
    return columns


def _without_bounds(table: Table, found: dict[str, pl.Series]) -> tuple[dict[str, pl.Series], list[str]]:
    """The columns that are forecasts, and a note on the others: statistics by their names, bounds by their names and values.

    Raises `ScoringError` where one column is the complement of another.
    """
    bounds = {column for pair in _BOUNDS for column in _bounds(found, *pair)}
    forecasts = {column: values for column, values in found.items() if column not in bounds}
    for one, other in combinations(forecasts, 2) if len(forecasts) <= _COMPLEMENTS else ():
        total = (forecasts[one] + forecasts[other]).drop_nulls()
        if len(total) >= _SURE and ((total - 1).abs() < 1e-6).all() and not (forecasts[one].drop_nulls() == 1 / 2).all():
            advice = f"give {option('probability', one)} or {option('probability', other)}, the one of yes"
            raise ScoringError(
                f"{table.source}: {one!r} and {other!r} add up to 1 in every row, so that one is the probability of no; {advice}"
            )
    is_wide = not named([*found], NAMES[Role.PROBABILITY])
    left_out = [*statistics(table.frame.columns), *bounds] if is_wide else []
    unread = [column for column in table.frame.columns if column in left_out and is_numeric(table.frame[column])]
    return forecasts, [f"Not read as forecasters: {listed(unread)}; give --probability COLUMN for those that are."] if unread else []


def _bounds(found: dict[str, pl.Series], low: str, high: str) -> Iterator[str]:
    """Columns of lower and upper bounds: ordered in every row, more often than by chance."""
    for lower, values in found.items():
        stem = lower[: -len(low)]
        upper = found.get(stem + high)
        if not lower.lower().endswith(low) or not stem or upper is None:
            continue
        middle = found.get(stem.rstrip("_ .:-"))
        frame = pl.DataFrame({"low": values, "middle": values if middle is None else middle, "high": upper}).drop_nulls()
        ordered = frame.select(((pl.col("low") <= pl.col("middle")) & (pl.col("middle") <= pl.col("high"))).all()).item()
        if ordered and frame.height >= (_SURE if middle is not None else _SURER):
            yield from (lower, stem + high)


#: Endings of bounds that may also be names of models.
_BOUNDS = (("low", "high"), ("min", "max"))
#: Rows from which an order of three columns, or of two, is no coincidence.
_SURE, _SURER = 3, 7
#: Complements are looked for among this many columns.
_COMPLEMENTS = 30


def _refuse_without_probability(table: Table, columns: Columns) -> NoReturn:
    """Raise `ScoringError` that says which column would do, or why the one with the name of a probability does not."""
    present = table.frame.columns
    none = f"{table.source}: no column is recognised as the probability among {listed(present)}"
    if any(map(is_number, present)):
        raise ScoringError(f"{none}; if these are values, add a line with the names of the columns before them")
    unfit = {columns.market, columns.weight, *statistics(present), *named(present, FINAL_PRICES)}
    likely = [column for column in present if column not in unfit and is_fraction(table.frame[column])]
    if likely:
        raise ScoringError(
            f"{none}; {listed(likely)} would do by the values: give {' '.join(option('probability', one) for one in likely)}"
        )
    by_name = recognise(table.source, present, present, Columns()).probability
    if by_name and columns.outcome not in by_name:
        probabilities(table, by_name[0], percent=False, clip=False)
    other = f"; {listed(statistics(present))} by name is no probability of yes" if statistics(present) else ""
    raise ScoringError(f"{none}{other}; name it with --probability COLUMN")


def _questions(table: Table, columns: Columns) -> pl.Series:
    """The name of each row's question; without such a column each row is one."""
    if not columns.question:
        return pl.Series([f"{table.source}{_BETWEEN}{row}" for row in range(table.frame.height)])
    first, *others = columns.question
    parts = [
        labels(table, first, "question", "fill it in, or leave the row out"),
        *(texts(table, column).fill_null("") for column in others),
    ]
    return pl.select(pl.concat_str(parts, separator=_BETWEEN)).to_series() if len(parts) > 1 else parts[0]


def _clusters(table: Table, columns: Columns) -> list[pl.Series]:
    """The clusters of each row; without such a column those of the question, by the first of the columns that name it."""
    missing = "give every row a cluster, one of its own where it shares none, or give --independent (independent=True)"
    found = [labels(table, column, "cluster", missing) for column in columns.cluster]
    return found or [_questions(table, replace(columns, question=columns.question[:1]))]


def _probabilities(table: Table, column: str, reading: Reading) -> pl.Series:
    values = probabilities(table, column, percent=column in reading.percent, clip=reading.clip)
    return pl.Series(values, nan_to_null=True)


def _forecasters(table: Table, columns: Columns, called: str | None) -> dict[str, pl.Expr | pl.Series]:
    """Name of the forecaster of every row, by column of probabilities; `called` is that of a file without such a column."""
    first, *others = columns.probability
    if columns.forecaster is not None:
        return {first: labels(table, columns.forecaster, "forecaster", "fill it in, or leave the row out").alias("forecaster")}
    if others:
        return {column: pl.lit(name) for column, name in columns.forecaster_names().items()}
    return {first: pl.lit(called or first)}


def _check_roles(parts: Sequence[Part], reading: Reading) -> None:
    """Raise where tables do not have the same columns of questions and clusters, or an option names a column in vain."""
    first, *others = parts
    for other in others:
        for role in (Role.QUESTION, Role.CLUSTER):
            for one, two in ((first, other), (other, first)):
                found, lacking = one.columns.used().get(role, ()), two.columns.used().get(role, ())
                if found and not lacking:
                    advice = " or give --independent (independent=True)" if role is Role.CLUSTER else ""
                    raise ScoringError(
                        f"{two.table.source}: no column is recognised as the {role}, and {one.table.source} has {found[0]!r}; add it{advice}"
                    )
    for column in reading.percent:
        if not any(column in _of_probabilities(part.columns) for part in parts):
            raise ScoringError(
                f"scoring: --percent names {column!r}, which is read as no probability or price; give it the role, or leave it out"
            )


def _of_probabilities(columns: Columns) -> tuple[str, ...]:
    return (*columns.probability, *([] if columns.market is None else [columns.market]))


def _percent_notes(parts: Sequence[Part], reading: Reading) -> Iterator[str]:
    """Which columns of percentages hold few above 1 %, which is rarely meant."""
    for part in parts:
        for column in _of_probabilities(part.columns):
            if column not in reading.percent:
                continue
            values = _probabilities(part.table, column, reading)
            small = values.filter(values > 0) <= 0.01
            if int(small.sum()) > _MOSTLY * len(small):
                share = "Every value" if small.all() else "More than half of the values"
                yield f"{share} of {column!r} {'is' if small.all() else 'are'} at most 1 %: check that it holds percentages."


def _resolved(frame: pl.DataFrame, parts: Sequence[Part], reading: Reading, known: Table | None) -> tuple[pl.DataFrame, list[str]]:
    """The rows with an outcome, and a note on the others. Raises where there are others and they are not to be skipped, or nothing is left."""
    open_rows = frame.filter(pl.col("outcome").is_null())
    if open_rows.is_empty():
        return frame, []
    if not reading.skip_unresolved:
        file, row, question = open_rows.select("file", "row", "question").row(0)
        part = parts[file]
        skip = "give --skip-unresolved (skip_unresolved=True) to leave such rows out"
        if known is not None:
            refuse(part.table, row, part.columns.question[0], f"{question!r} has no outcome in {known.source}; {skip}")
        column = str(part.columns.outcome)
        refuse(part.table, row, column, f"{shown(part.table, column, row)} is no outcome: the question is not resolved; {skip}")
    rest = frame.filter(pl.col("outcome").is_not_null())
    if rest.is_empty():
        raise ScoringError(f"scoring: none of the {frame.height} rows has an outcome; give forecasts on questions that are resolved")
    questions = open_rows["question"].n_unique()
    return rest, [f"{counted(open_rows.height, 'row')} on {counted(questions, 'question')} left out: not resolved."]
