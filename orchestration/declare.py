"""What every table's asset has in common, taken from the table's declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, slots=True)
class Follow:
    """How a table follows its inputs, as definition metadata of its asset.

    Attributes:
        ignored: inputs whose changes leave it up to date.
        attempts: runs that may fail in a row for the same inputs, with growing pauses.
        candidates: `module:function` from the partitions of the first input to those that are made automatically; all whose inputs exist when left out.
    """

    ignored: tuple[str, ...] = ()
    attempts: int = 3
    candidates: str | None = None

    def metadata(self) -> dict[str, Any]:
        """Definition metadata, which the UI shows."""
        return {_FOLLOWS: dg.MetadataValue.json(asdict(self))}


#: A table that is made again whenever an input has changed.
FOLLOW = Follow()
_FOLLOWS = "follows"


def follows(graph: Any, key: dg.AssetKey) -> Follow | None:
    """How an asset follows its inputs; None where it is made on request only."""
    stated = graph.get(key).metadata.get(_FOLLOWS)
    if not isinstance(stated, dg.JsonMetadataValue) or not isinstance(stated.value, Mapping):
        return None
    return Follow(**{**stated.value, "ignored": tuple(stated.value["ignored"])})


def of(name: str, *kinds: str, follows: Follow | None = None) -> dict[str, Any]:
    """Keyword arguments for `dg.asset` that makes a table.

    kinds: what makes it, where that is no file of `sql/`. follows: how it follows its inputs; it is made on request only when left out.
    """
    declared = table(name)
    return {
        "key": key(name),
        "group_name": declared.group,
        "description": declared.row,
        "kinds": {*(("duckdb", "sql") if _sql(declared).is_file() else kinds), "parquet"},
        "owners": [OWNER],
        "tags": {"layer": declared.group},
        "metadata": {**metadata(declared), **(follows.metadata() if follows else {})},
        "code_version": code_version(declared),
    }


def code_version(declared: Table) -> str:
    """Version of the rules that make a table: the declaration's, and a digest of its SQL where SQL builds it."""
    text = _sql(declared)
    return f"{declared.version}-{sha256(text.read_bytes()).hexdigest()[:12]}" if text.is_file() else declared.version


def _sql(declared: Table) -> Traversable:
    return files("sql") / f"{declared.name}.sql"


def out(name: str, *kinds: str, follows: Follow | None = None) -> dg.AssetOut:
    """One output of a `dg.multi_asset` that makes several tables; arguments as of `of`."""
    return dg.AssetOut(**of(name, *kinds, follows=follows))
