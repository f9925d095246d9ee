"""Columns of an episode's files as numpy arrays, with checks of types and nulls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from bellwether.errors import SchemaError
from bellwether.replay.arrow import first_null, values_of
from bellwether.replay.episode.metadata import format_iso, parse_nanoseconds
from bellwether.replay.episode.report import RowError

#: Code of a null where nulls are allowed.
NO_CODE = -1


class FileColumns:
    """Columns of a table, read from a file or a part of it. file: name for errors. first: number of the table's first row in the file."""

    def __init__(self, table: pa.Table | pa.RecordBatch, file: str, first: int = 0) -> None:
        self.table, self.file, self.first = table, file, first

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __contains__(self, name: str) -> bool:
        return name in self.table.schema.names

    @property
    def clock(self) -> str:
        """Name of the column of times: `ts`, or that of PredictionMarketBench's first version."""
        return "timestamp" if "timestamp" in self and "ts" not in self else "ts"

    def value_error(self, row: int, name: str, value: object, wanted: str) -> RowError:
        """Build the error for an invalid value in column `name`. wanted: description of the valid values."""
        return RowError(self.file, self.first + int(row), f"{name} is {value!r:.80}; it must be {wanted}")

    def array(self, name: str, *, nulls: bool = False) -> pa.Array:
        """Return a column as one Arrow array. Raises `SchemaError` if it is missing, or has a null that is not allowed."""
        if name not in self:
            raise SchemaError(f"reading {self.file}: column {name} is missing; it has {', '.join(self.table.schema.names)}")
        if self.table.schema.names.count(name) > 1:
            raise SchemaError(f"reading {self.file}: column {name} appears twice; name each column once")
        column = self.table.column(name)
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
        if not nulls and array.null_count:
            raise self.value_error(first_null(array), name, None, "given")
        return array

    def type_error(self, name: str, wanted: str) -> SchemaError:
        """Build the error for a column with an invalid type. wanted: description of the valid type."""
        return SchemaError(f"reading {self.file}: column {name} has the type {self.table.schema.field(name).type}; it must be {wanted}")

    def integers(self, name: str, *, absent: int | None = None) -> np.ndarray:
        """Read a column as int64. absent: value for nulls; if None, a null is an error."""
        array = self.array(name, nulls=absent is not None)
        if not pa.types.is_integer(array.type) or array.type == pa.uint64():
            raise self.type_error(name, "an integer of at most 64 bits")
        if array.null_count:
            array = array.fill_null(absent)
        return values_of(array).astype(np.int64, copy=False)

    def times(self, name: str) -> np.ndarray:
        """Read a column as int64, ns UTC, from timestamps with zone or ISO 8601 text."""
        array = self.array(name)
        if pa.types.is_timestamp(array.type):
            if array.type.tz is None:
                raise self.type_error(name, "a timestamp with the zone UTC")
            try:
                array = array.cast(pa.timestamp("ns", "UTC"))
            except pa.ArrowInvalid as error:
                raise SchemaError(f"reading {self.file}: column {name} contains a time outside the range of ns: {error}") from None
            return values_of(array.view(pa.int64()))
        if _is_text(array.type):
            return self._times_of_text(name, array)
        raise self.type_error(name, "timestamp[ns, UTC]")

    def _times_of_text(self, name: str, array: pa.Array) -> np.ndarray:
        try:
            return values_of(array.cast(pa.timestamp("ns", "UTC")).view(pa.int64()))
        except pa.ArrowInvalid:
            times = [parse_nanoseconds(text) for text in array.to_pylist()]
        if None in times:
            row = times.index(None)
            raise self.value_error(row, name, array[row].as_py(), "an ISO 8601 time with its zone")
        return np.array(times, np.int64)

    def codes(self, name: str, choices: Sequence[str], *, nulls: bool = False) -> np.ndarray:
        """Read a column of texts as their positions in `choices`, int32. Null is `NO_CODE` if `nulls`, otherwise an error."""
        array = self.array(name, nulls=nulls)
        if not (_is_text(array.type) or (pa.types.is_dictionary(array.type) and _is_text(array.type.value_type))):
            raise self.type_error(name, "text")
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        code = {text: position for position, text in enumerate(choices)}
        codes = np.array([code.get(text, NO_CODE - 1) for text in array.dictionary.to_pylist()] + [NO_CODE], np.int32)
        indices = array.indices.fill_null(len(codes) - 1) if array.null_count else array.indices
        values = codes[values_of(indices)]
        if (row := first_true(values < NO_CODE)) >= 0:
            more = f" and {len(choices) - 8} more" if len(choices) > 8 else ""
            raise self.value_error(row, name, array[row].as_py(), f"one of {', '.join(choices[:8])}{more}")
        return values

    def strings(self, name: str) -> pa.Array:
        """Read a column of texts or integers as Arrow strings."""
        array = self.array(name)
        if not (_is_text(array.type) or pa.types.is_integer(array.type) or pa.types.is_dictionary(array.type)):
            raise self.type_error(name, "text")
        return array.cast(pa.string())

    def floats(self, name: str) -> np.ndarray:
        """Read a column of finite numbers as float64."""
        array = self.array(name)
        if not (pa.types.is_floating(array.type) or pa.types.is_integer(array.type)):
            raise self.type_error(name, "double")
        values = values_of(array).astype(np.float64, copy=False)
        if (row := first_true(~np.isfinite(values))) >= 0:
            raise self.value_error(row, name, float(values[row]), "a finite number")
        return values

    def require(self, name: str, valid: np.ndarray, values: np.ndarray, wanted: str) -> None:
        """Raise `SchemaError` for the first row where `valid` is false. values: the column. wanted: description of the valid values."""
        if (row := first_true(~valid)) >= 0:
            value = self.table.column(name)[row].as_py() if name in self else values[row].item()
            raise self.value_error(row, name, value, wanted)

    def require_order(self, name: str, values: np.ndarray) -> None:
        """Raise `SchemaError` if the times in `values` decrease. name: their column."""
        if (row := first_true(values[1:] < values[:-1]) + 1) > 0:
            wanted = f"at or after that of row {self.first + row - 1}: sort the rows by time"
            raise self.value_error(row, name, format_iso(int(values[row])), wanted)


