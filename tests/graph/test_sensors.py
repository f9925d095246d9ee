"""Publication of the warehouse if and only if the lake has changed, of the site with it, and partitions of registered names."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from assets.benchmark.partitions import forecasters
from assets.summary import assets, runs
from assets.summary.jobs import _PROCESS, build_site, publish_warehouse
from bellwether.errors import ConfigError
from bellwether.forecasting import available, without_key
from bellwether.lake import Lake, publications
from bellwether.questions import releases, releases_here
from bellwether.replay.registry import agents
from bellwether.settings import Settings, settings
from bellwether.site import read_warehouse_state
from bellwether.tables import table
from orchestration.automation import add_partitions
from orchestration.orphaned_runs import ProcessLock
from orchestration.runner import RunStats
from resources import LakeResource, WarehouseResource
from tests.demo_home import World
from tests.unit.clean.rows import DAY, market, markets


@pytest.fixture
def places(tmp_path: Path) -> tuple[LakeResource, WarehouseResource]:
    return LakeResource(uri=str(tmp_path / "lake")), WarehouseResource(database=str(tmp_path / "warehouse.duckdb"))


def tick(lake: LakeResource, warehouse: WarehouseResource, *, runs: tuple[dg.DagsterRun, ...] = ()) -> dg.RunRequest | dg.SkipReason:
    with dg.DagsterInstance.ephemeral() as instance:
        for run in runs:
            instance.add_run(run)
        found = publish_warehouse(dg.build_sensor_context(instance=instance), lake=lake, warehouse=warehouse)
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


def test_no_publication_is_requested_while_another_waits_or_runs(places: tuple[LakeResource, WarehouseResource]) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    waits = {
        status.value: isinstance(
            tick(lake, warehouse, runs=(dg.DagsterRun(job_name="publish", run_id=str(uuid.uuid4()), status=status),)), dg.SkipReason
        )
        for status in (
            dg.DagsterRunStatus.NOT_STARTED,
            dg.DagsterRunStatus.STARTED,
            dg.DagsterRunStatus.SUCCESS,
            dg.DagsterRunStatus.FAILURE,
        )
    }
    assert waits == {"NOT_STARTED": True, "STARTED": True, "SUCCESS": False, "FAILURE": False}


def test_a_publication_whose_process_was_killed_holds_none_back(places: tuple[LakeResource, WarehouseResource], tmp_path: Path) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        command = ProcessLock(instance)
        run = dg.DagsterRun(job_name="publish", run_id=str(uuid.uuid4()), status=dg.DagsterRunStatus.STARTED, tags=command.tags)
        instance.add_run(run)
        context = dg.build_sensor_context(instance=instance)
        assert isinstance(publish_warehouse(context, lake=lake, warehouse=warehouse), dg.SkipReason)
        command.close()
        assert isinstance(publish_warehouse(context, lake=lake, warehouse=warehouse), dg.RunRequest)


def test_what_a_command_writes_is_published_when_it_ends_or_after_an_hour(
    places: tuple[LakeResource, WarehouseResource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, warehouse = places
    warehouse.publish(lake.lake)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        command = ProcessLock(instance)
        store(lake.lake, "one")
        found = publish_warehouse(dg.build_sensor_context(instance=instance), lake=lake, warehouse=warehouse)
        assert isinstance(found, dg.SkipReason) and "a command is running" in str(found.skip_message)
        with monkeypatch.context() as later:
            later.setattr("assets.summary.jobs._OFTEN", timedelta(0))
            assert isinstance(publish_warehouse(dg.build_sensor_context(instance=instance), lake=lake, warehouse=warehouse), dg.RunRequest)
        command.close()
        assert isinstance(publish_warehouse(dg.build_sensor_context(instance=instance), lake=lake, warehouse=warehouse), dg.RunRequest)


def test_later_ticks_of_a_day_compare_nothing_unless_a_table_was_written(places: tuple[LakeResource, WarehouseResource]) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    warehouse.publish(lake.lake)
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, cursor=f"{datetime.now(UTC):%Y-%m-%d} {_PROCESS}")
        assert isinstance(publish_warehouse(context, lake=lake, warehouse=warehouse), dg.SkipReason)
        store(lake.lake, "two")
        found = publish_warehouse(context, lake=lake, warehouse=warehouse)
    assert isinstance(found, dg.RunRequest)
    assert found.run_config == {"ops": {"summary__warehouse": {"config": {"vacuum": False}}}}


def test_a_warehouse_that_cannot_be_read_is_published_again(places: tuple[LakeResource, WarehouseResource]) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    Path(warehouse.database).write_text("of another version")
    assert isinstance(tick(lake, warehouse), dg.RunRequest)
    warehouse.publish(lake.lake)
    assert isinstance(tick(lake, warehouse), dg.SkipReason)


@pytest.mark.nightly
def test_a_daemon_without_a_warehouse_of_its_own_compares_the_pointer(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine publishes on the store, while this one has an empty home."""
    lake = LakeResource(uri=f"{bucket}/lake", catalog=str(tmp_path / "catalog.db"))
    warehouse = WarehouseResource(database=f"{bucket}/warehouse")
    day, other = (DAY.isoformat(),), Settings(home=tmp_path / "publisher")
    with dg.DagsterInstance.ephemeral() as instance:

        def tick(cursor: str | None = f"{datetime.now(UTC):%Y-%m-%d} {_PROCESS}") -> dg.RunRequest | dg.SkipReason:
            found = publish_warehouse(dg.build_sensor_context(instance=instance, cursor=cursor), lake=lake, warehouse=warehouse)
            assert isinstance(found, dg.RunRequest | dg.SkipReason)
            return found

        lake.lake.write(table("clean/markets"), day, markets(market()), run_id="one")
        assert isinstance(tick(None), dg.RunRequest)
        with monkeypatch.context() as machine:
            machine.setattr(publications, "settings", lambda: other)
            warehouse.publish(lake.lake)
        assert isinstance(tick(), dg.SkipReason)
        assert not (settings().cache_path / "warehouse").exists(), "the pointer was enough"
        assert isinstance(tick(None), dg.SkipReason), "the first look of a process compares the files"
        lake.lake.write(table("clean/markets"), day, markets(market(market_id="other")), run_id="two")
        assert isinstance(tick(), dg.RunRequest)
        warehouse.publish(lake.lake)
        assert isinstance(tick(), dg.SkipReason)


