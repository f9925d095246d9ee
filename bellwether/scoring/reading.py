"""From tables as they were read to a sheet of forecasts that can be scored; what cannot be is refused with line, column, value and remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import polars as pl

from bellwether.errors import ScoringError
from bellwether.scoring.columns import Columns, Role, is_number, listed, option, recognise, require
from bellwether.scoring.consistency import check_duplicates, check_questions
from bellwether.scoring.files import Table
from bellwether.scoring.sheet import MARKET, Part, Sheet
from bellwether.scoring.values import is_fraction, is_numeric, labels, outcomes, probabilities, refuse, shown, texts, weights
from bellwether.scoring.words import counted

#: Between the parts of a question's name that several columns make.
_BETWEEN = " / "

_WAYS = 2

#: A column of percentages with more than this share up to 1 % is worth a note.
_MOSTLY = 0.5


@dataclass(frozen=True, slots=True)
class Reading:
    """How tables are read.

    columns: what the user named. by: columns of groups. percent: columns that are divided by 100. clip: clip rounding errors to [0, 1].
    skip_unresolved: leave out rows without an outcome. independent: count questions as independent, whatever columns of clusters there are.
    """

    columns: Columns = field(default_factory=Columns)
    by: tuple[str, ...] = ()
    percent: tuple[str, ...] = ()
    clip: bool = False
    skip_unresolved: bool = False
    independent: bool = False


def read_sheet(tables: Sequence[Table], reading: Reading, known: Table | None = None) -> Sheet:
    """The sheet of tables of forecasts. `known` holds the outcomes by question, and perhaps clusters, weights, prices and groups.

    Raises `ScoringError` that names the file, the line, the column, the value and the remedy.
    """
    if len(reading.columns.cluster) > _WAYS:
        raise ScoringError(f"scoring: {len(reading.columns.cluster)} columns of clusters are given; give one, or two for two-way clusters")
    if len({Path(table.source).resolve() for table in tables}) < len(tables):
        raise ScoringError(f"scoring: a file is given twice among {', '.join(_names(tables))}; give each once")
    parts = [_part(table, reading, known, name) for table, name in zip(tables, _called(tables), strict=True)]
    _check_roles(parts, reading)
    frame = pl.concat([part.rows.with_columns(file=pl.lit(index, pl.Int32)) for index, part in enumerate(parts)])
    frame, notes = _resolved(frame, parts, reading, known)
    columns = parts[0].columns
    if columns.question:
        check_duplicates(frame, parts)
        check_questions(frame, parts)
    notes += _percent_notes(parts, reading)
    if known is not None:
        notes += _unasked(known, reading, frame)
    if not frame["probability"].count():
        raise ScoringError(
            f"{tables[0].source}: no row of a resolved question holds a forecast; give probabilities in {listed(columns.probability)}"
        )
    if (missing := frame["probability"].null_count()) > 0:
        notes.append(f"{counted(missing, 'row')} without a forecast: coverage counts them.")
    if not columns.question and frame["forecaster"].n_unique() > 1 and len(columns.probability) == 1:
        notes.append("No column names the question, so that forecasters are not compared with each other; give --question COLUMN.")
    clusters = " x ".join(columns.cluster) or f"each {' and '.join(columns.question[:1]) or 'row'} independent of the others"
    frame, more = _with_market(frame)
    numbered = frame.with_columns(question_index=_numbers(frame["question"]), forecaster_index=_numbers(frame["forecaster"]))
    return Sheet(
        numbered.drop("file", "row"), tuple(Path(name).name for name in _names(tables)), columns, reading.by, clusters, (*notes, *more)
    )


def _names(tables: Sequence[Table]) -> list[str]:
    return [table.source for table in tables]


def _called(tables: Sequence[Table]) -> list[str | None]:
    """What the forecaster of each file is called: the file without its folder where that tells all apart. None for a frame."""
    paths = [Path(name) for name in _names(tables)]
    short = [path.name.split(".")[0] or path.name for path in paths]
    names = short if len({*short}) == len(short) else [str(path) for path in paths]
    return [name if path.suffix else None for name, path in zip(names, paths, strict=True)]


def _numbers(values: pl.Series) -> pl.Series:
    """Each value's number in the order of first appearance."""
    order = pl.DataFrame({"value": values.unique(maintain_order=True)}).with_row_index("number")
    return values.to_frame("value").join(order, on="value", how="left", maintain_order="left")["number"].cast(pl.Int64)


