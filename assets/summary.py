"""What users query: the published DuckDB file."""

from __future__ import annotations

import dagster as dg

from assets.declare import OWNER, key
from bellwether.tables import TABLES
from orchestration.automation import FOLLOW_ANY
from resources import LakeResource, WarehouseResource


@dg.asset(
    key=["summary", "warehouse"],
    group_name="summary",
    description="The published DuckDB file: views over the lake's files, marts as tables; replaced as a whole, never written in place.",
    kinds={"duckdb"},
    owners=[OWNER],
    tags={"layer": "summary"},
    deps=[key(name) for name in TABLES],
    pool="warehouse",
    automation_condition=FOLLOW_ANY,
)
def warehouse(lake: LakeResource, warehouse: WarehouseResource) -> dg.MaterializeResult:
    """The published DuckDB file: views over the lake's files, marts as tables; replaced as a whole, never written in place."""
    published = warehouse.publish(lake.lake)
    return dg.MaterializeResult(
        metadata={
            "path": dg.MetadataValue.path(str(published.path)),
            "tables": published.tables,
            "partitions": published.partitions,
            "bytes": published.bytes,
        }
    )
