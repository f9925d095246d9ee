"""Parquet files of the lake: written so that the same rows are the same bytes, checked against their declaration when read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from bellwether.errors import LakeError, SchemaError
from bellwether.lake import partitions
from bellwether.lake.memory import give_back
from bellwether.lake.partitions import Partition
from bellwether.lake.repair import remedy
from bellwether.lake.row_order import Keys, arrange
from bellwether.lake.storage import writing
from bellwether.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a row group: the unit in which DuckDB reads in parallel.
ROW_GROUP = 122_880
#: Bytes of rows that a stream holds before it writes them as a row group.
BUFFER = 64 * 2**20
ZSTD_LEVEL = 3
#: Texts of a stream stay where they are: one that many rows share, as that of a call, is held once.
_VIEWS = pl.CompatLevel.newest()


@dataclass(frozen=True, slots=True)
class Written:
    """What a finished file holds: its rows and the latest `known_at` among them."""

    rows: int
    known_at: datetime | None


@lru_cache(maxsize=256)
def arrow_schema(table: Table, level: pl.CompatLevel | None = None) -> pa.Schema:
    """Arrow schema of a table; every field carries its column's description and unit as metadata. level: as of `polars.DataFrame.to_arrow`."""
    import pyarrow as pa

    plain = table.empty().to_arrow(compat_level=level).schema
    notes = [{"description": column.description, **({"unit": column.unit} if column.unit else {})} for column in table.columns]
    return pa.schema([field.with_metadata(note) for field, note in zip(plain, notes, strict=True)])


def write(table: Table, partition: Partition, data: pl.DataFrame | Iterable[pl.DataFrame], path: Path) -> Written:
    """Validate the rows of one partition and write them to a new file at `path`.

    A frame is stored in the table's order; the frames of an iterable are stored as they come, with memory for about one
    row group and 8 bytes per row. Raises `SchemaError` for rows that do not fit, `LakeError` when the file cannot be written.
    """
    if isinstance(data, pl.DataFrame):
        return _write_frame(table, partition, data, path)
    if isinstance(data, pl.LazyFrame) or not isinstance(data, Iterable):
        raise SchemaError(f"table {table.name}: cannot store {type(data).__name__}; give a polars.DataFrame or an iterable of them")
    return _write_stream(table, partition, data, path)


def _write_frame(table: Table, partition: Partition, frame: pl.DataFrame, path: Path) -> Written:
    frame = table.validate(frame, unique=False)
    partitions.require(table, partition, frame)
    frame = arrange(table, frame, constant=table.partitioned_by).rechunk()
    with writing(str(path)):
        frame.write_parquet(
            path, compression="zstd", compression_level=ZSTD_LEVEL, row_group_size=ROW_GROUP, arrow_schema=arrow_schema(table)
        )
    return Written(frame.height, _latest(frame))


def _write_stream(table: Table, partition: Partition, chunks: Iterable[pl.DataFrame], path: Path) -> Written:
    keys = Keys(table)
    rows, known_at = 0, None
    with _RowGroups(table, path) as groups:
        for chunk in chunks:
            if not isinstance(chunk, pl.DataFrame):
                raise SchemaError(f"table {table.name}: the stream holds {type(chunk).__name__}; give polars.DataFrame only")
            frame = table.validate(chunk, unique=False)
            partitions.require(table, partition, frame)
            keys.add(frame)
            groups.append(frame)
            rows += frame.height
            known_at = max(filter(None, (known_at, _latest(frame))), default=None)
    keys.require_unique(scan([str(path)]))
    give_back(groups.size)
    return Written(rows, known_at)


class _RowGroups:
    """A new file that grows by frames, which are gathered into row groups of useful size. size: bytes of their rows."""

    def __init__(self, table: Table, path: Path) -> None:
        self._schema = arrow_schema(table, _VIEWS)
        self._path = str(path)
        self._held: list[pa.Table] = []
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
        self._held.append(rows)
        self._rows += rows.num_rows
        # Not what Arrow tells: it counts a text that many frames share for each of them.
        size = int(frame.estimated_size())
        self._bytes += size
        self.size += size
        if self._rows >= ROW_GROUP or self._bytes >= BUFFER:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        held = pa.concat_tables(self._held)
        self._held.clear()
        held = held.combine_chunks()
        with writing(self._path):
            self._writer.write_table(held, row_group_size=ROW_GROUP)
        self._rows = self._bytes = 0

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        try:
            if self._held and failure is None:
                self._flush()
        finally:
            with writing(self._path):
                self._writer.close()


def _latest(frame: pl.DataFrame) -> datetime | None:
    latest = frame["known_at"].max() if "known_at" in frame.columns else None
    return latest if isinstance(latest, datetime) else None


def scan(files: Sequence[str], schema: pl.Schema | None = None) -> pl.LazyFrame:
    """Rows of exactly these local files: no pattern and no folder name is ever interpreted."""
    return pl.scan_parquet(list(files), schema=schema, glob=False, hive_partitioning=False)


def check(table: Table, partition: Partition, path: str, location: str) -> None:
    """Raise `LakeError` when the file at `path`, whose place in the lake is `location`, is missing, damaged, or has other columns than declared."""
    try:
        schema = scan([path]).collect_schema()
    except FileNotFoundError:
        damage = "there is no such file although a manifest names it"
    except (OSError, pl.exceptions.PolarsError) as error:
        damage = f"it is not a whole Parquet file ({error})"
    else:
        if schema == table.schema:
            return
        damage = f"it does not have the declared columns: {_difference(table.schema, schema)}"
    raise LakeError(f"reading {location}: {damage}; {remedy(table, partition)}")


def _difference(declared: pl.Schema, found: pl.Schema) -> str:
    for name, dtype in declared.items():
        if name not in found:
            return f"{name} is missing, declared {dtype}"
        if found[name] != dtype:
            return f"{name} is {found[name]}, declared {dtype}"
    extra = [name for name in found if name not in declared]
    return f"{extra[0]} is not declared" if extra else "they stand in another order"