def _part(table: Table, reading: Reading, known: Table | None, called: str | None) -> Part:
    given = reading.columns
    if known is not None:
        table, given = _with_outcomes(table, known, reading)
    columns = _recognised(table, given, independent=reading.independent)
    for column in reading.by:
        require(table.source, table.frame.columns, column, "--by")
    market = None if columns.market is None else _probabilities(table, columns.market, reading)
    base = pl.DataFrame(
        {
            "row": pl.int_range(table.frame.height, eager=True, dtype=pl.Int64),
            "question": _questions(table, columns),
            "outcome": pl.Series(outcomes(table, str(columns.outcome)), nan_to_null=True),
            "market": pl.Series([None] * table.frame.height, dtype=pl.Float64) if market is None else market,
            "weight": pl.Series([1.0] * table.frame.height) if columns.weight is None else pl.Series(weights(table, columns.weight)),
            **{f"cluster_{index}": values for index, values in enumerate(_clusters(table, columns))},
            **{f"by_{index}": texts(table, column) for index, column in enumerate(reading.by)},
        }
    )
    rows = []
    for column, name in _forecasters(table, columns, called).items():
        rows.append(base.with_columns(forecaster=name, probability=_probabilities(table, column, reading)))
    return Part(table, columns, pl.concat(rows))


def _recognised(table: Table, given: Columns, *, independent: bool) -> Columns:
    present = table.frame.columns
    numeric = [column for column in present if is_numeric(table.frame[column])]
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


def _refuse_without_probability(table: Table, columns: Columns) -> NoReturn:
    """Raise `ScoringError` that says which column would do, or why the one with the name of a probability does not."""
    present = table.frame.columns
    none = f"{table.source}: no column is recognised as the probability among {listed(present)}"
    if any(map(is_number, present)):
        raise ScoringError(f"{none}; if these are values, add a line with the names of the columns before them")
    likely = [column for column in present if column not in {columns.market, columns.weight} and is_fraction(table.frame[column])]
    if likely:
        raise ScoringError(
            f"{none}; {listed(likely)} would do by the values: give {' '.join(option('probability', one) for one in likely)}"
        )
    named = recognise(table.source, present, present, Columns()).probability
    if named and columns.outcome not in named:
        probabilities(table, named[0], percent=False, clip=False)
    raise ScoringError(f"{none}; name it with --probability COLUMN")


def _questions(table: Table, columns: Columns) -> pl.Series:
    """The name of each row's question; without such a column each row is one."""
    if not columns.question:
        return pl.Series([f"{table.source}{_BETWEEN}{row}" for row in range(table.frame.height)])
    parts = [labels(table, column, "question", "fill it in, or leave the row out") for column in columns.question]
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


def _with_outcomes(table: Table, known: Table, reading: Reading) -> tuple[Table, Columns]:
    """The table with the columns that `known` has beside it, by question; and the columns that this settles."""
    given = reading.columns
    for column in known.faults:
        known.values(column)
    fill = "fill it in, or leave the row out"
    asked, answered = (_only_question(one, given) for one in (table, known))
    outcome = given.outcome or recognise(known.source, known.frame.columns, (), Columns()).outcome
    if outcome is None or outcome not in known.frame.columns:
        raise ScoringError(f"{known.source}: no column is recognised as the outcome; name it with --outcome COLUMN")
    outcomes(known, outcome)
    key = labels(known, answered, "question", fill)
    if key.is_duplicated().any():
        row = int(key.is_first_distinct().not_().arg_max() or 0)
        refuse(known, row, answered, f"{key[row]!r} has a row before; give every question one outcome")
    own = table.frame.drop(outcome, strict=False).with_columns(_key=labels(table, asked, "question", fill))
    beside = known.frame.select(column for column in known.frame.columns if column not in table.frame.columns or column == outcome)
    frame = own.join(beside.with_columns(_key=key), on="_key", how="left", maintain_order="left").drop("_key")
    return replace(table, frame=frame), replace(given, question=given.question or (asked,), outcome=outcome)


def _unasked(known: Table, reading: Reading, frame: pl.DataFrame) -> list[str]:
    """A note on the questions with an outcome on which there is no row."""
    column = _only_question(known, reading.columns)
    rest = len({*texts(known, column).drop_nulls()} - {*frame["question"]})
    return (
        [f"{counted(rest, 'question')} of {known.source} {'has' if rest == 1 else 'have'} no row: coverage does not count them."]
        if rest
        else []
    )


def _only_question(table: Table, given: Columns) -> str:
    columns = recognise(table.source, table.frame.columns, (), Columns(question=given.question)).question
    if len(columns) != 1:
        raise ScoringError(f"{table.source}: outcomes are found by one column that names the question; give --question COLUMN")
    return columns[0]


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


def _with_market(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The rows with those of the market as a forecaster, where it has one price per question."""
    prices = frame.filter(pl.col("market").is_not_null())
    if prices.is_empty():
        return frame, []
    if (frame["forecaster"] == MARKET).any():
        return frame, [f"The prices are not ranked as a forecaster: another one is called {MARKET}."]
    if prices.select("question", "market").unique().height > prices["question"].n_unique():
        return frame, ["The market is not ranked: forecasters on the same question were scored beside different prices of it."]
    market = prices.unique("question", keep="first", maintain_order=True)
    rows = market.with_columns(forecaster=pl.lit(MARKET), probability=pl.col("market"))
    return pl.concat([frame, rows.select(frame.columns)]), []
