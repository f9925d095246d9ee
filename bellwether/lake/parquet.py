"""Writing and reading of the lake's Parquet files: the same rows give the same bytes before the footer, in the order of the
table with unique keys, and columns are checked against the declaration.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from bellwether.errors import SchemaError
from bellwether.lake import partitions
from bellwether.lake.partitions import Partition
from bellwether.lake.storage import writing
from bellwether.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a row group: the unit in which DuckDB reads in parallel.
ROW_GROUP = 122_880
#: Bytes of rows buffered before a stream writes a row group.
BUFFER = 64 * 2**20
ZSTD_LEVEL = 3
#: Key of the facts in a file's footer.
_FACTS = "bellwether"
#: Bytes after the footer: its length, and the magic of the format.
_TAIL = 8
_CHUNK = 2**20
#: Texts are not copied: one that many rows share, such as that of a call, is stored once in memory.
_VIEWS = pl.CompatLevel.newest()
#: Minimum number of bytes read or written for which a release is worth its time.
LARGE = 2 * 2**20


@dataclass(frozen=True, slots=True)
class FileSummary:
    """Contents of a finished file: number of rows, the latest `known_at` among them, size, SHA-256 of the file, and digest of its rows and columns."""

    rows: int
    known_at: datetime | None
    bytes: int
    sha256: str
    digest: str


@lru_cache(maxsize=256)
def arrow_schema(table: Table, level: pl.CompatLevel | None = None) -> pa.Schema:
    """Return the Arrow schema of a table, with description and unit of each column as metadata.
    level: compatibility level of `polars.DataFrame.to_arrow`.
    """
    import pyarrow as pa

    plain = table.empty().to_arrow(compat_level=level).schema
    notes = [{"description": column.description, **({"unit": column.unit} if column.unit else {})} for column in table.columns]
    return pa.schema([field.with_metadata(note) for field, note in zip(plain, notes, strict=True)])


def write(
    table: Table, partition: Partition, data: pl.DataFrame | Iterable[pl.DataFrame], path: Path, facts: Mapping[str, Any]
) -> FileSummary:
    """Validate the rows of one partition and write them to a new file at `path`.

    A frame is stored in the table's order; the frames of an iterable are stored in the given order, with memory for about one
    row group and 8 bytes per row. facts: stored in the footer with the numbers of the summary.
    Raises `SchemaError` for rows that do not fit, `LakeError` if the file cannot be written.
    """
    if isinstance(data, pl.DataFrame):
        rows, known_at = _write_frame(table, partition, data, path, facts)
    elif isinstance(data, pl.LazyFrame) or not isinstance(data, Iterable):
        raise SchemaError(f"table {table.name}: cannot store {type(data).__name__}; give a polars.DataFrame or an iterable of them")
    else:
        rows, known_at = _write_stream(table, partition, data, path, facts)
    return FileSummary(rows, known_at, path.stat().st_size, *hash_file(table, path))


def hash_file(table: Table, path: Path) -> tuple[str, str]:
    """Return the SHA-256 of a file, and the digest of its rows and columns, which leaves out the footer."""
    whole, digest = hashlib.sha256(), hashlib.sha256(repr(table.schema).encode())
    with path.open("rb") as file:
        rest = file.seek(-_TAIL, os.SEEK_END)
        rest -= int.from_bytes(file.read(_TAIL)[:4], "little")
        file.seek(0)
        while chunk := file.read(_CHUNK):
            whole.update(chunk)
            digest.update(chunk[:rest])
            rest = max(0, rest - len(chunk))
    return whole.hexdigest(), digest.hexdigest()


def read_facts(path: Path) -> Mapping[str, Any] | None:
    """Return the facts in the footer of a file; None if it is not a complete file of the lake."""
    try:
        return orjson.loads(pl.read_parquet_metadata(path)[_FACTS])
    except (OSError, KeyError, ValueError, pl.exceptions.PolarsError):
        return None


def _dump_facts(facts: Mapping[str, Any], rows: int, known_at: datetime | None) -> dict[str, str]:
    return {_FACTS: orjson.dumps({**facts, "rows": rows, "known_at": known_at}).decode()}


def _write_frame(
    table: Table, partition: Partition, frame: pl.DataFrame, path: Path, facts: Mapping[str, Any]
) -> tuple[int, datetime | None]:
    frame = table.validate(frame, unique=False)
    partitions.require_partition(table, partition, frame)
    frame = sort_rows(table, frame, constant=table.partitioned_by).rechunk()
    known_at = _latest_known_at(frame)
    with writing(str(path)):
        frame.write_parquet(
            path,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            row_group_size=ROW_GROUP,
            arrow_schema=arrow_schema(table),
            metadata=_dump_facts(facts, frame.height, known_at),
        )
    return frame.height, known_at


def _write_stream(
    table: Table, partition: Partition, chunks: Iterable[pl.DataFrame], path: Path, facts: Mapping[str, Any]
) -> tuple[int, datetime | None]:
    """Write the chunks of a partition one after another, without holding all rows in memory."""
    rows, known_at = 0, None
    with _RowGroups(table, path) as groups:
        for chunk in chunks:
            if not isinstance(chunk, pl.DataFrame):
                raise SchemaError(f"table {table.name}: the stream contains {type(chunk).__name__}; give only polars.DataFrame")
            frame = table.validate(chunk, unique=False)
            partitions.require_partition(table, partition, frame)
            groups.append(frame)
            rows += frame.height
            known_at = max(filter(None, (known_at, _latest_known_at(frame))), default=None)
        groups.describe(_dump_facts(facts, rows, known_at))
    require_unique(table, scan([str(path)]))
    release_memory(groups.size)
    return rows, known_at


class _RowGroups:
    """Parquet writer that combines small frames into large row groups. size: bytes of all appended rows."""

    def __init__(self, table: Table, path: Path) -> None:
        self._schema = arrow_schema(table, _VIEWS)
        self._path = str(path)
        self._buffer: list[pa.Table] = []
        self._rows = self._bytes = self.size = 0

    def __enter__(self) -> _RowGroups:
        from pyarrow import parquet

        with writing(self._path):
            self._writer = parquet.ParquetWriter(
                self._path, self._schema, compression="zstd", compression_level=ZSTD_LEVEL, store_decimal_as_integer=True
            )
        return self

    def append(self, frame: pl.DataFrame) -> None:
        rows = frame.to_arrow(compat_level=_VIEWS).cast(self._schema)
        self._buffer.append(rows)
        self._rows += rows.num_rows
        # Arrow's own size counts a text shared by several frames once per frame.
        size = int(frame.estimated_size())
        self._bytes += size
        self.size += size
        if self._rows >= ROW_GROUP or self._bytes >= BUFFER:
            self._flush()

    def describe(self, metadata: Mapping[str, str]) -> None:
        """Add entries to the footer."""
        self._writer.add_key_value_metadata(metadata)

    def _flush(self) -> None:
        import pyarrow as pa

        rows = pa.concat_tables(self._buffer)
        self._buffer.clear()
        rows = rows.combine_chunks()
        with writing(self._path):
            self._writer.write_table(rows, row_group_size=ROW_GROUP)
        self._rows = self._bytes = 0

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        try:
            if self._buffer and failure is None:
                self._flush()
        finally:
            with writing(self._path):
                self._writer.close()


def _latest_known_at(frame: pl.DataFrame) -> datetime | None:
    latest = frame["known_at"].max() if "known_at" in frame.columns else None
    return latest if isinstance(latest, datetime) else None


def scan(files: Sequence[str], schema: pl.Schema | None = None) -> pl.LazyFrame:
    """Scan exactly these local files, without interpreting glob patterns or folder names."""
    return pl.scan_parquet(list(files), schema=schema, glob=False, hive_partitioning=False)


def release_memory(processed: int) -> None:
    """Return unused memory of Arrow and of the C heap to the system. processed: bytes handled by the caller; nothing happens below `LARGE`.

    Otherwise a process that handles one day after another grows. Takes milliseconds.
    """
    if processed >= LARGE:
        import pyarrow as pa

        pa.default_memory_pool().release_unused()
        trim = _malloc_trim()
        if trim is not None:
            trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's function `malloc_trim`, which releases unused heap; None with another C library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


# --- order of rows -------------------------------------------------------------------------------------------------------


def sort_rows(table: Table, frame: pl.DataFrame, *, constant: tuple[str, ...] = ()) -> pl.DataFrame:
    """Sort `frame` by the columns of `table.order`, then by the key, so that the same rows always have the same order.

    `frame` has exactly the table's columns; those named `constant` have a single value.
    Raises `SchemaError` if the key is not unique.
    """
    order = [name for name in dict.fromkeys((*table.order, *table.key)) if name not in constant]
    if not order:
        return table.validate(frame)
    frame = frame.sort(order, nulls_last=True)
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in order)
    # Neighbours that differ prove that sorted keys are unique, for a tenth of the time of counting them.
    if set(order) <= set(table.key) and frame.select(differs).to_series().slice(1).all():
        return frame
    return table.validate(frame)


def require_unique(table: Table, rows: pl.LazyFrame) -> None:
    """Raise `SchemaError` for a duplicate key in rows that may not fit into memory. Keeps only a 64-bit hash per row; equal hashes are compared."""
    key = pl.struct(table.key)
    hashes = rows.select(key.hash()).collect(engine="streaming").to_series()
    if hashes.n_unique() == hashes.len():
        return
    twice = rows.select(table.key).filter(key.is_duplicated()).head(1).collect()
    if twice.height:
        names = ", ".join(table.key)
        raise SchemaError(f"table {table.name}: the key {names} is not unique; first duplicate {twice.row(0, named=True)}")
