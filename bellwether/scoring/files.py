"""Tables of forecasts from CSV, Parquet and JSON files or from frames, with the place of every row for messages."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import zlib
from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import polars as pl

from bellwether.errors import ScoringError
from bellwether.scoring.columns import NAMES, Role, brief, is_number, listed, named

_DELIMITERS = ",;\t|"
#: The line that Excel puts before the names.
_SEPARATOR = re.compile(r'"?sep=(?P<delimiter>.)(?P=delimiter)*"?', re.IGNORECASE)
#: A quoted name does not have more line breaks.
_NAME_LINES = 100
#: Of UTF-16 that is read as UTF-8, one character in two is NUL where the text is English; one in this many is taken for it.
_UTF16 = 3


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows as they were read.

    source: its name in messages. frame: the columns; those of text files are text. place: the name of a row in messages. faults: why a column cannot
    be used, with the row that shows it: values of several types, or objects. lists: the columns with lists, as JSON text, which can only be labels.
    decimal_commas: numbers may have decimal commas, because another character separates the columns.
    """

    source: str
    frame: pl.DataFrame
    place: Callable[[int], str]
    faults: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    lists: frozenset[str] = frozenset()
    decimal_commas: bool = False

    def where(self, row: int, column: str) -> str:
        """File, line and column of a value, for the beginning of a message."""
        return f"{self.source}, {self.place(row)}, column {column!r}"

    def values(self, column: str) -> pl.Series:
        """A column of one type. Raises `ScoringError` where it has a fault."""
        if column in self.faults:
            row, text = self.faults[column]
            raise ScoringError(f"{self.where(row, column)}: {text}")
        return self.frame[column]


def read_table(path: Path) -> Table:
    """Read a file by its name: .csv, .tsv, .parquet, .jsonl, .ndjson or .json (a list of objects, also below a key), the text files also with .gz.

    Raises `ScoringError` that names the file and the line.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = suffixes[-1:] == [".gz"]
    kind = (suffixes[:-1] if zipped else suffixes)[-1:]
    reader = _READERS.get(kind[0] if kind else "")
    if reader is None or (zipped and reader is _parquet):
        raise ScoringError(f"{path}: not a file of forecasts by its name; give .csv, .tsv, .parquet, .jsonl or .json")
    if path.is_dir():
        raise ScoringError(f"{path}: it is a folder; give the files in it")
    if not path.is_file():
        raise ScoringError(f"{path}: there is no such file; correct the path")
    try:
        table = reader(path)
    except (OSError, EOFError, zlib.error) as error:
        raise ScoringError(f"{path}: it cannot be read ({getattr(error, 'strerror', None) or error}); repair the file") from None
    return _some(table)


def frame_table(data: Any) -> Table:
    """A table of a Polars or pandas frame, a mapping of columns or a list of mappings."""
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    if isinstance(data, pl.DataFrame):
        return _some(Table("the frame", data, _row))
    if isinstance(data, Sequence) and not isinstance(data, str | bytes) and all(isinstance(row, Mapping) for row in data):
        return _some(_of_records("the rows", data, _row))
    if isinstance(data, Mapping):
        columns = {str(name): _values_of(str(name), values) for name, values in data.items()}
    elif hasattr(data, "columns") and hasattr(data, "iloc"):  # pandas
        names = [str(name) for name in data.columns]
        if (twice := _twice(names)) is not None:
            raise ScoringError(f"the frame: two columns are called {twice!r}; rename one")
        columns = {name: [None if _is_missing(value) else value for value in data.iloc[:, at].tolist()] for at, name in enumerate(names)}
    else:
        raise ScoringError(f"scoring: forecasts are given as {type(data).__name__}; give a path, a frame or a mapping of columns")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise ScoringError(
            f"scoring: the columns have different lengths: {', '.join(f'{name!r} {len(values)}' for name, values in columns.items())}"
        )
    return _some(_of_columns("the frame", columns, _row))


def _some(table: Table) -> Table:
    """The table with its categorical columns as text. Raises `ScoringError` where it has no rows."""
    if not table.frame.height:
        raise ScoringError(f"{table.source}: it has no rows; give forecasts")
    return replace(table, frame=table.frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)))


def _values_of(name: str, values: Any) -> list[Any]:
    """The values of a column that a mapping holds."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ScoringError(f"the frame, column {name!r}: it holds {values!r}; give one value per row")
    return list(values)


def _twice(names: Sequence[str]) -> str | None:
    """The first name that occurs again; None where all differ."""
    return next((name for name in names if names.count(name) > 1), None)


def _row(index: int) -> str:
    return f"row {index + 1}"


def _is_missing(value: object) -> bool:
    return value is None or type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and math.isnan(value))


def _parquet(path: Path) -> Table:
    try:
        return Table(str(path), pl.read_parquet(path, glob=False), _row)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ScoringError(f"{path}: it cannot be read as Parquet ({str(error).splitlines()[0]}); repair the file") from None


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


