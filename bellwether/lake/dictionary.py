"""Data dictionary: every declared table and column as one Markdown page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable

from bellwether.formatting import escape_cell, markdown_table
from bellwether.lake import meta
from bellwether.lake.duckdb_connection import sql_type
from bellwether.tables import TABLES, Column, Table

_OPENING = """# Data dictionary

A table's name is the same everywhere: the asset `clean/markets` is the folder `clean/markets/` of the lake and
`clean.markets` in the warehouse, where `COMMENT`s carry the same texts. Times are UTC; types are DuckDB's.
"""


def build_dictionary(tables: Iterable[Table] = (*TABLES.values(), *meta.ALL)) -> str:
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
