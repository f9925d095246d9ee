"""Dagster's history through our event log is Dagster's own history."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

from bellwether.settings import Settings
from orchestration.event_log import EventLog
from orchestration.home import prepare

ROOT = Path(__file__).resolve().parents[2]


@dg.asset(partitions_def=dg.StaticPartitionsDefinition([str(number) for number in range(20)]))
def numbers(context: dg.AssetExecutionContext) -> None:
    context.log.info("counted")


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dg.DagsterInstance:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    prepare(Settings(home=tmp_path))
    return dg.DagsterInstance.get()


def materialize(instance: dg.DagsterInstance, partition: str) -> str:
    return dg.materialize([numbers], instance=instance, partition_key=partition).run_id


def test_the_home_of_a_world_uses_it_and_dagsters_own_storage_reads_it(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    assert isinstance(instance.event_log_storage, EventLog)
    run = materialize(instance, "3")
    written = [str(event) for event in instance.all_logs(run)]
    own = SqliteEventLogStorage(str(tmp_path / "dagster" / "history" / "runs"))
    assert [str(event) for event in own.get_logs_for_run(run)] == written
    assert own.get_materialized_partitions(dg.AssetKey("numbers")) == {"3"}


@pytest.mark.slow
def test_processes_share_it(instance: dg.DagsterInstance) -> None:
    code = (
        "import sys, dagster as dg\n"
        "from tests.orchestration.test_event_log import numbers\n"
        "with dg.DagsterInstance.get() as instance:\n"
        "    for key in sys.argv[1:]: dg.materialize([numbers], instance=instance, partition_key=key)"
    )
    halves = [[str(number) for number in range(start, start + 4)] for start in (0, 4)]
    processes = [subprocess.Popen([sys.executable, "-c", code, *half], cwd=ROOT, stderr=subprocess.DEVNULL) for half in halves]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert instance.get_materialized_partitions(dg.AssetKey("numbers")) == {str(number) for number in range(8)}


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a", "b", "c"]), backfill_policy=dg.BackfillPolicy.single_run())
def letters(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    for key in context.partition_keys:
        context.add_asset_metadata({"letter": key}, partition_key=key)
    return dg.MaterializeResult(data_version=dg.DataVersion("7"))


@dg.asset_check(asset=letters)
def sound() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


def history(instance: dg.DagsterInstance) -> dict[str, Any]:
    """What can be asked of a log after a run over three partitions."""
    with instance:
        tags = {"dagster/asset_partition_range_start": "a", "dagster/asset_partition_range_end": "c"}
        job = dg.Definitions([letters], asset_checks=[sound]).resolve_implicit_global_asset_job_def()
        run = job.execute_in_process(instance=instance, tags=tags).run_id
        log, key = instance.event_log_storage, dg.AssetKey("letters")
        entry = instance.get_latest_materialization_event(key)
        assert entry is not None and entry.asset_materialization is not None
        check = log.get_latest_asset_check_execution_by_key([dg.AssetCheckKey(key, "sound")])
        return {
            "kinds": [
                (event.dagster_event_type, event.dagster_event and event.dagster_event.partition) for event in instance.all_logs(run)
            ],
            "numbers": list(log.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)),
            "planned": list(log.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)),
            "tags": {
                name: sorted(found.items() - {("dagster/run_id", run)})
                for name, found in log.get_latest_tags_by_partition(
                    key, dg.DagsterEventType.ASSET_MATERIALIZATION, tag_keys=["dagster/data_version"]
                ).items()
            },
            "last": (entry.asset_materialization.partition, entry.asset_materialization.metadata["letter"].value),
            "keys": log.get_asset_records([key])[0].asset_entry.last_run_id == run,
            "checks": [(found.status.value, found.run_id == run) for found in check.values()],
            "status": [
                found.event_log_entry.dagster_event_type
                for found in instance.fetch_run_status_changes(dg.DagsterEventType.PIPELINE_SUCCESS, 5).records
            ],
        }


def test_a_batch_leaves_what_single_events_would(instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batched: list[int] = []
    store = EventLog.store_event_batch
    monkeypatch.setattr(EventLog, "store_event_batch", lambda log, events: (batched.append(len(events)), store(log, events))[1])
    ours = history(instance)
    assert batched == [4, 3], "events planned, and materializations"
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "0")
    (tmp_path / "own").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "own")) as own:
        assert type(own.event_log_storage) is SqliteEventLogStorage
        assert ours == history(own)
    assert ours["planned"] == ours["numbers"] == ["a", "b", "c"]
    assert ours["last"] in {(partition, partition) for partition in "abc"}, "Dagster promises no order"
    assert ours["checks"] == [("SUCCEEDED", True)]


def test_partitions_that_another_process_adds_or_deletes_are_seen_at_once(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    other = SqliteEventLogStorage(str(tmp_path / "dagster" / "history" / "runs"))
    key = 'it\'s; a "key" | ünï'
    assert not instance.has_dynamic_partition("forecaster", key)
    other.add_dynamic_partitions("forecaster", [key])
    assert instance.has_dynamic_partition("forecaster", key)
    assert not instance.has_dynamic_partition("agent", key)
    assert not instance.has_dynamic_partition("forecaster", key.upper())
    other.delete_dynamic_partition("forecaster", key)
    assert not instance.has_dynamic_partition("forecaster", key)
    other.dispose()


def test_a_live_view_hears_of_events_while_the_writers_files_stay_open(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    run = materialize(instance, "1")
    heard: list[str] = []
    watcher = EventLog(str(tmp_path / "dagster" / "history" / "runs"))
    watcher.watch(run, None, lambda event, cursor: heard.append(event.message))
    instance.report_engine_event("the engine stutters", job_name="numbers", run_id=run)
    deadline = time.monotonic() + 30
    while "the engine stutters" not in heard and time.monotonic() < deadline:
        time.sleep(0.02)
    watcher.dispose()
    assert "the engine stutters" in heard


def test_what_was_removed_is_made_anew_and_few_files_stay_open(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    runs = [materialize(instance, str(number)) for number in range(20)]
    log = instance.event_log_storage
    assert isinstance(log, EventLog)
    folder = tmp_path / "dagster" / "history" / "runs"
    opened = [Path(os.readlink(f"/proc/self/fd/{name}")) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
    assert len({path.name for path in opened if path.parent == folder and path.suffix == ".db"}) <= 16
    assert all(instance.all_logs(run) for run in runs)
    log.wipe()
    assert not list(folder.glob(f"{runs[0]}*"))
    assert materialize(instance, "0")
    assert log.get_materialized_partitions(dg.AssetKey("numbers")) == {"0"}
