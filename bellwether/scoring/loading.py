"""Loading of forecast tables into one sheet for scoring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from bellwether.calibration.clusters import Clusters
from bellwether.calibration.comparison import Panel
from bellwether.calibration.forecasts import Floats, Forecasts
from bellwether.errors import ScoringError
from bellwether.formatting import counted
from bellwether.scoring.columns import WIDE, ColumnRoles, Role, check_present, format_names, format_option, recognise_columns
from bellwether.scoring.outcome_join import join_outcomes, note_unused
from bellwether.scoring.repeated_forecasts import Keep, check_times, select_in_time, select_one
from bellwether.scoring.table import (
    ForecastTable,
    TableRows,
    parse_labels,
    parse_outcomes,
    parse_probabilities,
    parse_times,
    parse_weights,
    to_floats,
)

#: Name of the market as a forecaster.
MARKET = "market"

#: Separator between the parts of a question's name from several columns.
_BETWEEN = " / "

_WAYS = ("cluster_0", "cluster_1")

#: Prices are those of decided markets if at least so many of them, and this share, are so near the outcome.
_PRICES, _SHARE, _NEAR = 10, 0.9, 0.02


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for reading forecasts.

    columns: columns named by the user. by: columns of groups. on: columns to join outcomes on, `COLUMN` or `COLUMN=COLUMN OF THE OUTCOMES`.
    keep: choice among repeated forecasts. at: column of their times. before: column of times that forecasts must precede.
    percent: columns to divide by 100. fractional: accept outcomes between no and yes. skip_unresolved: leave out rows without an outcome.
    """

    columns: ColumnRoles = field(default_factory=ColumnRoles)
    by: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    keep: Keep | None = None
    at: str | None = None
    before: str | None = None
    percent: tuple[str, ...] = ()
    fractional: bool = False
    skip_unresolved: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """Forecasts with one row per forecaster and question.

    frame: forecaster, question, probability (null without a forecast), outcome, market (null without a price), weight; the
        clusters as cluster_0 and, two-way, cluster_1; the groups as by_0, by_1 and so on.
    forecasters: names, in the order of files and columns, the market last.
    sources: names of the tables. columns: column roles of the first table.
    by: columns of groups.
    clusters: description of the clusters.
    notes: remarks for readers of the scores.
    """

    frame: pl.DataFrame
    forecasters: tuple[str, ...]
    sources: tuple[str, ...]
    columns: ColumnRoles
    by: tuple[str, ...]
    clusters: str
    notes: tuple[str, ...]

    @property
    def is_paired(self) -> bool:
        """True if forecasts of different forecasters can be matched by question."""
        return bool(self.columns.question) or len(self.columns.probability) > 1

    def panel(self) -> Panel:
        """Build the panel of all forecasters' forecasts by question."""
        questions = self.frame.unique("question", keep="first").sort("question")
        p = np.full((questions.height, len(self.forecasters)), np.nan)
        for column, name in enumerate(self.forecasters):
            own = questions.select("question").join(self.frame.filter(forecaster=name), on="question", how="left", maintain_order="left")
            p[:, column] = to_floats(own["probability"])
        outcome = questions["outcome"].to_numpy()
        right = (p >= 0.5) == (outcome == 1)[:, None]
        return Panel(self.forecasters, p, right, outcome, _scale_weights(questions["weight"]), _group(questions))


def build_arrays(rows: pl.DataFrame) -> tuple[Forecasts, Clusters]:
    """Convert the rows that have a forecast to arrays and clusters, sorted by value so that the order of rows has no effect on simulated
    numbers.
    """
    ways = [name for name in _WAYS if name in rows.columns]
    present = rows.drop_nulls("probability").sort("probability", "outcome", "weight", "market", *ways, "question")
    market, weights = to_floats(present["market"]), _scale_weights(present["weight"])
    return Forecasts.of(present["probability"].to_numpy(), present["outcome"].to_numpy(), market=market, weights=weights), _group(present)


def _group(rows: pl.DataFrame) -> Clusters:
    return Clusters.of(rows.select(name for name in _WAYS if name in rows.columns), rows.height)


def _scale_weights(weights: pl.Series) -> Floats:
    """Divide weights by a power of two, so that the largest is about 1 and sums of squares cannot overflow."""
    values = to_floats(weights)
    return np.ldexp(values, -int(np.frexp(values.max(initial=1e-300))[1]) + 1)


