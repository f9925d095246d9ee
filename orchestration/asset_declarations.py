"""Properties of assets that their decorators leave out (description, owner, links, columns, freshness policy), derived from the tables' declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import dagster as dg

from bellwether.settings import Settings, World, settings
from bellwether.tables import TABLES, Table
from resources.lake import table_schema

OWNER = "team:bellwether"


def key(name: str) -> dg.AssetKey:
    """Return the asset key of a table. name: `group/name`."""
    return dg.AssetKey(name.split("/"))


def select(*names: str) -> dg.AssetSelection:
    """Return the selection of several assets for a job. names: each `group/name`."""
    return dg.AssetSelection.assets(*(key(name) for name in names))


@dataclass(frozen=True, slots=True)
class UpdatePolicy:
    """Automatic update policy of an asset, stored in its metadata `follows`.

    Attributes:
        attempts: maximum of consecutive failed runs for the same inputs, with growing pauses.
        candidates: `module:function` that selects partitions from those of the first input. Default: all partitions whose inputs exist.
    """

    attempts: int = 3
    candidates: str | None = None

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> UpdatePolicy | None:
        """Read the policy from an asset's metadata; None if the asset is built on request only."""
        stated = metadata.get(_FOLLOWS)
        return UpdatePolicy(**stated.value) if isinstance(stated, dg.JsonMetadataValue) and isinstance(stated.value, Mapping) else None

    def metadata(self) -> dict[str, Any]:
        """Return the policy as metadata for the asset's decorator."""
        return {_FOLLOWS: dg.MetadataValue.json(asdict(self))}


_FOLLOWS = "follows"
#: Metadata of an asset that is rebuilt after every change of an input.
FOLLOW_INPUTS = UpdatePolicy().metadata()


def complete_specs(assets: Iterable[Any], config: Settings) -> list[Any]:
    """Return the assets with owner, layer and trigger; those of tables also with what follows from the table: description, columns, code version.

    In the live world a table with `Table.max_age` gets a freshness policy: late after that age, missing after 1.5 times that age.
    """
    return list(dg.map_asset_specs(lambda spec: _complete_spec(spec, config), assets))


def _complete_spec(spec: dg.AssetSpec, config: Settings) -> dg.AssetSpec:
    declared, trigger = TABLES.get("/".join(spec.key.path)), _describe_trigger(UpdatePolicy.of(spec.metadata))
    owned = spec.replace_attributes(owners=[OWNER], tags={"layer": spec.key.path[0]}, description=f"{spec.description}\n\n{trigger}")
    if declared is None:
        return owned
    partition, columns = " and ".join(declared.partitioned_by), ", ".join(f"`{column}`" for column in declared.key)
    keyed = f"{f'A partition per {partition}' if partition else 'No partitions'}; key: {columns}. {trigger}"
    age = declared.max_age if config.world is World.LIVE else None
    return owned.replace_attributes(
        description=f"{declared.row}\n\n{keyed}\n\nQuery: `FROM {declared.sql_name}`.",
        kinds={*(("duckdb", "sql") if _sql(declared).is_file() else spec.kinds), "parquet"},
        metadata={
            "dagster/column_schema": table_schema(declared),
            "dagster/table_name": declared.sql_name,
            "key": ", ".join(declared.key),
            "page": site_link(f"data/table/{declared.sql_name}.html"),
            **spec.metadata,
        },
        code_version=code_version(declared),
        freshness_policy=dg.FreshnessPolicy.time_window(warn_window=age, fail_window=1.5 * age) if age else None,
    )


def site_link(path: str) -> dg.UrlMetadataValue:
    """Return the link to a page of the static site: at the site's public address, or else to the local file."""
    config = settings()
    return dg.MetadataValue.url(f"{config.site_url.rstrip('/')}/{path}" if config.site_url else (config.site_path / path).as_uri())


def _describe_trigger(follows: UpdatePolicy | None) -> str:
    if follows is None:
        return "Built by a job, a schedule or on request."
    return f"Rebuilt automatically when its inputs change{' (selected partitions only)' if follows.candidates else ''}."


def code_version(declared: Table) -> str:
    """Return the code version of a table: the version in its declaration, and a digest of its SQL file if there is one."""
    text = _sql(declared)
    return f"{declared.version}-{sha256(text.read_bytes()).hexdigest()[:12]}" if text.is_file() else declared.version


def _sql(declared: Table) -> Traversable:
    return files("sql") / f"{declared.name}.sql"
