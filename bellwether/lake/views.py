"""Views that the warehouse offers in addition to its tables. `sql/views/<name>.sql` defines `views.<name>`."""

from __future__ import annotations

import re
from collections.abc import Collection

import duckdb

from bellwether.lake.duckdb_connection import identifier, literal
from bellwether.lake.sql import sql_text
from bellwether.tables import TABLES, Table

#: In order of creation: a view may use previous ones.
VIEWS = ("markets", "questions", "answers", "pnl", "rejects")
#: Queries with parameters: `FROM views.price_before(24)`.
MACROS = {"price_before": ("hours",)}


def view_texts() -> dict[str, str]:
    """Read the SQL of every view and macro, by name."""
    return {name: sql_text(f"views/{name}") for name in (*VIEWS, *MACROS)}


def find_tables(sql: str) -> list[Table]:
    """Return the tables that a query names, directly or through a view or macro of `views`."""
    named = _names(sql)
    for name, text in reversed(view_texts().items()):
        if f"views.{name}" in named:
            named |= _names(text)
    return [table for table in TABLES.values() if table.sql_name in named]


def _names(sql: str) -> set[str]:
    """Return the names `schema.table` in a query, without those in comments."""
    text = re.sub(r"--.*", "", sql).replace('"', "").lower()
    return set(re.findall(r"\b[a-z_]+\.[a-z_0-9]+\b", text))


def create_views(connection: duckdb.DuckDBPyConnection, tables: Collection[str]) -> None:
    """Create the views if `tables` contains all declared tables.
    The leading comment of each SQL text becomes the view's comment. tables: names `group/name`.
    """
    if not set(TABLES) <= set(tables):
        return
    connection.execute("CREATE SCHEMA views")
    for name, text in view_texts().items():
        comment = " ".join(line.removeprefix("--").strip() for line in text.splitlines() if line.startswith("--"))
        if name in MACROS:
            connection.execute(f"CREATE MACRO views.{identifier(name)}({', '.join(MACROS[name])}) AS TABLE {text}")
            continue
        connection.execute(f"CREATE VIEW views.{identifier(name)} AS {text}")
        connection.execute(f"COMMENT ON VIEW views.{identifier(name)} IS {literal(comment)}")
