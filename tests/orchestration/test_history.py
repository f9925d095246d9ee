"""Dagster's history stays small, and what it says of partitions and checks outlives the runs."""

import logging
import lzma
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as db
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
from dagster._core.definitions.automation_tick_evaluation_context import AutomationTickEvaluationContext
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value
from dagster._core.storage.schedules.schema import AssetDaemonAssetEvaluationsTable

from assets.venues import runs
from bellwether.lake import Lake
from bellwether.settings import Settings
from bellwether.tables.raw import KALSHI_PULLS
from bellwether.venues.http.page import Page
from bellwether.venues.http.pages import PageStore
from orchestration.definitions import build_defs
from orchestration.event_log import EventLog
from orchestration.history import PRUNE, Pruned, compress, prune
from orchestration.home import prepare
from orchestration.orphans import Process
from orchestration.runner import Runner
from orchestration.schedule_storage import ScheduleStorage
from orchestration.sensors import compression
from resources import LakeResource

#: Most bytes by which the home may grow with a run over one day of both venues.
MOST_BYTES = 100_000


@dg.asset(partitions_def=dg.StaticPartitionsDefinition([str(number) for number in range(20)]))
def numbers(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    context.log.info("counted")
    return dg.MaterializeResult(metadata={"number": int(context.partition_key)})


@dg.asset_check(asset=numbers)
def whole() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["1", "2"]))
def fragile(context: dg.AssetExecutionContext) -> None:
    if context.run.tags.get("broken"):
        raise ValueError("broken")


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    prepare(Settings(home=tmp_path))
    with dg.DagsterInstance.get() as opened:
        yield opened


def materialize(instance: dg.DagsterInstance, partition: str) -> str:
    return dg.materialize([numbers, whole], instance=instance, partition_key=partition).run_id


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def stored(instance: dg.DagsterInstance) -> set[str]:
    return {path.name for path in (Path(instance.root_directory) / "history" / "runs").iterdir()}


def log_of(instance: dg.DagsterInstance) -> EventLog:
    log = instance.event_log_storage
    assert isinstance(log, EventLog)
    return log


def evaluated(defs: dg.Definitions, instance: dg.DagsterInstance, cursor: AssetDaemonCursor) -> tuple[AssetDaemonCursor, list[Any]]:
    """A tick of all conditions: its cursor, and the evaluations that the daemon stores."""
    graph = defs.resolve_asset_graph()
    tick = AutomationTickEvaluationContext(
        evaluation_id=cursor.evaluation_id + 1,
        instance=instance,
        asset_graph=graph,
        cursor=cursor,
        materialize_run_tags={},
        observe_run_tags={},
        auto_observe_asset_keys=set(),
        asset_selection=dg.AssetSelection.all(),
        asset_job_keys=set(),
        emit_backfills=False,
        default_condition=None,
        logger=logging.getLogger("tick"),
    )
    _, cursor, evaluations = tick.evaluate()
    return cursor, [one.with_run_ids(set()) for one in evaluations]