def test_the_site_follows_the_warehouse(places: tuple[LakeResource, WarehouseResource], monkeypatch: pytest.MonkeyPatch) -> None:
    lake, warehouse = places
    built: list[str | None] = [None]
    monkeypatch.setattr("bellwether.site.read_site_state", lambda folder: built[0])
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance)
        store(lake.lake, "one")
        warehouse.publish(lake.lake)
        unasked = build_site(context, warehouse=warehouse)
        assert isinstance(unasked, dg.SkipReason) and "no site has been built" in str(unasked.skip_message)
        built[0] = read_warehouse_state(warehouse.database)
        for _ in range(2):
            assert isinstance(build_site(context, warehouse=warehouse), dg.SkipReason)
        store(lake.lake, "two")
        warehouse.publish(lake.lake)
        found = build_site(context, warehouse=warehouse)
        assert isinstance(found, dg.RunRequest) and read_warehouse_state(warehouse.database) in str(found.run_key)
        assert built[0] not in str(found.run_key)
        Path(warehouse.database).write_bytes(b"damaged")
        assert isinstance(build_site(context, warehouse=warehouse), dg.SkipReason)


def launched(lake: LakeResource, warehouse: WarehouseResource) -> list[str]:
    """Return the jobs that a command launches to publish."""
    jobs: list[str] = []
    work = SimpleNamespace(stats=RunStats(), lake=lake.lake)
    work.resource = {"warehouse": warehouse}.__getitem__
    work.launch = lambda job, label, config=None: jobs.append(job.name)
    runs.publish(work)  # type: ignore[arg-type]
    return jobs


