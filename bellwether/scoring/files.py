"""Readers of forecast tables from CSV, Parquet and JSON files, and from frames."""

from __future__ import annotations

import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from bellwether.errors import ScoringError
from bellwether.files import open_bytes
from bellwether.scoring.columns import NAMES, Role, find_named, format_names
from bellwether.scoring.delimited import find_repeated_name, read_delimited
from bellwether.scoring.table import ForecastTable, build_from_columns, build_from_records, format_place, is_missing, name_type


def read_table(path: Path) -> ForecastTable:
    """Read a .csv, .tsv, .parquet, .jsonl, .ndjson or .json file. Text files may end in .gz; in JSON the list of rows may be nested under a
    key.

    Raises `ScoringError` with the file and the line.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = suffixes[-1:] == [".gz"]
    kind = (suffixes[:-1] if zipped else suffixes)[-1:]
    reader = _READERS.get(kind[0] if kind else "")
    if reader is None or (zipped and reader is _read_parquet):
        raise ScoringError(f"{path}: not a file of forecasts by its name; give .csv, .tsv, .parquet, .jsonl or .json")
    if path.is_dir():
        raise ScoringError(f"{path}: it is a folder; give the files in it")
    if not path.is_file():
        raise ScoringError(f"{path}: there is no such file; correct the path")
    try:
        table = reader(path)
    except (OSError, EOFError, zlib.error) as error:
        raise ScoringError(f"{path}: it cannot be read ({getattr(error, 'strerror', None) or error}); repair the file") from None
    return _require_rows(table)


def build_table(data: Any) -> ForecastTable:
    """Build a table from a Polars or pandas frame, a mapping of columns or a list of mappings."""
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    if isinstance(data, pl.DataFrame):
        return _require_rows(ForecastTable("the frame", data, format_place))
    if isinstance(data, Sequence) and not isinstance(data, str | bytes) and all(isinstance(row, Mapping) for row in data):
        return _require_rows(build_from_records("the rows", data, format_place))
    if isinstance(data, Mapping):
        columns = {str(name): _list_values(str(name), values) for name, values in data.items()}
    elif hasattr(data, "columns") and hasattr(data, "iloc"):  # pandas
        names = [str(name) for name in data.columns]
        if (twice := find_repeated_name(names)) is not None:
            raise ScoringError(f"the frame: two columns are called {twice!r}; rename one")
        columns = {name: [None if is_missing(value) else value for value in data.iloc[:, at].tolist()] for at, name in enumerate(names)}
    else:
        raise ScoringError(f"scoring: forecasts are given as {type(data).__name__}; give a path, a frame or a mapping of columns")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise ScoringError(
            f"scoring: the columns have different lengths: {', '.join(f'{name!r} {len(values)}' for name, values in columns.items())}"
        )
    return _require_rows(build_from_columns("the frame", columns, format_place))


def _require_rows(table: ForecastTable) -> ForecastTable:
    """Refuse an empty table with `ScoringError`; return any other with its categorical columns as text."""
    if not table.frame.height:
        raise ScoringError(f"{table.source}: it has no rows; give forecasts")
    return replace(table, frame=table.frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)))


def _list_values(name: str, values: Any) -> list[Any]:
    """Convert the values of the column `name` to a list. Raises `ScoringError` if they are not iterable."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ScoringError(f"the frame, column {name!r}: it holds {values!r}; give one value per row")
    return list(values)


def _read_parquet(path: Path) -> ForecastTable:
    try:
        return ForecastTable(str(path), pl.read_parquet(path, glob=False), format_place)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ScoringError(f"{path}: it cannot be read as Parquet ({str(error).splitlines()[0]}); repair the file") from None


def _read_json_lines(path: Path) -> ForecastTable:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    with open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = _parse_json(line.removeprefix(BOM_UTF8))
            except ValueError as error:
                if not _is_utf8(line):
                    raise ScoringError(f"{path}, line {number}: it is not UTF-8 text; save the file as UTF-8") from None
                raise ScoringError(f"{path}, line {number}: it is not JSON ({error}); correct the line") from None
            if not isinstance(row, dict):
                raise ScoringError(f"{path}, line {number}: it holds {name_type(row)}; give one JSON object per line")
            rows.append(row)
            numbers.append(number)
    return _build_from_documents(str(path), rows, lambda row: f"line {numbers[row]}")


def _read_json(path: Path) -> ForecastTable:
    with open_bytes(path) as file:
        text = file.read().removeprefix(BOM_UTF8)
    if not _is_utf8(text):
        raise ScoringError(f"{path}: it is not UTF-8 text; save it as UTF-8")
    try:
        rows = _parse_json(text)
    except ValueError as error:
        if text.lstrip()[:1] == b"{":
            return _read_json_lines(path)
        raise ScoringError(f"{path}: it is not JSON ({error}); repair the file") from None
    rows = [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ScoringError(f"{path}: it holds no list of objects; give one object per forecast")
    return _build_from_documents(str(path), rows, lambda row: f"object {row + 1}")


def _parse_json(text: bytes) -> Any:
    """Parse JSON that may contain Python's NaN and Infinity. Raises `ValueError`."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if b"NaN" not in text and b"Infinity" not in text:
            raise
        try:
            return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < _DIGITS else float(digits))
        except (ValueError, RecursionError):
            raise error from None


#: Numbers with fewer digits fit into 64 bits.
_DIGITS = 19


def _build_from_documents(source: str, documents: Sequence[Mapping[str, Any]], place: Callable[[int], str]) -> ForecastTable:
    """Build a table from JSON objects: one row per object, or, if every object contains a list of objects, one row per object in the lists.
    place: formats the location of an object.
    """
    wrapped = [_unwrap_records(source, document) for document in documents]
    lists = [rows for rows in wrapped if rows is not None]
    if not lists or len(lists) < len(wrapped):
        return build_from_records(source, documents, place)
    if len(lists) == 1:
        return build_from_records(source, lists[0], lambda row: f"object {row + 1}")
    places = [f"{place(index)}, object {row + 1}" for index, rows in enumerate(lists) for row in range(len(rows))]
    return build_from_records(source, [row for rows in lists for row in rows], places.__getitem__)


def _unwrap_records(source: str, document: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows in an object that contains a list of objects; each row also gets the values next to the list (such as the model).
    None if the object itself is a row.

    Raises `ScoringError` if there are several lists.
    """
    if find_named([key for key, value in document.items() if not isinstance(value, list | dict)], NAMES[Role.PROBABILITY]):
        return None
    lists = {key: value for key, value in document.items() if isinstance(value, list) and all(isinstance(item, dict) for item in value)}
    if not lists:
        inner = ((key, _unwrap_records(source, value)) for key, value in document.items() if isinstance(value, dict))
        lists = {key: rows for key, rows in inner if rows is not None}
    lists = {key: rows for key, rows in lists.items() if rows} or lists
    if len(lists) > 1:
        raise ScoringError(f"{source}: it holds several lists of objects ({format_names(lists)}); give a file with one of them")
    if not lists:
        return None
    ((key, rows),) = lists.items()
    shared = {name: value for name, value in document.items() if name != key and not isinstance(value, list | dict)}
    return [{**shared, **row} for row in rows]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


_READERS: Mapping[str, Callable[[Path], ForecastTable]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".parquet": _read_parquet,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json,
}