def read_sheet(tables: Sequence[ForecastTable], reading: LoadOptions, outcomes: ForecastTable | None = None) -> Sheet:
    """Combine forecast tables into one sheet. outcomes: table with the outcome of each question, optionally with clusters, weights, prices
    and groups.

    Raises `ScoringError` with the file, line, column, value and remedy.
    """
    _check_options(tables, reading, outcomes)
    notes: list[str] = []
    roles = [reading.columns] * len(tables)
    if outcomes is not None:
        joined = [join_outcomes(table, outcomes, reading.columns, reading.on, skip_unresolved=reading.skip_unresolved) for table in tables]
        tables, roles = [table for table, _, _ in joined], [named for _, named, _ in joined]
        notes += note_unused(outcomes, frozenset().union(*(used for _, _, used in joined)))
    parts = [_load_table(table, named, reading, name) for table, named, name in zip(tables, roles, _name_tables(tables), strict=True)]
    _check_roles(parts, reading)
    frame = pl.concat([part.rows.with_columns(file=pl.lit(index, pl.Int32)) for index, part in enumerate(parts)])
    frame, added = _drop_unresolved(frame, parts, reading)
    notes += added
    columns = parts[0].columns
    if reading.before is not None:
        frame, added = select_in_time(frame, reading.before)
        notes += added
    if columns.question:
        _check_questions(frame, parts)
    if reading.keep is not None:
        frame, added = select_one(frame, parts, reading.keep, reading.at)
        notes += added
    elif columns.question:
        _check_duplicates(frame, parts)
    notes += _forecast_notes(frame, parts)
    _check_prices(frame, parts)
    clusters = " x ".join(columns.cluster) or f"each {' and '.join(columns.question[:1]) or 'row'} independent of the others"
    frame, added = _add_market(frame)
    notes += added
    names = (
        frame.select("file", "place", "forecaster").unique().sort("file", "place", "forecaster")["forecaster"].unique(maintain_order=True)
    )
    sources = tuple(Path(table.source).name for table in tables)
    sheet = frame.drop("file", "row", "place", "stated", "ends")
    return Sheet(sheet, tuple(names), sources, columns, reading.by, clusters, tuple(dict.fromkeys(notes)))


def _check_options(tables: Sequence[ForecastTable], reading: LoadOptions, outcomes: ForecastTable | None) -> None:
    """Raise `ScoringError` if options contradict each other or the files."""
    if len(reading.columns.cluster) > len(_WAYS):
        raise ScoringError(f"scoring: {len(reading.columns.cluster)} columns of clusters are given; give one, or two for two-way clusters")
    if len({Path(table.source).resolve() for table in tables}) < len(tables):
        raise ScoringError(f"scoring: a file is given twice among {', '.join(table.source for table in tables)}; give each once")
    if reading.on and outcomes is None:
        raise ScoringError(f"scoring: {format_option('on', reading.on[0])} joins a file of outcomes; give it with --outcomes FILE")
    check_times(reading.keep, reading.at, reading.before)


def _name_tables(tables: Sequence[ForecastTable]) -> list[str | None]:
    """Return the forecaster's name that each table implies: the file name without suffix, the whole path if such names repeat, None for a
    frame.
    """
    paths = [Path(table.source) for table in tables]
    short = [path.name.split(".")[0] or path.name for path in paths]
    names = short if len({*short}) == len(short) else [str(path) for path in paths]
    return [name if path.suffix else None for name, path in zip(names, paths, strict=True)]


