"""Execution of the SQL that computes a table, on slices of the lake, in a DuckDB of its own, and the views that the warehouse offers in addition to its tables.

`sql/<group>/<name>.sql` computes a table, `sql/views/<name>.sql` defines `views.<name>`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from importlib.resources import files
from itertools import takewhile
from typing import Any

import duckdb
import polars as pl

from bellwether.errors import LakeError, SchemaError
from bellwether.lake import duckdb_connection
from bellwether.lake.duckdb_connection import identifier, literal
from bellwether.lake.parquet import sort_rows
from bellwether.lake.slices import Slice
from bellwether.tables import TABLES, Table

#: In order of creation: a view may use previous ones.
VIEWS = ("markets", "questions", "answers", "pnl", "rejects")
#: Queries with parameters: `FROM views.price_before(24)`.
MACROS = {"price_before": ("hours",)}


def sql_text(name: str) -> str:
    """Return the text of `sql/<name>.sql`. Raises `LakeError` if the file is missing."""
    try:
        return files("sql").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LakeError(f"running SQL: sql/{name}.sql is missing; write it, beginning with a comment on what one row is") from None


def list_queries() -> dict[str, str]:
    """Return the queries of `sql/analysis/` by name, each with the first sentence of its comment."""
    names = sorted(file.name.removesuffix(".sql") for file in files("sql").joinpath("analysis").iterdir() if file.name.endswith(".sql"))
    return {name: _first_sentence(sql_text(f"analysis/{name}")) for name in names}


def _first_sentence(text: str) -> str:
    """Return the first sentence of the comment with which a text of SQL begins."""
    comment = takewhile(lambda line: line.startswith("--"), text.splitlines())
    return " ".join(line.removeprefix("--").strip() for line in comment).partition(". ")[0].removesuffix(".")


def run_sql(table: Table, inputs: Mapping[str, Slice | pl.DataFrame], params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Run `sql/<table.name>.sql` on `inputs` and return its rows with the table's columns, dtypes and order.

    Each input is readable in SQL by its name; `$name` parameters are bound. Nothing is cast afterwards.
    Raises `SchemaError` if the result does not fit the declared table, `LakeError` if DuckDB cannot run the query.
    """
    return evaluate(table, sql_text(table.name), inputs, params)


def evaluate(table: Table, text: str, inputs: Mapping[str, Slice | pl.DataFrame], params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Run the query `text` on `inputs` and return its rows. Result and errors are as in `run_sql`."""
    with duckdb_connection.connect() as connection:
        try:
            for name, rows in inputs.items():
                duckdb_connection.add_input(connection, name, rows)
            # Fetching a relation with parameters evaluates it row by row: six times slower than through a table.
            connection.execute(f"CREATE TEMP TABLE result AS {text}", dict(params) if params else None)
            frame = connection.sql("SELECT * FROM result").pl()
        except duckdb.Error as error:
            raise LakeError(f"running sql/{table.name}.sql over {', '.join(inputs) or 'no input'}: {error}") from error
    try:
        return sort_rows(table, table.validate(frame, unique=False))
    except SchemaError as error:
        raise SchemaError(f"the result of sql/{table.name}.sql does not fit; {error}. Cast in the SQL, or correct its joins") from error


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
