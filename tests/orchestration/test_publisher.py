"""The warehouse is published when it does not show the lake as it is, and only then."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from bellwether.lake import Lake
from bellwether.tables import table
from orchestration.sensors import publication_key, publisher
from resources import LakeResource, WarehouseResource
from tests.clean.rows import DAY, market, markets


@pytest.fixture
def places(tmp_path: Path) -> tuple[LakeResource, WarehouseResource]:
    return LakeResource(uri=str(tmp_path / "lake")), WarehouseResource(path=str(tmp_path / "warehouse.duckdb"))


def tick(lake: LakeResource, warehouse: WarehouseResource) -> dg.RunRequest | dg.SkipReason:
    with dg.DagsterInstance.ephemeral() as instance:
        found = publisher(dg.build_sensor_context(instance=instance), lake=lake, warehouse=warehouse)
    assert isinstance(found, dg.RunRequest | dg.SkipReason)
    return found


def store(lake: Lake, run: str) -> None:
    lake.write(table("clean/markets"), (DAY.isoformat(),), markets(market()), run_id=run)


def test_the_same_state_has_the_same_key() -> None:
    assert publication_key(frozenset("ab"), frozenset("ab")) is None
    assert publication_key(frozenset("ab"), frozenset("a")) == publication_key(frozenset("ba"), frozenset("c"))


def test_a_published_lake_is_left_alone(places: tuple[LakeResource, WarehouseResource]) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    assert isinstance(tick(lake, warehouse), dg.RunRequest)
    warehouse.publish(lake.lake)
    assert isinstance(tick(lake, warehouse), dg.SkipReason)


def test_a_partition_written_while_the_warehouse_was_published_is_published_next(places: tuple[LakeResource, WarehouseResource]) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    first = tick(lake, warehouse)
    warehouse.publish(lake.lake)
    store(lake.lake, "two")
    second = tick(lake, warehouse)
    assert isinstance(first, dg.RunRequest) and isinstance(second, dg.RunRequest)
    assert first.run_key != second.run_key
