"""Dagster properties of an asset (description, owner, links, columns, freshness policy), derived from the declaration of its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import dagster as dg

from bellwether.settings import Settings, World, settings
from bellwether.tables import TABLES, Table, table
from resources.lake import table_schema

OWNER = "team:bellwether"


def key(name: str) -> dg.AssetKey:
    """Return the asset key of a table. name: `group/name`."""
    return dg.AssetKey(name.split("/"))


def select(*names: str) -> dg.AssetSelection:
    """Return the selection of several assets for a job. names: each `group/name`."""
    return dg.AssetSelection.assets(*(key(name) for name in names))


def table_metadata(declared: Table) -> dict[str, Any]:
    """Return a table's metadata for the asset's definition: columns, name in DuckDB, and key columns."""
    return {
        "dagster/column_schema": table_schema(declared),
        "dagster/table_name": f"{declared.group}.{declared.short_name}",
        "key": ", ".join(declared.key),
    }


@dataclass(frozen=True, slots=True)
class UpdatePolicy:
    """Automatic update policy of a table, stored in the definition metadata of the asset.

    Attributes:
        attempts: maximum of consecutive failed runs for the same inputs, with growing pauses.
        candidates: `module:function` that selects partitions from those of the first input. Default: all partitions whose inputs exist.
    """

    attempts: int = 3
    candidates: str | None = None

    def metadata(self) -> dict[str, Any]:
        """Return the policy as metadata for the asset's definition."""
        return {_FOLLOWS: dg.MetadataValue.json(asdict(self))}


#: Policy of a table that is rebuilt after every change of an input.
FOLLOW_INPUTS = UpdatePolicy()
_FOLLOWS = "follows"


def update_policy(graph: Any, key: dg.AssetKey) -> UpdatePolicy | None:
    """Return the update policy of an asset; None if the asset is built on request only."""
    stated = graph.get(key).metadata.get(_FOLLOWS)
    if not isinstance(stated, dg.JsonMetadataValue) or not isinstance(stated.value, Mapping):
        return None
    return UpdatePolicy(**stated.value)


def table_asset(name: str, *kinds: str, follows: UpdatePolicy | None = None, about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the keyword arguments of `dg.asset` that a table's declaration determines. name: `group/name`.

    kinds: of computation, for a table without a file in `sql/`. follows: update policy; built on request only when left out.
    about: more definition metadata.
    """
    declared = table(name)
    partition = " and ".join(declared.partitioned_by)
    columns = ", ".join(f"`{column}`" for column in declared.key)
    return {
        **_common(
            name,
            declared.row,
            f"{f'A partition per {partition}' if partition else 'No partitions'}; key: {columns}. {_trigger(follows)}",
            f"Query: `FROM {declared.group}.{declared.short_name}`.",
        ),
        "kinds": {*(("duckdb", "sql") if _sql(declared).is_file() else kinds), "parquet"},
        "metadata": {
            **table_metadata(declared),
            "page": site_link(f"data/table/{declared.group}.{declared.short_name}.html"),
            **(follows.metadata() if follows else {}),
            **(about or {}),
        },
        "code_version": code_version(declared),
    }


def file_asset(name: str, row: str, *kinds: str, site_page: str, where: str, follows: UpdatePolicy | None = None) -> dict[str, Any]:
    """Return the keyword arguments of `dg.asset` for an asset that writes files outside the lake, such as a report.

    row: one sentence that describes the files. site_page: the page of the static site that it links to. where: sentence with the place of the files.
    """
    return {
        **_common(name, row, _trigger(follows), where),
        "kinds": set(kinds),
        "metadata": {"page": site_link(site_page), **(follows.metadata() if follows else {})},
    }


def site_link(path: str) -> dg.UrlMetadataValue:
    """Return the link to a page of the static site: at the site's public address, or else to the local file."""
    config = settings()
    return dg.MetadataValue.url(f"{config.site_url.rstrip('/')}/{path}" if config.site_url else (config.site_path / path).as_uri())


def _common(name: str, *description: str) -> dict[str, Any]:
    group = name.split("/", maxsplit=1)[0]
    return {
        "key": key(name),
        "group_name": group,
        "description": "\n\n".join(description),
        "owners": [OWNER],
        "tags": {"layer": group},
    }


def _trigger(follows: UpdatePolicy | None) -> str:
    if follows is None:
        return "Built by a job, a schedule or on request."
    return f"Rebuilt automatically when its inputs change{' (selected partitions only)' if follows.candidates else ''}."


def code_version(declared: Table) -> str:
    """Return the code version of a table: the version in its declaration, and a digest of its SQL file if there is one."""
    text = _sql(declared)
    return f"{declared.version}-{sha256(text.read_bytes()).hexdigest()[:12]}" if text.is_file() else declared.version


def _sql(declared: Table) -> Traversable:
    return files("sql") / f"{declared.name}.sql"


def table_output(name: str, *kinds: str, follows: UpdatePolicy | None = None, is_required: bool = True) -> dg.AssetOut:
    """Return an output of `dg.multi_asset` for a table; other arguments as for `table_asset`. is_required: False if the step can run for some of
    its tables.
    """
    return dg.AssetOut(**table_asset(name, *kinds, follows=follows), is_required=is_required)


def apply_policies(assets: Iterable[Any], config: Settings) -> list[Any]:
    """Return the assets with a freshness policy added for each table with `Table.max_age`: late after that age, missing after 1.5 times that age.

    Worlds other than live get no policies.
    """
    if config.world is not World.LIVE:
        return list(assets)
    chosen = {
        key(table.name): dg.FreshnessPolicy.time_window(warn_window=table.max_age, fail_window=1.5 * table.max_age)
        for table in TABLES.values()
        if table.max_age is not None
    }
    return list(
        dg.map_asset_specs(lambda spec: spec.replace_attributes(freshness_policy=chosen[spec.key]) if spec.key in chosen else spec, assets)
    )
