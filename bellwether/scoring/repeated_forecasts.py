"""Selection among repeated forecasts of a forecaster on a question: the last, the first or the mean."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NoReturn

import polars as pl

from bellwether.errors import ScoringError
from bellwether.formatting import counted
from bellwether.scoring.columns import STATED, find_named, format_names, format_option
from bellwether.scoring.forecast_sheet import TableRows
from bellwether.scoring.parsing import check_type, format_value, refuse
from bellwether.scoring.table import ForecastTable

_KEY = ("forecaster", "question")
_FORMATS = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M")
#: End of a time that states its zone.
_ZONE = r"(?i)[0-9](Z|\s?[+-][0-9]{2}:?[0-9]{2})$"
#: Unix times beyond these are milliseconds and microseconds.
_MILLISECONDS, _MICROSECONDS = 1e11, 1e14


class Keep(StrEnum):
    """Choice among repeated forecasts of a forecaster on a question."""

    LAST = "last"
    FIRST = "first"
    MEAN = "mean"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ScoringError(f"keep is {value!r}; give one of {', '.join(cls)}")


def check_times(tables: Sequence[ForecastTable], keep: Keep | None, at: str | None, before: str | None) -> None:
    """Raise `ScoringError` if the options `keep`, `at` (column of forecast times) and `before` (column of deadlines) contradict each other."""
    if at is not None and before is None and keep in (None, Keep.MEAN):
        raise ScoringError(
            f"scoring: {format_option('at', at)} orders repeated forecasts; give it with --keep last, --keep first or --before"
        )
    needs = f"--keep {keep}" if keep in (Keep.LAST, Keep.FIRST) else None if before is None else format_option("before", before)
    if at is None and needs is not None:
        likely = find_named(tables[0].frame.columns, STATED)
        name = format_option("at", likely[0]) if likely else "--at COLUMN"
        raise ScoringError(f"{tables[0].source}: {needs} needs the column with the time of each forecast; give {name}")


def parse_instants(table: ForecastTable, column: str) -> pl.Series:
    """Parse times as microseconds since 1970. Text is ISO 8601, in UTC if no time has a zone (`check_zones`); numbers are Unix times."""
    values = table.values(column)
    if values.dtype == pl.Date or isinstance(values.dtype, pl.Datetime):
        instants = values.cast(pl.Datetime("us")).to_physical()
    else:
        check_type(table, column, values)
        texts = values.cast(pl.String).str.strip_chars()
        number = texts.cast(pl.Float64, strict=False)
        scale = pl.when(number.abs() >= _MICROSECONDS).then(1).when(number.abs() >= _MILLISECONDS).then(1e3).otherwise(1e6)
        parsed = [texts.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False).dt.replace_time_zone(None)]
        parsed.append(
            texts.str.replace(" ", "T", literal=True)
            .str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
            .dt.replace_time_zone(None)
        )
        parsed += [texts.str.to_datetime(text, time_unit="us", strict=False) for text in _FORMATS]
        parsed.append(texts.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us")))
        instants = pl.select(
            pl.coalesce((number * scale).cast(pl.Int64, strict=False), *(parsed_.to_physical() for parsed_ in parsed))
        ).to_series()
    if instants.null_count():
        row = int(instants.is_null().arg_max() or 0)
        refuse(table, row, column, f"{format_value(table, column, row)} is no time; write 2026-03-01T12:00:00Z")
    return instants


def check_zones(tables: Sequence[ForecastTable], columns: Sequence[str | None]) -> None:
    """Raise `ScoringError` for a time without a zone if another time in these columns (None: not given) has one. Unix times have a zone."""
    zoned: tuple[ForecastTable, str, int] | None = None
    local: tuple[ForecastTable, str, int] | None = None
    for table in tables:
        for column in filter(None, columns):
            has_zone = _has_zone(table.values(column))
            zoned = zoned or _first_row(table, column, has_zone)
            local = local or _first_row(table, column, ~has_zone)
    if zoned and local:
        (table, column, row), (other, name, index) = local, zoned
        example = f"{format_value(other, name, index)} in {other.where(index, name)}"
        refuse(table, row, column, f"{format_value(table, column, row)} has no time zone, unlike {example}; add Z or an offset")


def _has_zone(values: pl.Series) -> pl.Series:
    """Return which values of a column of times state a zone."""
    if values.dtype == pl.Date or isinstance(values.dtype, pl.Datetime):
        return pl.repeat(getattr(values.dtype, "time_zone", None) is not None, len(values), eager=True)
    texts = values.cast(pl.String).str.strip_chars()
    return texts.str.contains(_ZONE) | texts.cast(pl.Float64, strict=False).is_not_null()


def _first_row(table: ForecastTable, column: str, chosen: pl.Series) -> tuple[ForecastTable, str, int] | None:
    return (table, column, int(chosen.arg_max() or 0)) if chosen.any() else None


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
    selected = _average(candidates, parts) if keep is Keep.MEAN else _select_end(candidates, parts, keep)
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
        part, earlier = parts[other["file"]], parts[first["file"]]
        place = f"{earlier.table.source}, {earlier.table.place(first['row'])}"
        same = f"{other['question']!r} has another forecast of {other['forecaster']!r} at the same time, in {place}"
        refuse(part.table, other["row"], part.columns.question[0], f"{same}; keep one row, or give --keep mean")
    return ends.unique(_KEY, keep="first", maintain_order=True)


def _average(candidates: pl.DataFrame, parts: Sequence[TableRows]) -> pl.DataFrame:
    """Average probabilities and market prices of each forecaster and question. Raises `ScoringError` if its rows are in several groups."""
    groups = [name for name in candidates.columns if name.startswith("by_")]
    for name in groups:
        differ = candidates.filter(pl.col(name).n_unique().over(_KEY) > 1)
        if differ.height:
            row = differ.row(0, named=True)
            part = parts[row["file"]]
            text = f"{row['question']!r} has repeated forecasts in several groups (--by); give --keep last or --keep first"
            refuse(part.table, row["row"], part.columns.question[0], text)
    means = {name: pl.col(name).sort().mean() for name in ("probability", "market")}
    rest = [pl.col(name).first() for name in candidates.columns if name not in {*_KEY, *means}]
    return candidates.group_by(_KEY, maintain_order=True).agg(*rest, **means).select(candidates.columns)
