"""Export of the journal as Polars frames: its tables for the lake, and totals for reports."""

from __future__ import annotations

from typing import Any

import polars as pl
import sqlalchemy as sa

from bellwether.database import Transaction
from bellwether.errors import ConfigError
from bellwether.journal.budget import Scope, spending_columns, spending_parameters, sum_column
from bellwether.journal.schema import Utc, attempts, calls, records, reopenings, responses

_DTYPES: dict[type, pl.DataType] = {
    Utc: pl.Datetime("us", "UTC"),
    sa.Integer: pl.Int32(),
    sa.BigInteger: pl.Int64(),
    sa.LargeBinary: pl.Binary(),
}
#: Columns that are not exported: with a lease token another process could write as its holder.
_WITHHELD = ("lease_token",)
_GROUPS = ("purpose", "model", "scope", "run", "outcome")


def export_tables(transaction: Transaction) -> dict[str, pl.DataFrame]:
    """Return the journal's tables by name, each sorted by its key. The version table and lease tokens are left out."""
    return {table.name: _export_table(transaction, table) for table in (calls, attempts, responses, reopenings, records)}


def _export_table(transaction: Transaction, table: sa.Table) -> pl.DataFrame:
    columns = [column for column in table.columns if column.name not in _WITHHELD]
    schema = {column.name: _DTYPES.get(type(column.type), pl.String()) for column in columns}
    rows = transaction.rows(sa.select(*columns).order_by(*table.primary_key.columns))
    return pl.DataFrame([tuple(row) for row in rows], schema=schema, orient="row")


def summarize_usage(transaction: Transaction, by: tuple[str, ...], of: Scope) -> pl.DataFrame:
    """Return totals over the attempts that match `of`, one row per combination of values in the columns `by`."""
    odd = [name for name in by if name not in _GROUPS]
    if odd:
        raise ConfigError(f"usage of model calls by {odd[0]!r}: there are {', '.join(_GROUPS)}")
    groups = [attempts.c[name] for name in by]
    totals: dict[str, Any] = {
        "calls": sa.func.count(sa.distinct(attempts.c.key)),
        "attempts": sa.func.count(),
        **{name: sum_column(attempts.c[name]) for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens")},
        **spending_columns(),
    }
    statement = sa.select(*groups, *(column.label(name) for name, column in totals.items())).where(*of.conditions())
    rows = transaction.rows(
        statement.group_by(*groups).order_by(*groups) if groups else statement, of.parameters | spending_parameters(transaction)
    )
    schema = {**dict.fromkeys(by, pl.String()), **dict.fromkeys(totals, pl.Int64())}
    return pl.DataFrame([tuple(row) for row in rows], schema=schema, orient="row")


def count_calls(transaction: Transaction) -> pl.DataFrame:
    """Count the calls for each combination of purpose, model, state and outcome."""
    groups = [calls.c[name] for name in ("purpose", "model", "state", "outcome")]
    rows = transaction.rows(sa.select(*groups, sa.func.count()).group_by(*groups).order_by(*groups))
    schema = {**{column.name: pl.String() for column in groups}, "calls": pl.Int64()}
    return pl.DataFrame([tuple(row) for row in rows], schema=schema, orient="row")
