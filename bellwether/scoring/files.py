"""Readers of forecast tables from CSV, Parquet and JSON files, and from frames."""

from __future__ import annotations

import csv
import io
import json
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import csv as arrow

from bellwether.errors import ScoringError
from bellwether.files import open_bytes
from bellwether.scoring.columns import format_names
from bellwether.scoring.table import ForecastTable


def read_table(path: Path) -> ForecastTable:
    """Read a .csv, .tsv, .parquet, .jsonl, .ndjson or .json file. Text files are UTF-8 and may end in .gz.

    Raises `ScoringError` with the file and the line.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = suffixes[-1:] == [".gz"]
    kind = (suffixes[:-1] if zipped else suffixes)[-1:]
    reader = _READERS.get(kind[0] if kind else "")
    if reader is None or (zipped and reader is _read_parquet):
        raise ScoringError(f"{path}: not a file of forecasts by its name; give .csv, .tsv, .parquet, .jsonl or .json")
    if not path.is_file():
        raise ScoringError(f"{path}: there is no such file; correct the path")
    try:
        return _require_rows(reader(path))
    except UnicodeDecodeError:
        raise ScoringError(f"{path}: it is not UTF-8 text; save it as UTF-8 (in a spreadsheet: CSV UTF-8)") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ScoringError(f"{path}: it cannot be read ({getattr(error, 'strerror', None) or error}); repair the file") from None


def build_table(data: Any) -> ForecastTable:
    """Build a table from a Polars or pandas frame, a mapping of columns or a list of mappings."""
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    if isinstance(data, pl.DataFrame):
        return _require_rows(ForecastTable("the frame", data.select(_to_text(column) for column in data), _format_row))
    if isinstance(data, Sequence) and not isinstance(data, str | bytes) and all(isinstance(row, Mapping) for row in data):
        return _require_rows(ForecastTable("the rows", _build_frame(data), _format_row))
    if hasattr(data, "columns") and hasattr(data, "iloc"):  # pandas
        data = {str(name): data.iloc[:, index].tolist() for index, name in enumerate(data.columns)}
    if not isinstance(data, Mapping):
        raise ScoringError(f"scoring: forecasts are given as {type(data).__name__}; give a path, a frame or a mapping of columns")
    columns = {str(name): _list_values(str(name), values) for name, values in data.items()}
    if len({len(values) for values in columns.values()}) > 1:
        lengths = ", ".join(f"{name!r} {len(values)}" for name, values in columns.items())
        raise ScoringError(f"scoring: the columns have different lengths: {lengths}")
    return _require_rows(ForecastTable("the frame", pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)), _format_row))


def _require_rows(table: ForecastTable) -> ForecastTable:
    if not table.frame.height:
        raise ScoringError(f"{table.source}: it has no rows; give forecasts")
    return table


def _format_row(index: int) -> str:
    return f"row {index + 1}"


def _list_values(name: str, values: Any) -> list[str | None]:
    """Convert the values of the column `name` to text. Raises `ScoringError` if they are not iterable."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ScoringError(f"the frame, column {name!r}: it holds {values!r}; give one value per row")
    return [_format_value(value) for value in values]


def _build_frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Build a frame of text from mappings, with a column for every key."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame({name: [_format_value(row.get(name)) for row in rows] for name in names}, schema=dict.fromkeys(names, pl.String))