def _load_table(table: ForecastTable, given: ColumnRoles, reading: LoadOptions, name_of_file: str | None) -> TableRows:
    """Load one table: its forecasts with one row per table row and probability column. given: roles named by the user."""
    present = table.frame.columns
    columns = recognise_columns(table.source, present, given)
    if columns.outcome is None:
        advice = "give --outcome COLUMN, or --outcomes FILE"
        raise ScoringError(f"{table.source}: no column is named as the outcome among {format_names(present)}; {advice}")
    if len(columns.probability) > 1 and columns.forecaster is not None:
        raise ScoringError(
            f"{table.source}: there are several columns of probabilities ({format_names(columns.probability)}) and a column of forecasters "
            f"({columns.forecaster!r}); give one --probability COLUMN"
        )
    options = (*((column, "--by") for column in reading.by), (reading.at, "--at"), (reading.before, "--before"))
    for column, option in options:
        if column is not None:
            check_present(table.source, present, column, option)
    height = table.frame.height
    ways = columns.cluster or columns.question[:1]
    unclustered = "give every row a cluster, one of its own where it shares none, or give --cluster with the column of questions"
    outcome = parse_outcomes(table, columns.outcome, fractional=reading.fractional)
    needed = outcome.is_not_null() if reading.skip_unresolved else None
    rows = pl.DataFrame(
        {
            "row": pl.int_range(height, eager=True, dtype=pl.Int64),
            "question": _questions(table, columns),
            "outcome": outcome,
            "market": _probabilities(table, columns.market, reading),
            "weight": pl.Series([1.0] * height) if columns.weight is None else parse_weights(table, columns.weight),
            "stated": _times(table, reading.at, needed),
            "ends": _times(table, reading.before, needed),
            **{f"cluster_{index}": parse_labels(table, column, "cluster", unclustered, needed=needed) for index, column in enumerate(ways)},
            **{f"by_{index}": table.frame[column] for index, column in enumerate(reading.by)},
        }
    )
    if not ways:
        rows = rows.with_columns(cluster_0="question")
    whole = []
    for index, (column, name) in enumerate(_forecasters(table, columns, name_of_file).items()):
        probability = _probabilities(table, column, reading)
        whole.append(rows.with_columns(forecaster=name, probability=probability, place=pl.lit(index, pl.Int32)))
    return TableRows(table, columns, pl.concat(whole))


def _questions(table: ForecastTable, columns: ColumnRoles) -> pl.Series:
    """Return the name of each row's question. Without a question column every row is a question of its own."""
    if not columns.question:
        return pl.Series([f"{table.source}{_BETWEEN}{row}" for row in range(table.frame.height)], dtype=pl.String)
    first, *others = columns.question
    parts = [
        parse_labels(table, first, "question", "fill it in, or leave the row out"),
        *(table.frame[name].fill_null("") for name in others),
    ]
    return pl.select(pl.concat_str(parts, separator=_BETWEEN)).to_series()


def _probabilities(table: ForecastTable, column: str | None, reading: LoadOptions) -> pl.Series:
    if column is None:
        return pl.repeat(None, table.frame.height, dtype=pl.Float64, eager=True)
    return parse_probabilities(table, column, percent=column in reading.percent)


def _times(table: ForecastTable, column: str | None, needed: pl.Series | None) -> pl.Series:
    if column is None:
        return pl.repeat(None, table.frame.height, dtype=pl.Datetime("us", "UTC"), eager=True)
    return parse_times(table, column, needed=needed)


def _forecasters(table: ForecastTable, columns: ColumnRoles, name_of_file: str | None) -> dict[str, pl.Expr | pl.Series]:
    """Return the forecaster's name of the rows, by probability column. name_of_file: used if there is one probability column and no
    forecaster column.
    """
    first, *others = columns.probability
    if columns.forecaster is not None:
        return {first: parse_labels(table, columns.forecaster, "forecaster", "fill it in, or leave the row out")}
    if others:
        return {column: pl.lit(column.removeprefix(WIDE)) for column in columns.probability}
    return {first: pl.lit(name_of_file or first)}


def _check_roles(parts: Sequence[TableRows], reading: LoadOptions) -> None:
    """Raise `ScoringError` if only some tables have a question or cluster column, or if --percent names a column that is no probability or
    price.
    """
    for role in (Role.QUESTION, Role.CLUSTER):
        lacking = [part for part in parts if role not in part.columns.used()]
        if lacking and len(lacking) < len(parts):
            raise ScoringError(f"{lacking[0].table.source}: no column is named as the {role}, unlike in other files; give --{role} COLUMN")
    numbers = {column for part in parts for column in (*part.columns.probability, part.columns.market)}
    for column in reading.percent:
        if column not in numbers:
            raise ScoringError(f"scoring: {format_option('percent', column)} names no column of probabilities or prices; correct it")


