"""Declarations of the schema `meta`, by which the warehouse describes itself: publication, partitions, tables, columns, and the history of publications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from bellwether.lake.duckdb_connection import sql_type
from bellwether.lake.inventory import Inventory
from bellwether.tables import Table
from bellwether.tables.history import HISTORY
from bellwether.tables.schema import TEXT, TIME, UTC, Column

_NAME = Column("table_name", TEXT, "schema.table, as SQL names it")
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
    key=("table_name", "partition"),
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
    key=("table_name",),
    mart=True,
)

COLUMNS = Table(
    name="meta/columns",
    row="One column of a table of this file.",
    columns=(
        _NAME,
        Column("ordinal", pl.Int32(), "position in the table, from 0"),
        Column("column_name", TEXT, "name"),
        Column("type", TEXT, "DuckDB type"),
        Column("unit", TEXT, "unit of the values", nullable=True),
        Column("nullable", pl.Boolean(), "whether the column may be null"),
        Column("description", TEXT, "meaning"),
    ),
    key=("table_name", "column_name"),
    sort=("table_name", "ordinal"),
    mart=True,
)


PUBLICATION = Table(
    name="meta/publication",
    row="How this file was made. One row.",
    columns=(
        Column("published_at", TIME, "when it was finished", UTC),
        Column("looked_at", TIME, "when the publisher began to look at the lake", UTC),
        Column(
            "complete_at",
            TIME,
            "when a publisher last looked at every partition; later publications looked at the tables that changed",
            UTC,
        ),
        Column("lake", TEXT, "folder or URL of the lake"),
        Column("place", TEXT, "absolute name under which this file was published"),
        Column("declarations", TEXT, "digest of the declared tables and of DuckDB's version"),
        Column("marks", _LIST, "per table its name and the mark of its folder, which changes with every write"),
        Column("world", TEXT, "world of the settings that it was published under: sandbox or live"),
    ),
    key=("published_at",),
    mart=True,
)

#: All tables of the schema.
ALL = (PARTITIONS, TABLES, COLUMNS, PUBLICATION, *HISTORY)


def table_rows(inventories: Sequence[Inventory]) -> pl.DataFrame:
    """Return the rows of meta.tables."""
    return TABLES.frame([_table_row(inventory) for inventory in inventories])


def partition_rows(inventories: Sequence[Inventory]) -> pl.DataFrame:
    """Return the rows of meta.partitions."""
    return PARTITIONS.frame([row for inventory in inventories for row in inventory.rows.values()])


def column_rows(tables: Iterable[Table]) -> pl.DataFrame:
    """Return the rows of meta.columns."""
    return COLUMNS.frame([_column_row(table, ordinal, column) for table in tables for ordinal, column in enumerate(table.columns)])


def _table_row(inventory: Inventory) -> Mapping[str, Any]:
    table, published = inventory.table, [row for row in inventory.rows.values() if row["published"]]
    return {
        "table_name": table.sql_name,
        "description": table.row,
        "stored_as": "table" if table.mart else "view",
        "key": list(table.key),
        "partitioned_by": list(table.partitioned_by),
        "version": table.version,
        "partitions": len(published),
        "rows": sum(row["rows"] for row in published),
        "known_at": max((row["known_at"] for row in published if row["known_at"]), default=None),
    }


def _column_row(table: Table, ordinal: int, column: Column) -> Mapping[str, Any]:
    return {
        "table_name": table.sql_name,
        "ordinal": ordinal,
        "column_name": column.name,
        "type": sql_type(column.dtype),
        "unit": column.unit,
        "nullable": column.nullable,
        "description": column.description,
    }
