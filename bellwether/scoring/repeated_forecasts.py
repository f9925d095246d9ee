"""Selection among repeated forecasts of a forecaster on a question: the last, the first or the mean."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NoReturn

import polars as pl

from bellwether.errors import ScoringError
from bellwether.formatting import counted
from bellwether.scoring.columns import format_names, format_option
from bellwether.scoring.table import TableRows

_KEY = ("forecaster", "question")


class Keep(StrEnum):
    """Choice among repeated forecasts of a forecaster on a question."""

    LAST = "last"
    FIRST = "first"
    MEAN = "mean"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ScoringError(f"keep is {value!r}; give one of {', '.join(cls)}")


def check_times(keep: Keep | None, at: str | None, before: str | None) -> None:
    """Raise `ScoringError` if the options `keep`, `at` (column of forecast times) and `before` (column of deadlines) contradict each other."""
    needs = f"--keep {keep}" if keep in (Keep.LAST, Keep.FIRST) else None if before is None else format_option("before", before)
    if at is None and needs is not None:
        raise ScoringError(f"scoring: {needs} needs the column with the time of each forecast; give --at COLUMN")
    if at is not None and needs is None:
        raise ScoringError(
            f"scoring: {format_option('at', at)} orders repeated forecasts; give it with --keep last, --keep first or --before"
        )


def select_in_time(frame: pl.DataFrame, before: str) -> tuple[pl.DataFrame, list[str]]:
    """Return the rows whose forecast was stated before the row's deadline (column `ends`), and a note on the rows left out. before: the
    deadline's column, for messages.
    """
    early = frame.filter(pl.col("stated") < pl.col("ends"))
    if early.is_empty():
        raise ScoringError(f"scoring: none of the {frame.height} forecasts precedes the time in {before!r}; correct --at or --before")
    late = frame.height - early.height
    return early, [f"{counted(late, 'forecast')} left out: not before the time in {before!r}."] if late else []


def select_one(frame: pl.DataFrame, parts: Sequence[TableRows], keep: Keep, at: str | None) -> tuple[pl.DataFrame, list[str]]:
    """Select one row per forecaster and question; return these rows, and a note on the rows left out. at: column of forecast times. Rows
    without a forecast are only kept if no other row exists.
    """
    if not parts[0].columns.question:
        raise ScoringError(f"{parts[0].table.source}: --keep needs the column that names the question; give --question COLUMN")
    candidates = frame.filter(pl.col("probability").is_not_null() | pl.col("probability").is_null().all().over(_KEY))
    selected = _average(candidates) if keep is Keep.MEAN else _select_end(candidates, parts, keep)
    repeated = frame.height - selected.height
    if not repeated:
        return selected, []
    choice = "the mean" if keep is Keep.MEAN else f"the {keep} by {format_names([str(at)])}"
    return selected, [f"{counted(repeated, 'repeated forecast')} left out: {choice} of each forecaster and question counts."]


def _select_end(candidates: pl.DataFrame, parts: Sequence[TableRows], keep: Keep) -> pl.DataFrame:
    """Select the first or last row of each forecaster and question, by time. Raises `ScoringError` for different forecasts at that time."""
    end = pl.col("stated").max() if keep is Keep.LAST else pl.col("stated").min()
    ends = candidates.filter(pl.col("stated") == end.over(_KEY))
    tied = ends.filter(pl.struct("probability", "market").n_unique().over(_KEY) > 1)
    if tied.height:
        first, other = tied.filter(pl.struct(_KEY) == pl.struct(_KEY).first()).rows(named=True)[:2]
        part, earlier = parts[other["file"]], parts[first["file"]].table
        text = f"has another forecast of {other['forecaster']!r} at the same time, in {earlier.source}, {earlier.place(first['row'])}"
        part.table.refuse(other["row"], part.columns.question[0], f"{text}; keep one, or give --keep mean")
    return ends.unique(_KEY, keep="first", maintain_order=True)


def _average(candidates: pl.DataFrame) -> pl.DataFrame:
    """Average probabilities and market prices of each forecaster and question; its group is that of its first row."""
    means = {name: pl.col(name).sort().mean() for name in ("probability", "market")}
    rest = [pl.col(name).first() for name in candidates.columns if name not in {*_KEY, *means}]
    return candidates.group_by(_KEY, maintain_order=True).agg(*rest, **means).select(candidates.columns)
