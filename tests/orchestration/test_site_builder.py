"""The site is built if and only if the published warehouse has changed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from assets.warehouse import assets, runs, sensors
from assets.warehouse.sensors import site_builder
from bellwether.site import build, contents
from bellwether.tables import table
from orchestration.runner import RunStats
from resources import LakeResource, WarehouseResource
from tests.clean.rows import DAY, market, markets


def test_the_site_follows_the_warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, warehouse = LakeResource(uri=str(tmp_path / "lake")), WarehouseResource(database=str(tmp_path / "warehouse.duckdb"))
    places = SimpleNamespace(site_path=tmp_path / "site")
    monkeypatch.setattr(contents, "chart_library", lambda: b"")
    for module in (assets, sensors):
        monkeypatch.setattr(module, "settings", lambda: places)
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance)
        assert isinstance(site_builder(context, warehouse=warehouse), dg.SkipReason)
        warehouse.publish(lake.lake)
        unasked = site_builder(context, warehouse=warehouse)
        assert isinstance(unasked, dg.SkipReason) and "no site has been built" in str(unasked.skip_message)
        done = assets.site(warehouse=warehouse)
        assert isinstance(done, dg.MaterializeResult)
        assert done.metadata and done.metadata["site"].value == (tmp_path / "site/index.html").as_uri()
        for _ in range(2):
            assert isinstance(site_builder(context, warehouse=warehouse), dg.SkipReason)
        lake.lake.write(table("clean/markets"), (DAY.isoformat(),), markets(market()), run_id="one")
        warehouse.publish(lake.lake)
        first = site_builder(context, warehouse=warehouse)
        assert isinstance(first, dg.RunRequest)
        assert build(warehouse.database, places.site_path).published in str(first.run_key)
        lake.lake.write(table("clean/markets"), (DAY.isoformat(),), markets(market(market_id="other")), run_id="two")
        warehouse.publish(lake.lake)
        second = site_builder(context, warehouse=warehouse)
        assert isinstance(second, dg.RunRequest) and second.run_key != first.run_key
        (tmp_path / "warehouse.duckdb").write_bytes(b"damaged")
        assert isinstance(site_builder(context, warehouse=warehouse), dg.SkipReason)


def test_a_command_that_publishes_builds_a_site_anew_only_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, warehouse = LakeResource(uri=str(tmp_path / "lake")), WarehouseResource(database=str(tmp_path / "warehouse.duckdb"))
    places = SimpleNamespace(site_path=tmp_path / "site", warehouse_uri=tmp_path / "warehouse.duckdb")
    monkeypatch.setattr(contents, "chart_library", lambda: b"")
    monkeypatch.setattr(runs, "settings", lambda: places)

    def launched() -> list[str]:
        jobs: list[str] = []
        work = SimpleNamespace(stats=RunStats(), lake=lake.lake)
        work.resource = {"warehouse": warehouse}.__getitem__
        work.launch = lambda job, label, config=None: jobs.append(job.name)
        runs.publish(work)  # type: ignore[arg-type]
        return jobs

    warehouse.publish(lake.lake)
    assert launched() == []
    build(places.warehouse_uri, places.site_path)
    assert launched() == []
    lake.lake.write(table("clean/markets"), (DAY.isoformat(),), markets(market()), run_id="one")
    warehouse.publish(lake.lake)
    assert launched() == ["site"]