def _drop_unresolved(frame: pl.DataFrame, parts: Sequence[TableRows], reading: LoadOptions) -> tuple[pl.DataFrame, list[str]]:
    """Drop the rows without an outcome; return the others, and a note on the number dropped. Raises `ScoringError` if dropping is not
    allowed, or if no rows remain.
    """
    unresolved = frame.filter(pl.col("outcome").is_null())
    if unresolved.is_empty():
        return frame, []
    if not reading.skip_unresolved:
        row = unresolved.row(0, named=True)
        part = parts[row["file"]]
        part.table.refuse(row["row"], str(part.columns.outcome), "is not resolved; give --skip-unresolved to leave such rows out")
    rest = frame.filter(pl.col("outcome").is_not_null())
    if rest.is_empty():
        raise ScoringError(f"scoring: none of the {frame.height} rows has an outcome; give forecasts on questions that are resolved")
    questions = unresolved["question"].n_unique()
    return rest, [f"{counted(unresolved.height, 'row')} on {counted(questions, 'question')} left out: not resolved."]


def _check_duplicates(frame: pl.DataFrame, parts: Sequence[TableRows]) -> None:
    """Raise `ScoringError` if a forecaster has two rows on one question."""
    repeated = frame.filter(~pl.struct("forecaster", "question").is_first_distinct())
    if repeated.height:
        row = repeated.row(0, named=True)
        earlier = frame.filter(forecaster=row["forecaster"], question=row["question"]).row(0, named=True)
        place = _describe_place(parts, earlier["file"], earlier["row"])
        advice = "keep one, give --keep last --at COLUMN or --keep mean, or name the question in full with several --question"
        part = parts[row["file"]]
        part.table.refuse(row["row"], part.columns.question[0], f"has a forecast of {row['forecaster']!r} before, in {place}; {advice}")


def _check_questions(frame: pl.DataFrame, parts: Sequence[TableRows]) -> None:
    """Raise `ScoringError` if rows on one question differ in outcome, weight or clusters."""
    for name in ("outcome", "weight", *(way for way in _WAYS if way in frame.columns)):
        firsts = frame.unique("question", keep="first", maintain_order=True)
        firsts = firsts.select(
            "question", pl.col(name).alias("first"), pl.col("file").alias("first_file"), pl.col("row").alias("first_row")
        )
        differing = frame.join(firsts, on="question", how="left", maintain_order="left").filter(pl.col(name) != pl.col("first"))
        if differing.height:
            row = differing.row(0, named=True)
            part = parts[row["file"]]
            own = {"outcome": part.columns.outcome, "weight": part.columns.weight}
            column = own[name] if name in own else (part.columns.cluster or part.columns.question)[int(name.removeprefix("cluster_"))]
            other = _describe_place(parts, row["first_file"], row["first_row"])
            text = (
                f"on question {row['question']!r} differs from {other}; correct one, or name the question in full with several --question"
            )
            part.table.refuse(row["row"], str(column), text)


def _describe_place(parts: Sequence[TableRows], file: int, row: int) -> str:
    return f"{parts[file].table.source}, {parts[file].table.place(row)}"


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


def _check_prices(frame: pl.DataFrame, parts: Sequence[TableRows]) -> None:
    """Raise `ScoringError` if nearly all market prices are close to the outcomes: prices of decided markets are no baseline."""
    priced = frame.filter(pl.col("market").is_not_null()).unique(["question", "market"], keep="first", maintain_order=True)
    near = (priced["market"] - priced["outcome"]).abs() <= _NEAR + 1e-9
    if priced.height >= _PRICES and near.sum() >= _SHARE * priced.height:
        row = priced.filter(near).row(0, named=True)
        part, finding = parts[row["file"]], f"and {near.sum()} of {priced.height} prices are within {_NEAR:g} of the outcome"
        advice = "these are final prices, known after the fact; leave the column out, or give prices from the time of the forecasts"
        part.table.refuse(row["row"], str(part.columns.market), f"{finding}: {advice}")


def _add_market(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Add the market's prices as a forecaster; return the rows, and notes. Adds only a note if a question has two prices, or if a
    forecaster already has this name.
    """
    prices = frame.filter(pl.col("market").is_not_null())
    if prices.is_empty():
        return frame, []
    if (frame["forecaster"] == MARKET).any():
        return frame, [f"The prices are not ranked as a forecaster: another one is called {MARKET}."]
    if prices.select("question", "market").unique().height > prices["question"].n_unique():
        return frame, ["The market is not ranked: forecasters on the same question were scored with different prices of it."]
    last = pl.lit(frame["file"].max(), pl.Int32) + 1
    market = prices.unique("question", keep="first", maintain_order=True)
    rows = market.with_columns(forecaster=pl.lit(MARKET), probability=pl.col("market"), file=last, place=pl.lit(-1, pl.Int32))
    return pl.concat([frame, rows.select(frame.columns)]), []
