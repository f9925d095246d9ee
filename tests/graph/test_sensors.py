"""The warehouse is published if and only if the lake has changed."""

from __future__ import annotations

import os
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from assets.warehouse.sensors import _PROCESS, publisher
from bellwether.lake import Lake, publications
from bellwether.lake.storage import Folder
from bellwether.settings import Settings, settings
from bellwether.tables import TABLES, table
from orchestration.orphaned_runs import ProcessLock
from resources import LakeResource, WarehouseResource
from tests.clean.rows import DAY, market, markets


@pytest.fixture
def places(tmp_path: Path) -> tuple[LakeResource, WarehouseResource]:
    return LakeResource(uri=str(tmp_path / "lake")), WarehouseResource(database=str(tmp_path / "warehouse.duckdb"))


def tick(lake: LakeResource, warehouse: WarehouseResource, *, runs: tuple[dg.DagsterRun, ...] = ()) -> dg.RunRequest | dg.SkipReason:
    with dg.DagsterInstance.ephemeral() as instance:
        for run in runs:
            instance.add_run(run)
        found = publisher(dg.build_sensor_context(instance=instance), lake=lake, warehouse=warehouse)
    assert isinstance(found, dg.RunRequest | dg.SkipReason)
    return found


def store(lake: Lake, run: str) -> None:
    lake.write(table("clean/markets"), (DAY.isoformat(),), markets(market()), run_id=run)


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


@pytest.mark.parametrize(
    ("status", "waits"),
    [
        (dg.DagsterRunStatus.NOT_STARTED, True),
        (dg.DagsterRunStatus.STARTED, True),
        (dg.DagsterRunStatus.SUCCESS, False),
        (dg.DagsterRunStatus.FAILURE, False),
    ],
)
def test_no_publication_is_requested_while_another_waits_or_runs(
    places: tuple[LakeResource, WarehouseResource], status: dg.DagsterRunStatus, *, waits: bool
) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    found = tick(lake, warehouse, runs=(dg.DagsterRun(job_name="publish", run_id=str(uuid.uuid4()), status=status),))
    assert isinstance(found, dg.SkipReason if waits else dg.RunRequest)


def test_a_publication_whose_process_was_killed_holds_none_back(places: tuple[LakeResource, WarehouseResource], tmp_path: Path) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        command = ProcessLock(instance)
        run = dg.DagsterRun(job_name="publish", run_id=str(uuid.uuid4()), status=dg.DagsterRunStatus.STARTED, tags=command.tags)
        instance.add_run(run)
        context = dg.build_sensor_context(instance=instance)
        assert isinstance(publisher(context, lake=lake, warehouse=warehouse), dg.SkipReason)
        command.close()
        assert isinstance(publisher(context, lake=lake, warehouse=warehouse), dg.RunRequest)


def test_what_a_command_writes_is_published_when_it_ends_or_after_an_hour(
    places: tuple[LakeResource, WarehouseResource], tmp_path: Path
) -> None:
    lake, warehouse = places
    warehouse.publish(lake.lake)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        command = ProcessLock(instance)
        store(lake.lake, "one")
        found = publisher(dg.build_sensor_context(instance=instance), lake=lake, warehouse=warehouse)
        assert isinstance(found, dg.SkipReason) and "a command is running" in str(found.skip_message)
        os.utime(warehouse.database, (time.time(), time.time() - 3700))
        assert isinstance(publisher(dg.build_sensor_context(instance=instance), lake=lake, warehouse=warehouse), dg.RunRequest)
        os.utime(warehouse.database)
        command.close()
        assert isinstance(publisher(dg.build_sensor_context(instance=instance), lake=lake, warehouse=warehouse), dg.RunRequest)


def test_later_ticks_of_a_day_look_at_what_was_written_and_do_not_list_the_lake(
    places: tuple[LakeResource, WarehouseResource], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    warehouse.publish(lake.lake)
    listed: list[str] = []
    files = Folder.files
    monkeypatch.setattr(Folder, "files", lambda self, prefix: (listed.append(prefix), files(self, prefix))[1])
    with dg.DagsterInstance.ephemeral() as instance:
        first = dg.build_sensor_context(instance=instance)
        assert isinstance(publisher(first, lake=lake, warehouse=warehouse), dg.SkipReason)
        assert sorted(listed) == sorted(TABLES), "the first tick looks at everything"
        listed.clear()
        context = dg.build_sensor_context(instance=instance, cursor=f"{datetime.now(UTC):%Y-%m-%d} {_PROCESS}")
        assert isinstance(publisher(context, lake=lake, warehouse=warehouse), dg.SkipReason)
        assert not listed
        lake.lake.storage.touch("clean/markets")
        assert isinstance(publisher(context, lake=lake, warehouse=warehouse), dg.SkipReason)
        assert listed == ["clean/markets"]
        assert isinstance(publisher(context, lake=lake, warehouse=warehouse), dg.SkipReason)
        assert listed == ["clean/markets"], "what was found equal is not compared again"
        store(lake.lake, "two")
        found = publisher(context, lake=lake, warehouse=warehouse)
    assert isinstance(found, dg.RunRequest)
    assert found.run_config == {"ops": {"summary__warehouse": {"config": {"complete": False}}}}


def test_a_warehouse_that_cannot_be_read_is_published_again(places: tuple[LakeResource, WarehouseResource]) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    Path(warehouse.database).write_text("of another version")
    assert isinstance(tick(lake, warehouse), dg.RunRequest)
    warehouse.publish(lake.lake)
    assert isinstance(tick(lake, warehouse), dg.SkipReason)


def test_a_daemon_without_a_warehouse_of_its_own_compares_the_pointer(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine publishes on the store, while this one has an empty home."""
    lake, warehouse = LakeResource(uri=f"{bucket}/lake"), WarehouseResource(database=f"{bucket}/warehouse")
    day, other = (DAY.isoformat(),), Settings(home=tmp_path / "publisher")
    with dg.DagsterInstance.ephemeral() as instance:

        def tick(cursor: str | None = f"{datetime.now(UTC):%Y-%m-%d} {_PROCESS}") -> dg.RunRequest | dg.SkipReason:
            found = publisher(dg.build_sensor_context(instance=instance, cursor=cursor), lake=lake, warehouse=warehouse)
            assert isinstance(found, dg.RunRequest | dg.SkipReason)
            return found

        lake.lake.write(table("clean/markets"), day, markets(market()), run_id="one")
        assert isinstance(tick(None), dg.RunRequest)
        with monkeypatch.context() as machine:
            machine.setattr(publications, "settings", lambda: other)
            warehouse.publish(lake.lake)
        assert isinstance(tick(), dg.SkipReason)
        assert not settings().cache_path.exists(), "the pointer was enough"
        assert isinstance(tick(None), dg.SkipReason), "the first look of a process compares the files"
        lake.lake.write(table("clean/markets"), day, markets(market(market_id="other")), run_id="two")
        assert isinstance(tick(), dg.RunRequest)
        warehouse.publish(lake.lake)
        assert isinstance(tick(), dg.SkipReason)
