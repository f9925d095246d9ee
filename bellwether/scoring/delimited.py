"""Reader of CSV files. Supports four delimiters, Excel's `sep=` line, line breaks in column names, and decimal commas."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

import polars as pl
import pyarrow as pa
from pyarrow import csv as arrow

from bellwether.errors import ScoringError
from bellwether.files import open_bytes
from bellwether.scoring.columns import format_brief, is_number
from bellwether.scoring.table import ForecastTable

_DELIMITERS = ",;\t|"


#: Excel's line before the column names.
_SEPARATOR = re.compile(r'"?sep=(?P<delimiter>.)(?P=delimiter)*"?', re.IGNORECASE)


#: Maximum number of lines of the column names.
_NAME_LINES = 100


#: A file is taken for UTF-16 if at least one in so many characters is NUL; in English text every second one is.
_UTF16 = 3


@dataclass(frozen=True, slots=True)
class _Header:
    """Header of a CSV file.

    names: column names. delimiter: character between cells. before: number of lines before the names. lines: number of lines before the first record.
    """

    names: list[str]
    delimiter: str
    before: int
    lines: int


def read_delimited(path: Path) -> ForecastTable:
    """Read a CSV file with all columns as text. Raises `ScoringError` with the line of the error."""
    header = _read_header(path)
    if not _has_records(path, header):
        raise ScoringError(f"{path}: it has no rows; give forecasts")
    try:
        with open_bytes(path) as file:
            table = arrow.read_csv(
                file,
                read_options=arrow.ReadOptions(column_names=header.names, skip_rows=header.lines),
                parse_options=arrow.ParseOptions(delimiter=header.delimiter, newlines_in_values=True),
                convert_options=arrow.ConvertOptions(
                    column_types=dict.fromkeys(header.names, pa.large_string()), strings_can_be_null=True, null_values=[""]
                ),
            )
    except pa.ArrowInvalid as error:
        _refuse_malformed(path, header)
        raise ScoringError(f"{path}: it cannot be read as CSV ({str(error).splitlines()[0]}); repair the file") from None
    frame = pl.DataFrame(pl.from_arrow(table))

    @cache
    def starts() -> array[int]:
        return array("q", (start for start, _ in _iterate_records(path, header, strict=False)))

    def place(row: int) -> str:
        return f"line {starts()[row + 1] if row + 1 < len(starts()) else row + 2}"

    return ForecastTable(str(path), frame, place, decimal_commas=header.delimiter != ",")


def _read_header(path: Path) -> _Header:
    """Read the column names and detect the delimiter: the one that Excel's `sep=` line states, or else the one that splits the line into
    the most names.
    """
    skipped, delimiter = 0, None
    try:
        with _open_text(path) as file:
            while (first := file.readline()).isspace():
                skipped += 1
            if chosen := _SEPARATOR.fullmatch(first.rstrip("\r\n")):
                skipped, delimiter, first = skipped + 1, chosen["delimiter"], file.readline()
            lines = [first]
            while "".join(lines).count('"') % 2:
                lines.append(file.readline())
                if not lines[-1] or len(lines) > _NAME_LINES:
                    raise ScoringError(f"{path}, line {skipped + 1}: a quote is not closed among the names of the columns; close it")
    except UnicodeDecodeError:
        raise _encoding_error(path) from None
    if _UTF16 * first.count("\0") > len(first):
        raise _encoding_error(path)
    if not first.strip():
        raise ScoringError(f"{path}: it is empty; give names of columns and rows of forecasts")
    if delimiter is None:
        delimiter = max(_DELIMITERS, key=lambda candidate: len(next(csv.reader(lines, delimiter=candidate), [])))
    names = [" ".join(name.split()) for name in next(csv.reader(lines, delimiter=delimiter))]
    _check_names(path, skipped + 1, names, first)
    return _Header(names, delimiter, skipped, skipped + len(lines))


def _check_names(path: Path, line: int, names: list[str], first: str) -> None:
    """Raise `ScoringError` if two columns have the same name, or if the line of names contains numbers, so that names are missing. first:
    the line's text.
    """
    twice = find_repeated_name(names)
    if all(is_number(name) for name in names) or (twice is not None and is_number(twice)):
        raise ScoringError(
            f"{path}, line {line}: it holds values where the names of the columns belong: {format_brief(first.strip())}; add a line of names"
        )
    if twice is not None:
        raise ScoringError(f"{path}, line {line}: two columns are called {twice!r}; rename one")


def _iterate_records(path: Path, header: _Header, *, strict: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the first line, cells) of each record, beginning with the column names. strict: raise `csv.Error` for text after a
    closing quote.
    """
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with _open_text(path) as file:
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
    """Return whether any record follows the column names."""
    try:
        return next(islice(_iterate_records(path, header, strict=False), 1, None), None) is not None
    except UnicodeDecodeError:
        raise _encoding_error(path) from None


def _refuse_malformed(path: Path, header: _Header) -> None:
    """Raise `ScoringError` with the first malformed line, if any."""
    line, width = header.before + 1, len(header.names)
    try:
        for line, cells in _iterate_records(path, header, strict=True):
            if len(cells) != width:
                splits = len(cells) - width
                commas = (
                    header.delimiter == ","
                    and splits > 0
                    and sum(left.strip() == "0" and right.strip().isdecimal() for left, right in pairwise(cells)) >= splits
                )
                advice = "write decimals with a point, or separate columns by semicolons" if commas else "correct the line"
                raise ScoringError(f"{path}, line {line}: it has {len(cells)} cells, and there are {width} columns; {advice}")
    except UnicodeDecodeError:
        raise _encoding_error(path) from None
    except csv.Error as error:
        raise ScoringError(f"{path}: after line {line} it is not CSV any more ({error}); close the quotes") from None


def _encoding_error(path: Path) -> ScoringError:
    return ScoringError(f"{path}: it is not UTF-8 text; save it as UTF-8 (in a spreadsheet: CSV UTF-8)")


def _open_text(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")


def find_repeated_name(names: Sequence[str]) -> str | None:
    """Return the first repeated name; None if all differ."""
    return next((name for name in names if names.count(name) > 1), None)
