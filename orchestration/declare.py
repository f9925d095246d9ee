"""What every table's asset has in common, taken from the table's declaration."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import dagster as dg

from bellwether.tables import Table, table
from resources.lake import table_schema

OWNER = "team:bellwether"


def key(name: str) -> dg.AssetKey:
    """Asset key of the table `group/name`."""
    return dg.AssetKey(name.split("/"))


def select(*names: str) -> dg.AssetSelection:
    """The assets `group/name`, for a job."""
    return dg.AssetSelection.assets(*(key(name) for name in names))


def metadata(declared: Table) -> dict[str, Any]:
    """Definition metadata of a table: its columns, its name in DuckDB and its key."""
    return {
        "dagster/column_schema": table_schema(declared),
        "dagster/table_name": f"{declared.group}.{declared.short_name}",
        "key": ", ".join(declared.key),
    }


def of(name: str, *kinds: str) -> dict[str, Any]:
    """Keyword arguments for `dg.asset` that say which table it makes. kinds: what makes it, where that is no file of `sql/`."""
    declared = table(name)
    return {
        "key": key(name),
        "group_name": declared.group,
        "description": declared.row,
        "kinds": {*(("duckdb", "sql") if _sql(declared).is_file() else kinds), "parquet"},
        "owners": [OWNER],
        "tags": {"layer": declared.group},
        "metadata": metadata(declared),
        "code_version": code_version(declared),
    }


def code_version(declared: Table) -> str:
    """Version of the rules that make a table: the declaration's, and a digest of its SQL where SQL builds it."""
    text = _sql(declared)
    return f"{declared.version}-{sha256(text.read_bytes()).hexdigest()[:12]}" if text.is_file() else declared.version


def _sql(declared: Table) -> Traversable:
    return files("sql") / f"{declared.name}.sql"


def out(name: str, *kinds: str, follows: dg.AutomationCondition | None = None) -> dg.AssetOut:
    """One output of a `dg.multi_asset` that makes several tables; `follows` says when it is made by itself."""
    return dg.AssetOut(**of(name, *kinds), automation_condition=follows)
