"""Runs of killed processes are ended and their pool slots released. Runs of living processes stay unchanged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from bellwether.settings import settings
from orchestration.orphaned_runs import TAG, UI, ProcessLock, end_orphans, is_orphan, requeue_runs, running_commands, ui_note
from orchestration.run_priority import COMMAND, LAUNCHED_BY

#: A process id above the maximum of Linux.
NO_PROCESS = 2**22 + 1


@dg.job
def nothing() -> None:
    """A job without steps. Its runs have a status and no work."""


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


def started(instance: dg.DagsterInstance, tags: dict[str, str]) -> dg.DagsterRun:
    return instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED, tags=tags)


def status(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRunStatus:
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


def killed(instance: dg.DagsterInstance) -> dict[str, str]:
    """Return the tags of the runs of a killed command."""
    process = ProcessLock(instance)
    process.close()
    return process.tags


def test_a_run_whose_process_is_gone_is_ended_and_its_slot_is_free(instance: dg.DagsterInstance) -> None:
    instance.event_log_storage.set_concurrency_slots("pool", 1)
    run = started(instance, killed(instance))
    assert instance.event_log_storage.claim_concurrency_slot("pool", run.run_id, "step").is_claimed
    assert end_orphans(instance) == [run.run_id]
    assert status(instance, run) == dg.DagsterRunStatus.FAILURE
    other = started(instance, {})
    assert instance.event_log_storage.claim_concurrency_slot("pool", other.run_id, "step").is_claimed


def test_without_a_ui_a_command_ends_the_runs_of_its_dead_processes(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, alive = started(instance, {}), started(instance, {})
    for run, pid in ((dead, NO_PROCESS), (alive, os.getpid())):
        instance.report_dagster_event(dg.DagsterEvent("STEP_START", "nothing", step_key="one", pid=pid), run_id=run.run_id)
    ui = ProcessLock(instance, UI)
    assert end_orphans(instance) == []
    ui.close()
    assert end_orphans(instance) == [dead.run_id]
    assert (status(instance, dead), status(instance, alive)) == (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED)


def test_a_run_whose_process_lives_is_left_alone(instance: dg.DagsterInstance) -> None:
    process = ProcessLock(instance)
    run = started(instance, process.tags)
    assert end_orphans(instance) == []
    process.close()
    assert end_orphans(instance) == [run.run_id]


def test_runs_of_the_ui_and_of_commands_are_distinguished(instance: dg.DagsterInstance) -> None:
    process = ProcessLock(instance)
    mine, theirs = started(instance, process.tags), started(instance, {})
    assert end_orphans(instance) == []
    assert end_orphans(instance, of_ui=True) == [theirs.run_id]
    assert status(instance, mine) == dg.DagsterRunStatus.STARTED


OTHER = {"run_launcher": {"module": "dagster._core.launcher.sync_in_memory_run_launcher", "class": "SyncInMemoryRunLauncher", "config": {}}}


@pytest.mark.parametrize("case", ["fleet", "shared database", "launcher"])
def test_where_runs_may_be_of_other_machines_nothing_is_locked_or_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    (tmp_path / "here").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "here")) as here:
        dead = killed(here)
    if case == "fleet":
        monkeypatch.setenv("BELLWETHER_FLEET", "celery")
    settings.cache_clear()
    with dg.DagsterInstance.local_temp(str(tmp_path / "here"), overrides=OTHER if case == "launcher" else {}) as instance:
        if case == "shared database":
            monkeypatch.setattr(instance.run_storage, "__class__", type("PostgresRunStorage", (type(instance.run_storage),), {}))
        runs = [started(instance, tags) for tags in (dead, {TAG: "a/b"}, {})]
        process = ProcessLock(instance)
        assert (process.tags, process.held) == ({}, False)
        assert not (tmp_path / "here" / "processes" / process.name).exists()
        assert not any(is_orphan(instance, run) for run in runs)
        assert end_orphans(instance, of_ui=True) == end_orphans(instance) == requeue_runs(instance) == []
        assert {status(instance, run) for run in runs} == {dg.DagsterRunStatus.STARTED}
        assert running_commands(instance) == []
        command = started(instance, {LAUNCHED_BY: COMMAND})
        assert running_commands(instance) == [command.run_id]
        instance.report_run_canceled(command)
        assert running_commands(instance) == []
        process.close()
    settings.cache_clear()


def test_finished_runs_stay_unchanged(instance: dg.DagsterInstance) -> None:
    instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.SUCCESS, tags=killed(instance))
    assert end_orphans(instance) == []


def test_only_one_ui_serves_a_world_and_its_note_can_be_read_until_it_ends(instance: dg.DagsterInstance) -> None:
    assert ui_note(instance) is None
    first, second = ProcessLock(instance, UI), ProcessLock(instance, UI)
    assert (first.held, second.held) == (True, False)
    first.write("a longer note")
    first.write("a note")
    assert ui_note(instance) == "a note"
    second.close()
    first.close()
    assert ui_note(instance) is None


def test_a_command_runs_until_it_ends_however_it_ends(instance: dg.DagsterInstance) -> None:
    assert running_commands(instance) == []
    ui, process = ProcessLock(instance, UI), ProcessLock(instance)
    assert running_commands(instance) == [process.name]
    process.close()
    stale = Path(instance.root_directory) / "processes" / "4711-killed"
    stale.touch()
    assert running_commands(instance) == [], "the UI is no command, and a killed one has ended"
    end_orphans(instance)
    assert not stale.exists()
    ui.close()
