"""Consistency checks of rows on the same question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from bellwether.scoring.columns import STATED, find_named, format_option
from bellwether.scoring.forecast_sheet import TableRows
from bellwether.scoring.parsing import refuse


def check_duplicates(frame: pl.DataFrame, parts: Sequence[TableRows]) -> None:
    """Raise `ScoringError` if a forecaster has two rows on one question. parts: the tables that the rows come from."""
    repeated = frame.filter(~pl.struct("forecaster", "question").is_first_distinct())
    if repeated.is_empty():
        return
    row = repeated.row(0, named=True)
    same = (pl.col("forecaster") == row["forecaster"]) & (pl.col("question") == row["question"])
    earlier = frame.filter(same).row(0, named=True)
    part, other = parts[row["file"]], parts[earlier["file"]]
    place = _describe_place(other, earlier["row"], part)
    text = f"{row['question']!r} has a forecast of {row['forecaster']!r} before, in {place}; {_advice(frame, part, other, row, earlier)}"
    refuse(part.table, row["row"], part.columns.question[0], text)


def _advice(frame: pl.DataFrame, part: TableRows, other: TableRows, row: Mapping[str, Any], earlier: Mapping[str, Any]) -> str:
    """Suggest options for a repeated forecast: keep one of the two, or add a column to the name of the question. row, earlier: the two
    rows; part, other: their tables.
    """
    times = [column for column in find_named(part.table.frame.columns, STATED) if column not in part.columns.question]
    at = f"--keep last {format_option('at', times[0])}" if times else "--keep last --at COLUMN (the time of the forecast)"
    advice = f"keep one row, or give {at}, or --keep mean"
    if part is not other:
        return advice
    own = frame.filter(pl.col("file") == row["file"])
    for name in _differing_columns(part, row["row"], earlier["row"]):
        if name not in times and _may_complete(own, part, name):
            names = " ".join(format_option("question", column) for column in (*part.columns.question, name))
            return f"{advice}; or give {names} if {name!r} is part of the question"
    return advice


def _differing_columns(part: TableRows, row: int, earlier: int) -> Iterator[str]:
    """Yield the columns in which two rows of a table differ, among those that have no role and contain no fractions. earlier: number of the
    other row.
    """
    used = {column for columns in part.columns.used().values() for column in columns}
    for name, dtype in part.table.frame.schema.items():
        values = part.table.frame[name]
        if name not in used and not dtype.is_float() and values[row] is not None and values[row] != values[earlier]:
            yield name


def _may_complete(frame: pl.DataFrame, part: TableRows, name: str) -> bool:
    """Return True if the column `name` can be part of the question's name: with it no forecast is repeated, and its values do not merely
    number the forecasts.
    """
    values = part.table.frame[name].cast(pl.String)
    rows = frame.with_columns(also=values.gather(frame["row"]))
    if rows.select("forecaster", "question", "also").is_duplicated().any():
        return False
    if rows["forecaster"].n_unique() == 1:
        return 2 * rows["also"].n_unique() <= rows.height
    shared = rows.group_by("question", "also").agg(pl.len())
    return 2 * int((shared["len"] > 1).sum()) >= shared.height


def check_questions(frame: pl.DataFrame, parts: Sequence[TableRows]) -> None:
    """Raise `ScoringError` if rows on one question differ in outcome, weight or clusters. parts: the tables that the rows come from."""
    names = ["outcome", "weight", *(name for name in frame.columns if name.startswith("cluster_"))]
    firsts = frame.unique("question", keep="first", maintain_order=True).select(
        "question", *(pl.col(name).alias(f"first_{name}") for name in (*names, "file", "row"))
    )
    if firsts.height == frame.height:
        return
    whole = frame.join(firsts, on="question", how="left", maintain_order="left")
    for name in names:
        differing = whole.filter(pl.col(name) != pl.col(f"first_{name}"))
        if differing.is_empty():
            continue
        row = differing.row(0, named=True)
        part, other = parts[row["file"]], parts[row["first_file"]]
        column = _column(part, name)
        refuse(
            part.table,
            row["row"],
            column,
            f"{_text(row[name])} on question {row['question']!r}, but {_describe_place(other, row['first_row'], part)} has {_text(row[f'first_{name}'])}; "
            "correct one, or check that the question is named in full (--question)",
        )


def _column(part: TableRows, name: str) -> str:
    """Return the name that the sheet's column `name` has in the table."""
    if name.startswith("cluster_"):
        return part.columns.cluster[int(name.removeprefix("cluster_"))]
    return str(part.columns.outcome if name == "outcome" else part.columns.weight)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _describe_place(part: TableRows, row: int, reference: TableRows) -> str:
    """Format the location of a row, with the file if it differs from that of `reference`."""
    place = part.table.place(row)
    return place if part is reference else f"{part.table.source}, {place}"
