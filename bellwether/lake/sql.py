"""Runs the SQL of a table over slices of the lake, in a DuckDB of its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import duckdb
import polars as pl

from bellwether.errors import LakeError, SchemaError
from bellwether.lake import duckdb_connection
from bellwether.lake.row_order import arrange
from bellwether.lake.slices import Slice
from bellwether.tables import Table


def sql_text(name: str) -> str:
    """The text of `sql/<name>.sql`; raises `LakeError` when there is no such file."""
    try:
        return files("sql").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LakeError(f"running SQL: there is no sql/{name}.sql; write it, beginning with a comment that says what one row is") from None


def run_sql(table: Table, inputs: Mapping[str, Slice | pl.DataFrame], params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """The rows that `sql/<table.name>.sql` makes of `inputs`, in the table's columns, dtypes and order.

    Each input is readable in SQL by its name; `$name` parameters are bound. Nothing is cast afterwards.
    Raises `SchemaError` when the result is not of the declared table, `LakeError` when DuckDB cannot run the query.
    """
    return evaluate(table, sql_text(table.name), inputs, params)


def evaluate(table: Table, text: str, inputs: Mapping[str, Slice | pl.DataFrame], params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """As `run_sql`, with the query given as `text`."""
    with duckdb_connection.connect() as connection:
        try:
            for name, rows in inputs.items():
                duckdb_connection.add_input(connection, name, rows)
            # A relation with parameters is evaluated row by row when it is fetched: six times slower than through a table.
            connection.execute(f"CREATE TEMP TABLE result AS {text}", dict(params) if params else None)
            frame = connection.sql("SELECT * FROM result").pl()
        except duckdb.Error as error:
            raise LakeError(f"running sql/{table.name}.sql over {', '.join(inputs) or 'no input'}: {error}") from error
    try:
        return arrange(table, table.validate(frame, unique=False))
    except SchemaError as error:
        raise SchemaError(f"the result of sql/{table.name}.sql does not fit; {error}. Cast in the SQL, or mend its joins") from error
