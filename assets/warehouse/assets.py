"""What users query: the published DuckDB file."""

from datetime import timedelta

import dagster as dg

from bellwether.lake.warehouse import named_files
from bellwether.tables import TABLES
from orchestration.declare import OWNER, key
from resources import LakeResource, WarehouseResource
from resources.io_manager import size


class PublishConfig(dg.Config):
    """How much is looked at, and what happens to files that no manifest names any more."""

    complete: bool = False
    """Whether every partition is looked at, not only the tables that were written since the last publication; once a day it is in any case."""
    keep_superseded_days: int = 7
    """Days for which they stay, for readers who still have an older warehouse open."""


@dg.asset(
    key=["summary", "warehouse"],
    group_name="summary",
    description="The published DuckDB file: views over the lake's files, marts as tables; replaced as a whole, never written in place.",
    kinds={"duckdb"},
    owners=[OWNER],
    tags={"layer": "summary"},
    deps=[key(name) for name in TABLES],
    pool="warehouse",
)
def warehouse(
    context: dg.AssetExecutionContext, config: PublishConfig, lake: LakeResource, warehouse: WarehouseResource
) -> dg.MaterializeResult:
    """The published DuckDB file: views over the lake's files, marts as tables; replaced as a whole, never written in place."""
    published = warehouse.publish(lake.lake, complete=config.complete)
    for name, reason in published.damaged.items():
        context.log.error(f"left out {name}: {reason}")
    removed: tuple[str, ...] = ()
    if published.complete:
        removed = lake.lake.vacuum(timedelta(days=config.keep_superseded_days), keep=named_files(published.path)).files
    return dg.MaterializeResult(
        metadata={
            "path": dg.MetadataValue.path(str(published.path)),
            "tables": published.tables,
            "partitions": published.partitions,
            "looked at": "every partition" if published.complete else "the tables that were written since",
            "rows": published.rows,
            "size": size(published.bytes),
            "outdated partitions left out": len(published.outdated),
            "damaged partitions left out": len(published.damaged),
            **({"damaged": dg.MetadataValue.json(dict(published.damaged))} if published.damaged else {}),
            "superseded files removed": len(removed),
        }
    )
