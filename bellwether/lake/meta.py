"""Descriptions of all tables: the schema `meta`, by which the warehouse describes itself, and the data dictionary of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
import polars as pl

from bellwether.formatting import escape_cell, markdown_table
from bellwether.lake.catalog import Manifest
from bellwether.lake.duckdb_connection import sql_type
from bellwether.tables import TABLES as DECLARED
from bellwether.tables import Column, Table
from bellwether.tables.schema import TEXT, TIME, UTC

_NAME = Column("table_name", TEXT, "schema.table, as SQL names it")
_LIST = pl.List(pl.String())
#: Columns of meta.partitions that are fields of a manifest.
_SHARED = ("rows", "bytes", "sha256", "digest", "version", "damage", "run_id", "written_at", "known_at", "code_version", "number")

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
        Column("digest", TEXT, "of the rows and columns, in hex; equal for equal rows"),
        Column("version", TEXT, "version of the table's rules that made the rows"),
        Column(
            "published", pl.Boolean(), "false when the rows are left out: other rules than the table's made them, or the file is damaged"
        ),
        Column("damage", TEXT, "what is wrong with the file; null when nothing is", nullable=True),
        Column("run_id", TEXT, "the run that wrote it"),
        Column("written_at", TIME, "when it was written", UTC),
        Column("known_at", TIME, "latest known_at of its rows; null when it has none", UTC, nullable=True),
        Column("inputs", TEXT, "digests of the input tables as a JSON object; null outside the graph", nullable=True),
        Column("code_version", TEXT, "version of the code that made the rows; null outside the graph", nullable=True),
        Column("number", pl.Int64(), "number of the commit in the lake's catalog"),
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
        Column("number", pl.Int64(), "number of the lake's latest commit when the publisher began to read"),
        Column("lake", TEXT, "folder or URL of the lake"),
        Column("place", TEXT, "absolute name under which this file was published"),
        Column("world", TEXT, "world of the settings that it was published under: sandbox or live"),
    ),
    key=("published_at",),
    mart=True,
)

#: All tables of the schema.
ALL = (PARTITIONS, TABLES, COLUMNS, PUBLICATION)
_OPENING = """# Data dictionary

A table's name is the same everywhere: the asset `clean/markets` is the folder `clean/markets/` of the lake and
`clean.markets` in the warehouse, where `COMMENT`s carry the same texts. Times are UTC; types are DuckDB's.
"""


def is_published(table: Table, manifest: Manifest) -> bool:
    """Return True if the warehouse contains the rows of a partition: the table's rules made them, and the file is intact."""
    return manifest.version == table.version and manifest.damage is None


def table_rows(stored: Mapping[Table, Sequence[Manifest]]) -> pl.DataFrame:
    """Return the rows of meta.tables. stored: partitions by table."""
    return TABLES.frame([_table_row(table, manifests) for table, manifests in stored.items()])


def partition_rows(location: Callable[[str], str], stored: Mapping[Table, Sequence[Manifest]]) -> pl.DataFrame:
    """Return the rows of meta.partitions. location: returns the absolute name of a file."""
    return PARTITIONS.frame(
        [
            {
                **{name: getattr(manifest, name) for name in _SHARED},
                "table_name": table.sql_name,
                "partition": "/".join(manifest.partition),
                "file": location(manifest.file),
                "published": is_published(table, manifest),
                "inputs": None if manifest.inputs is None else orjson.dumps(manifest.inputs).decode(),
            }
            for table, manifests in stored.items()
            for manifest in manifests
        ]
    )


def column_rows(tables: Iterable[Table]) -> pl.DataFrame:
    """Return the rows of meta.columns."""
    return COLUMNS.frame([_column_row(table, ordinal, column) for table in tables for ordinal, column in enumerate(table.columns)])


def _table_row(table: Table, manifests: Sequence[Manifest]) -> Mapping[str, Any]:
    published = [manifest for manifest in manifests if is_published(table, manifest)]
    return {
        "table_name": table.sql_name,
        "description": table.row,
        "stored_as": "table" if table.mart else "view",
        "key": list(table.key),
        "partitioned_by": list(table.partitioned_by),
        "version": table.version,
        "partitions": len(published),
        "rows": sum(manifest.rows for manifest in published),
        "known_at": max((manifest.known_at for manifest in published if manifest.known_at), default=None),
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


def build_dictionary(tables: Iterable[Table] = (*DECLARED.values(), *ALL)) -> str:
    """Return the data dictionary as Markdown: a section per group, a subsection per table, a line per column."""
    tables = tuple(tables)
    index = ((f"`{table.name}`", " × ".join(table.partitioned_by) or "none", table.row) for table in tables)
    parts, group = [_OPENING, *markdown_table(["table", "partition", "one row is"], index), ""], ""
    for table in tables:
        if table.group != group:
            group = table.group
            parts.append(f"## {group}\n")
        parts.append(_render_table(table))
    return "\n".join(parts)


def _render_table(table: Table) -> str:
    facts = [f"Key: {_join_names(table.key)}."]
    if table.partitioned_by:
        facts.append(f"Partition: {_join_names(table.partitioned_by)}.")
    if table.sort:
        facts.append(f"Order: {_join_names(table.sort)}.")
    facts.append(f"In the warehouse: {'a table' if table.mart else 'a view'}. Version {table.version}.")
    lines = [
        f"### {table.name}\n",
        f"{table.row} {' '.join(facts)}\n",
        *markdown_table(["column", "type", "unit", "null", "meaning"], map(_column_cells, table.columns)),
    ]
    return "\n".join([*lines, ""])


def _column_cells(column: Column) -> list[str]:
    cells = (f"`{column.name}`", sql_type(column.dtype), column.unit or "", "yes" if column.nullable else "", column.description)
    return [*map(escape_cell, cells)]


def _join_names(columns: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in columns)
