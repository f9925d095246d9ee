"""Execution of the SQL that computes a table, on slices of the lake (rows of some partitions), in a DuckDB of its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import duckdb
import polars as pl

from bellwether.errors import LakeError, SchemaError
from bellwether.lake import duckdb_connection
from bellwether.lake.row_order import sort_rows
from bellwether.lake.slices import Slice
from bellwether.tables import Table


def sql_text(name: str) -> str:
    """Return the text of `sql/<name>.sql`. Raises `LakeError` if the file is missing."""
    try:
        return files("sql").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LakeError(f"running SQL: sql/{name}.sql is missing; write it, beginning with a comment on what one row is") from None


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