@pytest.mark.slow
def test_a_run_over_one_day_adds_at_most_100_kb_to_the_home(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    """With what the daemon stores of its conditions in the ticks after it: they look at every table."""
    defs, storage = build_defs(config=Settings(home=tmp_path)), instance.schedule_storage
    assert isinstance(storage, ScheduleStorage)
    runner = Runner(defs, instance)
    runs.series(runner)
    sizes, cursor = [], AssetDaemonCursor.empty(0)
    for day in (date(2026, 6, 1), date(2026, 6, 2), date(2026, 6, 3), date(2026, 6, 4), date(2026, 6, 5), date(2026, 6, 6)):
        runs.days(runner, day, day)
        for _ in range(2):
            cursor, evaluations = evaluated(defs, instance, cursor)
            with partition_loading_context(datetime.now(UTC), instance):
                storage.add_auto_materialize_asset_evaluations(cursor.evaluation_id, evaluations)
        log_of(instance)._close_all()
        instance.run_storage.dispose()
        storage.dispose()
        sizes.append(size(Path(instance.root_directory)))
    runner.close()
    assert (sizes[-1] - sizes[0]) / (len(sizes) - 1) <= MOST_BYTES, sizes


def test_a_compressed_run_reads_as_before_and_unpacks_to_dagsters_own_file(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    run = materialize(instance, "3")
    before = [str(event) for event in instance.all_logs(run)]
    compress(instance, [run])
    assert f"{run}.db" not in stored(instance)
    assert f"{run}.db.xz" in stored(instance)
    assert [str(event) for event in instance.all_logs(run)] == before
    assert run in log_of(instance).get_all_run_ids()
    own = tmp_path / "own"
    own.mkdir()
    (own / f"{run}.db").write_bytes(lzma.decompress((tmp_path / "dagster" / "history" / "runs" / f"{run}.db.xz").read_bytes()))
    assert [str(event) for event in SqliteEventLogStorage(str(own)).get_logs_for_run(run)] == before


def test_compressing_keeps_what_is_known_of_assets_and_checks(instance: dg.DagsterInstance) -> None:
    run = materialize(instance, "3")
    compress(instance, [run])
    event = instance.get_latest_materialization_event(dg.AssetKey("numbers"))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["number"].value == 3
    check = dg.AssetCheckKey(dg.AssetKey("numbers"), "whole")
    history = instance.event_log_storage.get_asset_check_execution_history(check, limit=5)
    assert [record.status.value for record in history] == ["SUCCEEDED"]
    assert history[0].event is not None


def test_compressing_keeps_which_partitions_have_failed(instance: dg.DagsterInstance) -> None:
    def run(partition: str, **tags: str) -> str:
        return dg.materialize([fragile], instance=instance, partition_key=partition, tags=tags, raise_on_error=False).run_id

    def states() -> list[list[str]]:
        partitions = fragile.partitions_def
        assert partitions is not None
        instance.event_log_storage.wipe_asset_cached_status(fragile.key)
        cached = get_and_update_asset_status_cache_value(instance, fragile.key, partitions)
        assert cached is not None
        return [
            sorted(subset.get_partition_keys())
            for subset in (
                cached.deserialize_materialized_partition_subsets(partitions),
                cached.deserialize_failed_partition_subsets(partitions),
                cached.deserialize_in_progress_partition_subsets(partitions),
            )
        ]

    def plan(partition: str) -> str | None:
        found = instance.get_latest_planned_materialization_info(fragile.key, partition)
        return found.run_id if found else None

    runs = [run("1", broken="yes"), run("1"), run("2"), run("2", broken="yes")]
    before = states()
    assert before == [["1", "2"], ["2"], []]
    assert [plan("1"), plan("2")] == [runs[1], runs[3]]
    compress(instance, runs)
    assert states() == before
    assert [plan("1"), plan("2")] == [None, runs[3]], "the first plan of partition 1 failed, the second came true"
    again = run("2")
    compress(instance, [again])
    assert states() == [["1", "2"], [], []]


def test_an_event_that_comes_late_unpacks_its_run(instance: dg.DagsterInstance) -> None:
    run = materialize(instance, "3")
    compress(instance, [run])
    before = len(instance.all_logs(run))
    instance.report_engine_event("one more thing", job_name="numbers", run_id=run)
    assert [event.message for event in instance.all_logs(run)][before:] == ["one more thing"]
    assert {f"{run}.db", f"{run}.db.xz"} & stored(instance) == {f"{run}.db"}
    compress(instance, [run])
    assert len(instance.all_logs(run)) == before + 1
    instance.delete_run(run)
    assert instance.all_logs(run) == []


def test_another_process_sees_a_run_that_is_compressed_while_it_looks(instance: dg.DagsterInstance) -> None:
    run = materialize(instance, "3")
    with dg.DagsterInstance.get() as other:
        before = len(other.all_logs(run))
        compress(instance, [run])
        assert len(other.all_logs(run)) == before


def test_pruning_removes_old_runs_and_keeps_what_was_made_when(instance: dg.DagsterInstance) -> None:
    key = dg.AssetKey("numbers")
    old = [materialize(instance, partition) for partition in ("1", "2", "1")]
    made = instance.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
    full = size(Path(instance.root_directory) / "history")
    pruned = prune(instance, timedelta(days=60), datetime.now(UTC) + timedelta(days=61))
    assert (pruned.compressed, pruned.removed) == (3, 3)
    assert pruned.bytes > full / 2
    assert instance.get_runs() == []
    assert not any(run in name for run in old for name in stored(instance))
    assert not any((Path(instance.storage_directory()) / run).exists() for run in old)
    assert instance.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION) == made
    assert len(instance.fetch_materializations(key, limit=10).records) == 2, "the first of partition 1 was superseded"
    assert dict(log_of(instance).get_latest_asset_check_execution_by_key([dg.AssetCheckKey(key, "whole")]))
    again = materialize(instance, "3")
    assert instance.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)["3"] > max(made.values())
    assert [run.run_id for run in instance.get_runs()] == [again]


def test_pruning_leaves_young_runs_and_those_under_way(instance: dg.DagsterInstance) -> None:
    young = materialize(instance, "1")
    under_way = instance.create_run_for_job(
        dg.define_asset_job("some").resolve(asset_graph=dg.Definitions([numbers]).resolve_asset_graph())
    )
    assert prune(instance, timedelta(days=60), datetime.now(UTC)) == Pruned(0, 0, 0), "it ended a moment ago"
    pruned = prune(instance, timedelta(days=60), datetime.now(UTC) + timedelta(days=1))
    assert (pruned.compressed, pruned.removed) == (1, 0)
    assert {run.run_id for run in instance.get_runs()} == {young, under_way.run_id}
    assert prune(instance, timedelta(days=1), datetime.now(UTC) + timedelta(days=9)).removed == 1
    assert [run.run_id for run in instance.get_runs()] == [under_way.run_id]


