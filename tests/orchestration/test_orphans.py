"""Runs of killed processes are ended and give their pool slots back; those of living ones are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from orchestration.orphans import TAG, UI, Process, end_orphans, of_killed_processes, of_the_ui


@dg.job
def nothing() -> None:
    """A job without steps, whose runs only have a status here."""


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


def test_a_run_whose_process_is_gone_is_ended_and_its_slot_is_free(instance: dg.DagsterInstance) -> None:
    instance.event_log_storage.set_concurrency_slots("pool", 1)
    run = started(instance, {TAG: "123-gone"})
    assert instance.event_log_storage.claim_concurrency_slot("pool", run.run_id, "step").is_claimed
    assert end_orphans(instance, of_killed_processes(instance)) == [run.run_id]
    assert status(instance, run) == dg.DagsterRunStatus.FAILURE
    other = started(instance, {})
    assert instance.event_log_storage.claim_concurrency_slot("pool", other.run_id, "step").is_claimed


def test_a_run_whose_process_lives_is_left_alone(instance: dg.DagsterInstance) -> None:
    process = Process(instance)
    run = started(instance, process.tags)
    assert end_orphans(instance, of_killed_processes(instance)) == []
    process.close()
    assert end_orphans(instance, of_killed_processes(instance)) == [run.run_id]


def test_runs_of_the_ui_and_of_the_command_line_are_told_apart(instance: dg.DagsterInstance) -> None:
    process = Process(instance)
    mine, theirs = started(instance, process.tags), started(instance, {})
    assert end_orphans(instance, of_the_ui) == [theirs.run_id]
    assert status(instance, mine) == dg.DagsterRunStatus.STARTED


def test_finished_runs_stay_as_they_are(instance: dg.DagsterInstance) -> None:
    instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.SUCCESS, tags={TAG: "123-gone"})
    assert end_orphans(instance, of_killed_processes(instance)) == []


def test_only_one_ui_serves_a_world(instance: dg.DagsterInstance) -> None:
    first, second = Process(instance, UI), Process(instance, UI)
    assert first.held
    assert not second.held
