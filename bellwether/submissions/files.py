"""Reader of submitted forecast files with forecaster, market, probability and time."""

from __future__ import annotations

import codecs
import re
from array import array
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path

import polars as pl

from bellwether.errors import ScoringError
from bellwether.files import atomic_file
from bellwether.scoring.columns import STATED, ColumnRoles, format_names, is_number, recognise_columns
from bellwether.scoring.files import read_table
from bellwether.scoring.parsing import replace_commas
from bellwether.scoring.table import ForecastTable
from bellwether.tables.exports import neutralise_formulas

#: Names of the market column that are preferred to others, which may be titles.
MARKETS = ("question_id", "market_id", "market")
#: Recognised names of the venue column; those of other columns are in `bellwether.scoring.columns.NAMES`.
VENUES = ("venue", "exchange", "source", "platform")
#: Bytes that a plain file does not contain: other delimiters, quotes, byte order marks.
_ODD = (b'"', b"\r", b"\n\n", b";", b"\t", b"|", b"\0", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NAME = re.compile(r"\w+", re.ASCII)
#: Recognised names of the column of arena weeks.
WEEKS = ("arena_week", "week")


def read_forecasts(path: Path) -> ForecastTable:
    """Read a file of forecasts. The result has the columns row, market, probability, stated_at and, if present in the file, venue, week and
    forecaster.

    Formats: CSV, TSV, Parquet and JSON lines, as in `bellwether score`. Raises `ScoringError` if the file cannot be read or lacks a column.
    """
    table = _QUICK.get(path.suffix.lower(), read_table)(path)
    present = table.frame.columns
    columns = recognise_columns(table.source, present, [name for name in present if name.lower() not in STATED], ColumnRoles())
    market = _find_column(present, MARKETS) or next(iter(columns.question), None)
    if not columns.probability or market is None:
        lacking, name = ("a probability", "probability") if not columns.probability else ("a market", "market_id")
        raise ScoringError(f"{path}: no column for {lacking} found among {format_names(present)}; name it {name}")
    if len(columns.probability) > 1:
        raise ScoringError(f"{path}: {format_names(columns.probability)} are all probabilities; keep one of them, named probability")
    chosen = {
        "market": market,
        "probability": columns.probability[0],
        "stated_at": _find_column(present, STATED),
        "venue": _find_column(present, VENUES),
        "week": _find_column(present, WEEKS),
        "forecaster": columns.forecaster,
    }
    if chosen["stated_at"] is None:
        raise ScoringError(f"{path}: no column for the time of the forecasts found; add stated_at with values such as 2026-03-01T12:00:00Z")
    for column in table.faults:
        if column in chosen.values():
            table.values(column)
    rows = table.frame.select(pl.col(column).alias(name) for name, column in chosen.items() if column is not None)
    if rows["probability"].dtype == pl.String:
        rows = rows.with_columns(replace_commas(table, rows["probability"].str.strip_chars()).alias("probability"))
    return ForecastTable(table.source, rows.with_row_index("row"), table.place)


def assign_week(rows: pl.DataFrame, week: date) -> pl.DataFrame:
    """Set the arena week of the rows that do not name one."""
    named = pl.col("week").cast(pl.String).replace("", None) if "week" in rows.columns else pl.lit(None, pl.String)
    return rows.with_columns(week=named.fill_null(week.isoformat()))


def write_refused(path: Path, table: ForecastTable, refused: pl.DataFrame) -> None:
    """Write the refused rows as CSV, with their line in the file (row number for Parquet) and the reason."""
    places = [table.place(row).split() for row in refused["row"]]
    named = places[0][0] if places else "line"
    rows = refused.join(table.frame, on="row", how="left", maintain_order="left").drop("row")
    numbers = pl.Series(named, [int(number) for _, number in places], dtype=pl.Int64)
    with atomic_file(path) as draft:
        neutralise_formulas(rows.insert_column(0, numbers)).write_csv(draft)


def _find_column(present: list[str], names: tuple[str, ...]) -> str | None:
    normal = {column.strip().lower().replace(" ", "_").replace("-", "_"): column for column in reversed(present)}
    return next((normal[name] for name in names if name in normal), None)


def _read_plain_csv(path: Path) -> ForecastTable:
    """Read a simple CSV quickly with Polars, all columns as text; any other CSV with the slower `read_table`."""
    try:
        body = path.read_bytes()
        if any(odd in body for odd in _ODD) or body[:1] == b"\n":
            return read_table(path)
        frame = pl.read_csv(body, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError, ValueError):
        return read_table(path)
    names, lines = frame.columns, body.count(b"\n") + (not body.endswith(b"\n"))
    plain = body[: body.find(b"\n")].decode(errors="replace") == ",".join(names) and all(
        _NAME.fullmatch(name) and not is_number(name) for name in names
    )
    if not plain or frame.is_empty() or frame.width < 2 or lines != frame.height + 1 or frame[names[-1]].null_count():
        return read_table(path)
    return ForecastTable(str(path), frame, lambda row: f"line {row + 2}")


def _read_json_lines(path: Path) -> ForecastTable:
    """Read JSON lines quickly with Polars; if that fails, with `read_table`, which also locates faults."""
    try:
        frame = pl.read_ndjson(path)
    except (pl.exceptions.PolarsError, OSError, ValueError):
        return read_table(path)
    if frame.is_empty() or any(isinstance(dtype, pl.List | pl.Struct) for dtype in frame.dtypes):
        return read_table(path)
    return ForecastTable(str(path), frame, _locate_rows(path))


def _locate_rows(path: Path) -> Callable[[int], str]:
    """Return a function that converts row numbers to lines of the file, which may have blank lines."""

    @cache
    def numbers() -> array[int]:
        with path.open("rb") as file:
            return array("q", (number for number, line in enumerate(file, 1) if line.strip()))

    return lambda row: f"line {numbers()[row]}"


_QUICK = {".csv": _read_plain_csv, ".jsonl": _read_json_lines, ".ndjson": _read_json_lines}