def _format_value(value: object) -> str | None:
    """Format a Python value as text: None for a missing value, lists and objects as JSON."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return None
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip() or None


def _to_text(values: pl.Series) -> pl.Series:
    """Convert a Polars column to text; times with a zone are in UTC, and whole numbers have no decimals."""
    if isinstance(values.dtype, pl.Datetime):
        zoned = values.dtype.time_zone is not None
        return (values.dt.convert_time_zone("UTC") if zoned else values).dt.strftime(f"%Y-%m-%dT%H:%M:%S%.6f{'Z' if zoned else ''}")
    if values.dtype.is_float():
        values = values.fill_nan(None)
        whole = values.drop_nulls()
        values = values.cast(pl.Int64) if ((whole.abs() < _EXACT) & (whole == whole.round())).all() else values
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Duration, pl.Object):
        return pl.Series(values.name, [_format_value(value) for value in values.to_list()], dtype=pl.String)
    texts = values.cast(pl.String).str.strip_chars()
    return texts.set(texts == "", None)


#: Whole numbers below it are exact in a 64-bit float.
_EXACT = 2**53


def _read_delimited(path: Path) -> ForecastTable:
    """Read a CSV file. A .tsv file is separated by tabs, another one by semicolons if its first line has any, else by commas."""
    with _open_text(path) as file:
        first = file.readline()
    delimiter = "\t" if ".tsv" in path.name.lower() else ";" if ";" in first else ","
    header = next(_iterate_records(path, delimiter), None)
    if header is None:
        raise ScoringError(f"{path}: it is empty; give names of columns and rows of forecasts")
    line, after, cells = header
    names = [" ".join(name.split()) for name in cells]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise ScoringError(f"{path}, line {line}: two columns are called {twice!r}; rename one")
    try:
        with open_bytes(path) as data:
            read = arrow.ReadOptions(column_names=names, skip_rows=after)
            parse = arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True)
            convert = arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=True, null_values=[""])
            frame = pl.DataFrame(pl.from_arrow(arrow.read_csv(data, read, parse, convert)))
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            raise ScoringError(f"{path}: it has no rows; give forecasts") from None
        for line, _, cells in _iterate_records(path, delimiter):
            if len(cells) != len(names):
                text = f"it has {len(cells)} cells, and there are {len(names)} columns; correct the line, or its quotes"
                raise ScoringError(f"{path}, line {line}: {text}") from None
        raise ScoringError(f"{path}: it cannot be read as CSV ({str(error).splitlines()[0]}); repair the file") from None

    @cache
    def lines() -> array[int]:
        return array("q", (number for number, _, _ in _iterate_records(path, delimiter)))

    return ForecastTable(str(path), frame.select(_to_text(column) for column in frame), lambda row: f"line {lines()[row + 1]}")


def _open_text(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")


def _iterate_records(path: Path, delimiter: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield (first line, last line, cells) of each record, beginning with the names of the columns."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with _open_text(path) as file:
            reader, start = csv.reader(file, delimiter=delimiter), 1
            for cells in reader:
                if cells:
                    yield start, reader.line_num, cells
                start = reader.line_num + 1
    finally:
        csv.field_size_limit(limit)


def _read_parquet(path: Path) -> ForecastTable:
    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ScoringError(f"{path}: it cannot be read as Parquet ({str(error).splitlines()[0]}); repair the file") from None
    return ForecastTable(str(path), frame.select(_to_text(column) for column in frame), _format_row)


def _read_json_lines(path: Path) -> ForecastTable:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    with _open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = parse_json(line)
            except ValueError as error:
                raise ScoringError(f"{path}, line {number}: it is not JSON ({error}); correct the line") from None
            if not isinstance(row, dict):
                raise ScoringError(f"{path}, line {number}: it is no object; give one JSON object per line")
            rows.append(row)
            numbers.append(number)
    return ForecastTable(str(path), _build_frame(rows), lambda row: f"line {numbers[row]}")


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises `ValueError`, also for an object in which a name occurs twice, and for values that are nested too deeply."""
    try:
        return json.loads(text, object_pairs_hook=_build_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _build_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(members)
    if len(built) < len(members):
        names = [name for name, _ in members]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)[:80]!r} occurs twice in an object")
    return built


def _read_json(path: Path) -> ForecastTable:
    """Read a list of objects, or an object that contains one list of objects; its other values, such as the model, are those of every row."""
    with _open_text(path) as file:
        try:
            rows = parse_json(file.read())
        except ValueError as error:
            if isinstance(error, UnicodeDecodeError):
                raise
            raise ScoringError(f"{path}: it is not JSON ({error}); repair the file") from None
    if isinstance(rows, dict):
        lists = {key: value for key, value in rows.items() if isinstance(value, list)}
        if len(lists) != 1:
            raise ScoringError(f"{path}: it holds {len(lists)} lists ({format_names(lists)}); give a list of objects")
        ((key, inner),) = lists.items()
        shared = {name: value for name, value in rows.items() if name != key}
        rows = [shared | row if isinstance(row, dict) else row for row in inner]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ScoringError(f"{path}: it holds no list of objects; give one object per forecast")
    return ForecastTable(str(path), _build_frame(rows), lambda row: f"object {row + 1}")


_READERS: Mapping[str, Callable[[Path], ForecastTable]] = {
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".parquet": _read_parquet,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json,
}