def _text(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(_open(path), encoding="utf-8-sig", newline="")


@dataclass(frozen=True, slots=True)
class _Header:
    """names: of the columns. delimiter: between cells. before: lines before the names. lines: all lines up to the first record."""

    names: list[str]
    delimiter: str
    before: int
    lines: int


def _csv(path: Path) -> Table:
    import pyarrow as pa
    from pyarrow import csv as arrow

    header = _header(path)
    if not _has_records(path, header):
        raise ScoringError(f"{path}: it has no rows; give forecasts")
    try:
        with _open(path) as file:
            table = arrow.read_csv(
                file,
                read_options=arrow.ReadOptions(column_names=header.names, skip_rows=header.lines),
                parse_options=arrow.ParseOptions(delimiter=header.delimiter, newlines_in_values=True),
                convert_options=arrow.ConvertOptions(
                    column_types=dict.fromkeys(header.names, pa.large_string()), strings_can_be_null=True, null_values=[""]
                ),
            )
    except pa.ArrowInvalid as error:
        _ragged(path, header)
        raise ScoringError(f"{path}: it cannot be read as CSV ({str(error).splitlines()[0]}); repair the file") from None
    frame = pl.DataFrame(pl.from_arrow(table))

    @cache
    def starts() -> array[int]:
        return array("q", (start for start, _ in _records(path, header, strict=False)))

    def place(row: int) -> str:
        return f"line {starts()[row + 1] if row + 1 < len(starts()) else row + 2}"

    return Table(str(path), frame, place, decimal_commas=header.delimiter != ",")


def _header(path: Path) -> _Header:
    """Read the names of the columns. The delimiter is that of Excel's `sep=` line, or the one that separates the most names."""
    before, delimiter = 0, None
    try:
        with _text(path) as file:
            while (first := file.readline()).isspace():
                before += 1
            if chosen := _SEPARATOR.fullmatch(first.rstrip("\r\n")):
                before, delimiter, first = before + 1, chosen["delimiter"], file.readline()
            lines = [first]
            while "".join(lines).count('"') % 2:
                lines.append(file.readline())
                if not lines[-1] or len(lines) > _NAME_LINES:
                    raise ScoringError(f"{path}, line {before + 1}: a quote is not closed among the names of the columns; close it")
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    if _UTF16 * first.count("\0") > len(first):
        raise _not_utf8(path)
    if not first.strip():
        raise ScoringError(f"{path}: it is empty; give names of columns and rows of forecasts")
    if delimiter is None:
        delimiter = max(_DELIMITERS, key=lambda one: len(next(csv.reader(lines, delimiter=one), [])))
    names = [" ".join(name.split()) for name in next(csv.reader(lines, delimiter=delimiter))]
    _check_names(path, before + 1, names, first)
    return _Header(names, delimiter, before, before + len(lines))


def _check_names(path: Path, line: int, names: list[str], first: str) -> None:
    """Raise `ScoringError` where two columns have the same name, or values take the place of names."""
    twice = _twice(names)
    if all(is_number(name) for name in names) or (twice is not None and is_number(twice)):
        raise ScoringError(
            f"{path}, line {line}: it holds values where the names of the columns belong: {brief(first.strip())}; add a line of names"
        )
    if twice is not None:
        raise ScoringError(f"{path}, line {line}: two columns are called {twice!r}; rename one")


def _records(path: Path, header: _Header, *, strict: bool) -> Iterator[tuple[int, list[str]]]:
    """First line and cells of every record, including the names of the columns and excluding blank lines. `strict` refuses text after a quote."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with _text(path) as file:
            for _ in range(header.before):
                file.readline()
            reader, start = csv.reader(file, delimiter=header.delimiter, strict=strict), 1
            for cells in reader:
                if cells:
                    yield header.before + start, cells
                start = reader.line_num + 1
    finally:
        csv.field_size_limit(limit)


def _has_records(path: Path, header: _Header) -> bool:
    """Whether anything follows the names of the columns."""
    try:
        return next(islice(_records(path, header, strict=False), 1, None), None) is not None
    except UnicodeDecodeError:
        raise _not_utf8(path) from None


def _ragged(path: Path, header: _Header) -> None:
    """Raise `ScoringError` that names the line where records break."""
    line, width = header.before + 1, len(header.names)
    try:
        for line, cells in _records(path, header, strict=True):
            if len(cells) != width:
                splits = len(cells) - width
                commas = header.delimiter == "," and splits > 0 and sum(map(_is_split, cells, cells[1:])) >= splits
                advice = "write decimals with a point, or separate columns by semicolons" if commas else "correct the line"
                raise ScoringError(f"{path}, line {line}: it has {len(cells)} cells, and there are {width} columns; {advice}")
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except csv.Error as error:
        raise ScoringError(f"{path}: after line {line} it is not CSV any more ({error}); close the quotes") from None


def _is_split(left: str, right: str) -> bool:
    """Whether two cells could be a decimal that its comma split."""
    return left.strip() == "0" and right.strip().isdecimal()


def _not_utf8(path: Path) -> ScoringError:
    return ScoringError(f"{path}: it is not UTF-8 text; save it as UTF-8 (in a spreadsheet: CSV UTF-8)")


def _lines(path: Path) -> Table:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = _parsed(line.removeprefix(BOM_UTF8))
            except ValueError as error:
                if not _is_utf8(line):
                    raise ScoringError(f"{path}, line {number}: it is not UTF-8 text; save the file as UTF-8") from None
                raise ScoringError(f"{path}, line {number}: it is not JSON ({error}); correct the line") from None
            if not isinstance(row, dict):
                raise ScoringError(f"{path}, line {number}: it holds {_kind(row)}; give one JSON object per line")
            rows.append(row)
            numbers.append(number)
    if len(rows) == 1 and (wrapped := _unwrapped(str(path), rows[0])) is not None:
        return _of_records(str(path), wrapped, lambda row: f"object {row + 1}")
    return _of_records(str(path), rows, lambda row: f"line {numbers[row]}")


def _json(path: Path) -> Table:
    with _open(path) as file:
        text = file.read().removeprefix(BOM_UTF8)
    if not _is_utf8(text):
        raise ScoringError(f"{path}: it is not UTF-8 text; save it as UTF-8")
    try:
        rows = _parsed(text)
    except ValueError as error:
        if text.lstrip()[:1] == b"{":
            return _lines(path)
        raise ScoringError(f"{path}: it is not JSON ({error}); repair the file") from None
    if isinstance(rows, dict):
        wrapped = _unwrapped(str(path), rows)
        rows = [rows] if wrapped is None else wrapped
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ScoringError(f"{path}: it holds no list of objects; give one object per forecast")
    return _of_records(str(path), rows, lambda row: f"object {row + 1}")


def _parsed(text: bytes) -> Any:
    """JSON, with the NaN and Infinity that Python writes. Raises `ValueError`."""
    import orjson

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


def _unwrapped(source: str, document: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The list of objects below a key, each with the values next to the list (such as the model); None for an object that is itself a row.

    Raises `ScoringError` where there are several lists.
    """
    if named([key for key, value in document.items() if not isinstance(value, list | dict)], NAMES[Role.PROBABILITY]):
        return None
    lists = {
        key: value for key, value in document.items() if isinstance(value, list) and value and all(isinstance(one, dict) for one in value)
    }
    if not lists:
        inner = ((key, _unwrapped(source, value)) for key, value in document.items() if isinstance(value, dict))
        lists = {key: rows for key, rows in inner if rows is not None}
    if len(lists) > 1:
        raise ScoringError(f"{source}: it holds several lists of objects ({listed(lists)}); give a file with one of them")
    if not lists:
        return None
    ((key, rows),) = lists.items()
    shared = {name: value for name, value in document.items() if name != key and not isinstance(value, list | dict)}
    return [{**shared, **row} for row in rows]


def _of_records(source: str, rows: Sequence[Mapping[str, Any]], place: Callable[[int], str]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return _of_columns(source, {name: [row.get(name) for row in rows] for name in names}, place)


def _of_columns(source: str, columns: Mapping[str, list[Any]], place: Callable[[int], str]) -> Table:
    series, faults, lists = {}, {}, set()
    for name, values in columns.items():
        firsts: dict[str, int] = {}
        for index, value in enumerate(values):
            if not _is_missing(value):
                firsts.setdefault(_kind(value), index)
        if (fault := _fault(values, firsts, place)) is None:
            series[name] = pl.Series(name, [None if _is_missing(value) else value for value in values], strict=False)
            continue
        faults[name] = fault
        if "a list" in firsts and "an object" not in firsts:
            lists.add(name)
        series[name] = pl.Series(name, [None if _is_missing(value) else _label(value) for value in values], dtype=pl.String)
    return Table(source, pl.DataFrame(series), place, faults, frozenset(lists))


def _label(value: object) -> str:
    """A value as text, a list as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | tuple) else str(value)


def _fault(values: Sequence[Any], firsts: Mapping[str, int], place: Callable[[int], str]) -> tuple[int, str] | None:
    """Why values cannot be a column, given the first row of each type."""
    for kind in ("an object", "a list"):
        if kind in firsts:
            return firsts[kind], f"it holds {kind}; write one value"
    if len(firsts) < _TWO:
        return None
    (kind, first), (other, second), *_ = sorted(firsts.items(), key=lambda one: one[1])
    return second, f"{values[second]!r} is {other}, but {place(first)} holds {values[first]!r}, {kind}; write the whole column as one type"


_TWO = 2


def _kind(value: object) -> str:
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    return "a number" if hasattr(value, "__float__") else f"a {type(value).__name__}"


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"),
    (bool, "a boolean"),
    (str, "text"),
    (Mapping, "an object"),
    ((list, tuple), "a list"),
    ((int, float), "a number"),
)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


_READERS: Mapping[str, Callable[[Path], Table]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".jsonl": _lines,
    ".ndjson": _lines,
    ".json": _json,
}
