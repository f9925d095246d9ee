"""Runs are stored as Dagster stores them, through one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage

from orchestration.orphans import TAG
from orchestration.run_storage import RunStorage
from orchestration.runner import TAGS


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[RunStorage]:
    stored = RunStorage.from_config_value(None, {"home": str(tmp_path)})
    yield stored
    stored.dispose()


def run(number: int) -> dg.DagsterRun:
    return dg.DagsterRun("job", f"00000000-0000-0000-0000-{number:012d}", tags={"number": str(number)})


def test_dagsters_own_storage_reads_and_continues_the_file(runs: RunStorage, tmp_path: Path) -> None:
    for number in range(3):
        runs.add_run(run(number))
    runs.delete_run(run(1).run_id)
    own = SqliteRunStorage.from_local(str(tmp_path / "history"))
    assert [found.tags["number"] for found in own.get_runs()] == ["2", "0"]
    own.add_run(run(7))
    assert runs.get_runs_count() == 3
    assert runs.get_runs(dg.RunsFilter(tags={"number": "7"})) == [run(7)]


def test_a_run_of_a_command_is_one_of_the_code_location_and_others_stay_as_they_are(runs: RunStorage) -> None:
    runs.add_run(run(1))
    runs.add_run(run(2).with_tags({TAG: "4711-command"}))
    command, other = runs.get_runs()
    assert other.remote_job_origin is None
    assert command.remote_job_origin is not None
    assert command.remote_job_origin.job_name == "job"
    repository = command.remote_job_origin.repository_origin
    assert f"{repository.repository_name}@{repository.code_location_origin.location_name}" == TAGS[".dagster/repository"]


def test_many_statements_open_the_file_once(runs: RunStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine, opened = sqlite3.dbapi2.connect, []
    monkeypatch.setattr(sqlite3.dbapi2, "connect", lambda *args, **kwargs: opened.append(args) or genuine(*args, **kwargs))
    for number in range(20):
        runs.add_run(run(number))
    assert runs.get_runs_count() == 20
    assert len(opened) <= 1


def test_threads_that_write_at_once_lose_nothing(runs: RunStorage) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: runs.add_run(run(number)), range(200)))
    assert {found.tags["number"] for found in runs.get_runs()} == {str(number) for number in range(200)}


def test_a_home_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestration.home import settings_file

    (tmp_path / "dagster.yaml").write_text(settings_file())
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        assert isinstance(instance.run_storage, RunStorage)
        assert (tmp_path / "history" / "runs.db").is_file()
