"""Evaluations of automation conditions are stored small, and read as Dagster wrote them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
from dagster._core.definitions.automation_tick_evaluation_context import AutomationTickEvaluationContext
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage

from orchestration.home import settings_file
from orchestration.schedule_storage import ScheduleStorage

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-11-01")


@dg.asset(partitions_def=DAYS)
def pulls() -> None:
    """What was pulled of a day."""


@dg.asset(deps=[pulls], partitions_def=DAYS, automation_condition=dg.AutomationCondition.eager())
def cleaned() -> None:
    """What is made of it."""


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[ScheduleStorage]:
    made = ScheduleStorage.from_config_value(None, {"home": str(tmp_path)})
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def ticks() -> list[list[Any]]:
    """What the daemon stores in its first tick, and when one of many days is new."""
    with dg.DagsterInstance.ephemeral() as instance:
        defs = dg.Definitions([pulls, cleaned])
        cursor, found = AssetDaemonCursor.empty(0), list[list[Any]]()
        for day in ("2026-02-03", "2026-02-04"):
            context = AutomationTickEvaluationContext(
                evaluation_id=cursor.evaluation_id,
                instance=instance,
                asset_graph=defs.resolve_asset_graph(),
                cursor=cursor,
                materialize_run_tags={},
                observe_run_tags={},
                auto_observe_asset_keys=set(),
                asset_selection=dg.AssetSelection.all(),
                asset_job_keys=set(),
                emit_backfills=False,
                default_condition=None,
                logger=dg.get_dagster_logger(),
            )
            _, cursor, evaluated = context.evaluate()
            found.append([one.with_run_ids({"run"}) for one in evaluated])
            instance.report_runless_asset_event(dg.AssetMaterialization("pulls", partition=day))
    return found


@pytest.fixture(scope="module")
def first_evaluations(ticks: list[list[Any]]) -> list[Any]:
    return ticks[0]


@pytest.fixture(scope="module")
def evaluations(ticks: list[list[Any]]) -> list[Any]:
    return ticks[1]


def stored(folder: Path) -> list[int]:
    with sqlite3.connect(folder / "schedules" / "schedules.db") as file:
        rows = file.execute("SELECT length(CAST(asset_evaluation_body AS BLOB)) FROM asset_daemon_asset_evaluations").fetchall()
    return [size for (size,) in rows]


def test_an_evaluation_takes_a_tenth_and_reads_as_it_was(storage: ScheduleStorage, evaluations: list[Any], tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    own = SqliteScheduleStorage.from_local(str(tmp_path / "own" / "schedules"))
    for one in (storage, own):
        one.add_auto_materialize_asset_evaluations(7, evaluations)
        one.add_auto_materialize_asset_evaluations(7, evaluations)  # as the daemon does, once more with the ids of the runs
    assert len(stored(tmp_path)) == len(stored(tmp_path / "own")) == len(evaluations)
    assert sum(stored(tmp_path)) < sum(stored(tmp_path / "own")) / 10
    key = dg.AssetKey("cleaned")
    (read,) = storage.get_auto_materialize_asset_evaluations(key, limit=5)
    (genuine,) = own.get_auto_materialize_asset_evaluations(key, limit=5)
    assert read.get_evaluation_with_run_ids() == genuine.get_evaluation_with_run_ids() == evaluations[0]
    assert [one.serialized_evaluation_body for one in storage.get_auto_materialize_evaluations_for_evaluation_id(7)] == [
        one.serialized_evaluation_body for one in own.get_auto_materialize_evaluations_for_evaluation_id(7)
    ]


def test_of_evaluations_that_request_nothing_the_latest_stay(
    storage: ScheduleStorage, evaluations: list[Any], first_evaluations: list[Any]
) -> None:
    key = dg.AssetKey("cleaned")
    (requesting,) = evaluations
    (nothing,) = first_evaluations
    assert [requesting.num_requested, nothing.num_requested] == [1, 0]
    for number in range(20):
        storage.add_auto_materialize_asset_evaluations(number, [requesting if number % 10 == 0 else nothing])
    found = [one.evaluation_id for one in storage.get_auto_materialize_asset_evaluations(key, limit=50)]
    assert found == [19, 18, 17, 10, 0]


def test_what_dagsters_own_storage_wrote_is_read(evaluations: list[Any], tmp_path: Path) -> None:
    SqliteScheduleStorage.from_local(str(tmp_path / "schedules")).add_auto_materialize_asset_evaluations(7, evaluations)
    storage = ScheduleStorage.from_config_value(None, {"home": str(tmp_path)})
    (read,) = storage.get_auto_materialize_asset_evaluations(dg.AssetKey("cleaned"), limit=5)
    assert read.get_evaluation_with_run_ids() == evaluations[0]
    storage.dispose()


def test_many_statements_open_the_file_once(storage: ScheduleStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine, opened = sqlite3.dbapi2.connect, []
    monkeypatch.setattr(sqlite3.dbapi2, "connect", lambda *args, **kwargs: opened.append(args) or genuine(*args, **kwargs))
    for _ in range(20):
        assert storage.all_instigator_state() == []
    assert len(opened) <= 1


def test_a_home_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dagster.yaml").write_text(settings_file())
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        assert isinstance(instance.schedule_storage, ScheduleStorage)
        assert (tmp_path / "schedules" / "schedules.db").is_file()