def test_runs_of_the_ui_are_compressed_a_while_after_their_end_and_nothing_is_launched(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [materialize(instance, partition) for partition in ("1", "2", "3")]
    young = compression(dg.build_sensor_context(instance=instance))
    assert isinstance(young, dg.SkipReason)
    assert {f"{run}.db" for run in runs} <= stored(instance), "they ended a moment ago"
    monkeypatch.setattr("orchestration.history.GRACE", timedelta(0))
    monkeypatch.setattr("orchestration.sensors._AT_ONCE", 2)
    said = [compression(dg.build_sensor_context(instance=instance)).skip_message for _ in range(3)]
    assert said == ["2 runs compressed", "1 runs compressed", "no run ended that is not compressed"]
    assert {f"{run}.db.xz" for run in runs} <= stored(instance)
    assert len(instance.get_runs()) == 3


def test_nothing_is_left_of_a_run_that_a_person_deletes(instance: dg.DagsterInstance) -> None:
    deleted, compressed, kept = (materialize(instance, partition) for partition in ("1", "2", "3"))
    compress(instance, [compressed])
    for run in (deleted, compressed):
        (Path(instance.storage_directory()) / run / "compute_logs").mkdir(parents=True, exist_ok=True)
        instance.delete_run(run)
        assert not [name for name in stored(instance) if name.startswith(run)]
    notes = Path(instance.storage_directory()) / "notes"
    notes.mkdir()
    assert prune(instance, timedelta(days=60), datetime.now(UTC)).removed == 0
    assert (Path(instance.storage_directory()) / deleted).exists(), "its process may still write"
    prune(instance, timedelta(days=60), datetime.now(UTC) + timedelta(days=1))
    left = {path.name for path in Path(instance.storage_directory()).iterdir()}
    assert not left & {deleted, compressed}
    assert "notes" in left
    assert [run.run_id for run in instance.get_runs()] == [kept]


def test_evaluations_of_conditions_are_kept_as_long_as_runs(instance: dg.DagsterInstance) -> None:
    storage = instance.schedule_storage
    assert storage is not None
    with storage.connect() as connection:  # type: ignore[attr-defined]  # of Dagster's SQL storages
        for created in ("2026-01-01 00:00:00", "2026-05-01 00:00:00"):
            row = {
                "evaluation_id": 1,
                "asset_key": created,
                "asset_evaluation_body": "{}",
                "create_timestamp": datetime.fromisoformat(created),
            }
            connection.execute(AssetDaemonAssetEvaluationsTable.insert(), row)
    prune(instance, timedelta(days=60), datetime(2026, 5, 2, tzinfo=UTC))
    with storage.connect() as connection:  # type: ignore[attr-defined]
        assert connection.execute(db.select(AssetDaemonAssetEvaluationsTable.c.asset_key)).scalars().all() == ["2026-05-01 00:00:00"]


def test_the_history_of_an_earlier_version_is_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "earlier"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as earlier:
        assert type(earlier.event_log_storage) is SqliteEventLogStorage
        run = materialize(earlier, "3")
        before = [str(event) for event in earlier.all_logs(run)]
    full = size(home / "history" / "runs")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    prepare(Settings(home=tmp_path))
    with dg.DagsterInstance.get() as instance:
        assert prune(instance, timedelta(days=60), datetime.now(UTC) + timedelta(days=1)).compressed == 1
        assert [str(event) for event in instance.all_logs(run)] == before
        assert instance.get_latest_materialization_event(dg.AssetKey("numbers")) is not None
    assert size(home / "history" / "runs") < full - 50_000


def test_the_locks_of_killed_processes_go_and_those_of_living_ones_stay(instance: dg.DagsterInstance) -> None:
    living = Process(instance)
    (Path(instance.root_directory) / "processes" / "4711-dead").touch()
    prune(instance, timedelta(days=60), datetime.now(UTC))
    assert [path.name for path in (Path(instance.root_directory) / "processes").iterdir()] == [living.name]
    living.close()


def test_the_schedules_job_prunes_runs_and_pages(instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = materialize(instance, "1")
    monkeypatch.setattr("orchestration.history.GRACE", timedelta(0))
    lake = Lake(str(tmp_path / "lake"))
    store = PageStore(lake.storage)
    for _ in range(3):
        pull = store.open("day", "2026-03-14", reuse=lambda note: False)
        pull.write("markets", Page("GET /markets", 200, datetime(2026, 3, 15, tzinfo=UTC), b"{}"))
        pull.finish({"markets": 1}, {})
    row = {"day": date(2026, 3, 14), "pull": "raw/kalshi_pages/day/2026-03-14/0002", "final": True, "requests": 1}
    times = dict.fromkeys(("started_at", "finished_at", "known_at"), datetime(2026, 3, 15, tzinfo=UTC))
    lake.write(KALSHI_PULLS, ("2026-03-14",), KALSHI_PULLS.frame([{**row, **times}]), run_id="pull")
    for path in (tmp_path / "lake" / "raw" / "kalshi_pages").rglob("*.*"):
        os.utime(path, (0, 0))
    assert PRUNE.execute_in_process(instance=instance, resources={"lake": LakeResource(uri=str(tmp_path / "lake"))}).success
    assert f"{run}.db.xz" in stored(instance)
    assert sorted(path.name for path in (tmp_path / "lake/raw/kalshi_pages/day/2026-03-14").iterdir()) == ["0002", "0003"]