@pytest.fixture
def site(places: tuple[LakeResource, WarehouseResource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the site."""
    folders = SimpleNamespace(site_path=tmp_path / "site", warehouse_uri=Path(places[1].database))
    for module in (assets, runs):
        monkeypatch.setattr(module, "settings", lambda: folders)
    return folders.site_path


@pytest.mark.usefixtures("site")
def test_a_command_publishes_a_lost_or_damaged_warehouse_again(places: tuple[LakeResource, WarehouseResource]) -> None:
    lake, warehouse = places
    store(lake.lake, "one")
    assert launched(lake, warehouse) == ["publish"]
    warehouse.publish(lake.lake)
    assert launched(lake, warehouse) == []
    Path(warehouse.database).write_text("no warehouse")
    assert launched(lake, warehouse) == ["publish"]


@pytest.mark.usefixtures("site")
def test_a_command_launches_a_site_only_where_an_outdated_one_is(
    places: tuple[LakeResource, WarehouseResource], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, warehouse = places
    warehouse.publish(lake.lake)
    for built, expected in ((None, []), (read_warehouse_state(warehouse.database), []), ("an earlier publication", ["site"])):
        monkeypatch.setattr(runs, "read_site_state", lambda folder, built=built: built)
        assert launched(lake, warehouse) == expected


def test_the_first_tick_adds_everything_registered_and_the_next_nothing() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = add_partitions(dg.build_sensor_context(instance=instance))
        assert isinstance(result, dg.SensorResult)
        added = {request.partitions_def_name: list(request.partition_keys) for request in result.dynamic_partitions_requests or ()}
        assert added == {"release": list(releases_here()), "forecaster": forecasters(), "agent": list(agents())}
        for name, keys in added.items():
            instance.add_dynamic_partitions(name, keys)
        assert isinstance(add_partitions(dg.build_sensor_context(instance=instance)), dg.SkipReason)


def test_what_the_lake_has_is_added_where_dagster_knows_nothing_as_after_a_restoration(demo_copy: World) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = add_partitions(dg.build_sensor_context(instance=instance))
    assert isinstance(result, dg.SensorResult)
    added = {request.partitions_def_name: set(request.partition_keys) for request in result.dynamic_partitions_requests or ()}
    assert added["episode"] == {name for (name,) in demo_copy.lake.manifests(table("replay/episodes"))} != set()
    assert "sandbox-2026@20" in added["release"]


def test_a_new_forecaster_in_the_users_registry_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forecasters.toml").write_text('[mine]\ndescription = "Mine."\nkind = "constant"\np_yes = 0.4\n')
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("release", list(releases()))
        instance.add_dynamic_partitions("forecaster", list(available()))
        instance.add_dynamic_partitions("agent", list(agents()))
        monkeypatch.setenv("BELLWETHER_REGISTRY", str(tmp_path))
        settings.cache_clear()
        result = add_partitions(dg.build_sensor_context(instance=instance))
        assert isinstance(result, dg.SensorResult)
        assert [list(request.partition_keys) for request in result.dynamic_partitions_requests or ()] == [["mine"]]


def test_a_registry_that_cannot_be_read_fails_the_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forecasters.toml").write_text('[mine]\nkind = "constnat"\ndescription = "x"\n')
    monkeypatch.setenv("BELLWETHER_REGISTRY", str(tmp_path))
    settings.cache_clear()
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(ConfigError, match="constnat"):
        add_partitions(dg.build_sensor_context(instance=instance))


def test_the_registry_says_which_forecasters_lack_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text('[mine]\nmodel = "openai/mine"\nknowledge_cutoff = 2025-01-01\nworlds = ["sandbox", "live"]\n')
    monkeypatch.setenv("BELLWETHER_REGISTRY", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings.cache_clear()
    assert without_key()["mine"] == "key missing: OPENAI_API_KEY"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert "mine" not in without_key()
    settings.cache_clear()
