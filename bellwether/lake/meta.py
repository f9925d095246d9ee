"""The warehouse's tables about itself: what was published, from which files, and what every column means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from bellwether.lake.duck import sql_type
from bellwether.lake.lake import Lake
from bellwether.lake.manifest import Manifest
from bellwether.lake.slices import Slice
from bellwether.tables import Table
from bellwether.tables.schema import TEXT, TIME, UTC, Column

_NAME = Column("table", TEXT, "group/name of the table")
_LIST = pl.List(pl.String())

PARTITIONS = Table(
    name="meta/partitions",
    row="One partition of the lake, as it was when this file was published.",
    columns=(
        _NAME,
        Column("partition", TEXT, "values of the partition, joined by slashes; empty when unpartitioned"),
        Column("rows", pl.Int64(), "rows of the partition", "rows"),
        Column("bytes", pl.Int64(), "size of the file", "bytes"),
        Column("file", TEXT, "absolute name of the Parquet file"),
        Column("sha256", TEXT, "of the file's bytes, in hex"),
        Column("version", TEXT, "version of the table's rules that made the rows"),
        Column(
            "published", pl.Boolean(), "false when the rows are left out: other rules than the table's made them, or the file is damaged"
        ),
        Column("damage", TEXT, "what is wrong with the file; null when nothing is", nullable=True),
        Column("run_id", TEXT, "the run that wrote it"),
        Column("written_at", TIME, "when it was written", UTC),
        Column("known_at", TIME, "latest known_at of its rows; null when it has none", UTC, nullable=True),
    ),
    key=("table", "partition"),
    mart=True,
)

TABLES = Table(
    name="meta/tables",
    row="One table of this file.",
    columns=(
        _NAME,
        Column("description", TEXT, "what one row is"),
        Column("stored_as", TEXT, "view over the lake's files, or table that holds the rows"),
        Column("key", _LIST, "columns that identify a row within a partition"),
        Column("partitioned_by", _LIST, "columns that hold the partition; empty when unpartitioned"),
        Column("version", TEXT, "version of the table's rules"),
        Column("partitions", pl.Int64(), "partitions published", "partitions"),
        Column("rows", pl.Int64(), "rows published", "rows"),
        Column("known_at", TIME, "latest known_at of its rows; null when it has none", UTC, nullable=True),
    ),
    key=("table",),
    mart=True,
)

COLUMNS = Table(
    name="meta/columns",
    row="One column of a table of this file.",
    columns=(
        _NAME,
        Column("ordinal", pl.Int32(), "position in the table, from 0"),
        Column("column", TEXT, "name"),
        Column("type", TEXT, "DuckDB type"),
        Column("unit", TEXT, "unit of the values", nullable=True),
        Column("nullable", pl.Boolean(), "whether the column may be null"),
        Column("description", TEXT, "meaning"),
    ),
    key=("table", "column"),
    sort=("table", "ordinal"),
    mart=True,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one publication saw of a table: the slice that is published, and the partitions left out for their version or, with the reason, for damage."""

    slice: Slice
    outdated: tuple[Manifest, ...]
    damaged: tuple[tuple[Manifest, str], ...] = ()

    @property
    def table(self) -> Table:
        """The table's declaration."""
        return self.slice.table


def rows(lake: Lake, seen: Sequence[Seen]) -> dict[Table, pl.DataFrame]:
    """The rows of the three tables."""
    partitions = [_partition(lake, *found) for one in seen for found in _manifests(one)]
    columns = [_column(one.table, ordinal, column) for one in seen for ordinal, column in enumerate(one.table.columns)]
    return {PARTITIONS: PARTITIONS.frame(partitions), TABLES: TABLES.frame([_table(one) for one in seen]), COLUMNS: COLUMNS.frame(columns)}


def _manifests(seen: Seen) -> list[tuple[Manifest, bool, str | None]]:
    """Every partition, whether it is published, and its damage."""
    found: list[tuple[Manifest, bool, str | None]] = [(manifest, True, None) for manifest in seen.slice.manifests]
    found += [(manifest, False, None) for manifest in seen.outdated]
    return found + [(manifest, False, damage) for manifest, damage in seen.damaged]


def _partition(lake: Lake, manifest: Manifest, published: bool, damage: str | None) -> Mapping[str, Any]:
    same = ("table", "rows", "bytes", "sha256", "version", "run_id", "written_at", "known_at")
    return {
        **{name: getattr(manifest, name) for name in same},
        "partition": "/".join(manifest.partition),
        "file": lake.storage.location(manifest.file),
        "published": published,
        "damage": damage,
    }


def _table(seen: Seen) -> Mapping[str, Any]:
    table, known = seen.table, [manifest.known_at for manifest in seen.slice.manifests if manifest.known_at]
    return {
        "table": table.name,
        "description": table.row,
        "stored_as": "table" if table.mart else "view",
        "key": list(table.key),
        "partitioned_by": list(table.partitioned_by),
        "version": table.version,
        "partitions": len(seen.slice.files),
        "rows": seen.slice.rows,
        "known_at": max(known, default=None),
    }


def _column(table: Table, ordinal: int, column: Column) -> Mapping[str, Any]:
    return {
        "table": table.name,
        "ordinal": ordinal,
        "column": column.name,
        "type": sql_type(column.dtype),
        "unit": column.unit,
        "nullable": column.nullable,
        "description": column.description,
    }