def first_true(mask: np.ndarray) -> int:
    """Return the index of the first true value, -1 without one."""
    row = int(np.argmax(mask)) if len(mask) else 0
    return row if len(mask) and mask[row] else -1


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def open_parquet(path: Path, *, dictionaries: Sequence[str] = ()) -> Any:
    """Open a Parquet file for reading; text columns in `dictionaries` become dictionary-encoded. Raises `SchemaError` for other files."""
    with raising_unreadable(path, "Parquet"):
        schema = pq.read_schema(path)
        encoded = [name for name in dictionaries if name in schema.names and _is_text(schema.field(name).type)]
        return pq.ParquetFile(path, read_dictionary=encoded)


def read_parquet(path: Path, *, dictionaries: Sequence[str] = ()) -> pa.Table:
    """Read a Parquet file. Raises `SchemaError` if it is unreadable."""
    file = open_parquet(path, dictionaries=dictionaries)
    with raising_unreadable(path, "Parquet"):
        return file.read(use_threads=False)


@contextmanager
def raising_unreadable(path: Path, kind: str) -> Iterator[None]:
    """Turn errors that reading a file raises in the block into a `SchemaError` that names the file. kind: of the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise SchemaError(f"reading {path.name}: not a readable {kind} file ({str(error).splitlines()[0]}); restore it") from None


def read_csv(path: Path) -> pa.Table:
    """Read a CSV file, plain or .gz: columns of text by name, other types inferred. Raises `SchemaError` if it is unreadable."""
    text = ("ts", "timestamp", "ticker", "yes_bids", "no_bids", "trade_id", "side", "taker_side", "kind")
    types = dict.fromkeys(text, pa.string())
    with raising_unreadable(path, "CSV"):
        return csv.read_csv(
            path,
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""]),
        )
