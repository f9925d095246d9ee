"""Ctrl-C and SIGTERM cancel the run of a command. The command prints what is stored, and continues when it is repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from bellwether.lake import Lake
from bellwether.progress import Silent
from bellwether.settings import Venue
from bellwether.tables import table
from orchestration.orphaned_runs import ProcessLock
from orchestration.progress import progress
from orchestration.runner import Runner
from tests.orchestration.conftest import SILENT
from tests.shared import wait_until

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "bellwether", "pull", "2026-05-01", "2026-05-03"]


def start(home: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "BELLWETHER_HOME": str(home), "PYTHONPATH": str(ROOT)}
    environment.pop("DAGSTER_HOME", None)
    return subprocess.Popen(COMMAND, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def pages(lake: Path) -> set[str]:
    """Return the files of pages. Folders may disappear, because the end of a pull merges its pages into one file."""
    return {f"{folder}/{name}" for venue in Venue for folder, _, names in os.walk(lake / f"raw/{venue}_pages/day") for name in names}


@dg.op(pool="venue")
def call() -> None:
    """Send one request to a venue."""


@dg.job(logger_defs={"progress": progress})
def calls() -> None:
    """A job that needs the venue's pool."""
    call()


def test_a_command_that_waits_for_a_pool_ends_with_a_signal_and_goes_on_when_the_pool_is_free(tmp_path: Path) -> None:
    class Say(Silent):
        def say(self, line: str) -> None:
            if "waiting for another run, which uses venue" in line:
                acts.pop()()

    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=SILENT) as instance:
        instance.event_log_storage.set_concurrency_slots("venue", 1)
        other = ProcessLock(instance)
        acts = [other.close, lambda: os.kill(os.getpid(), signal.SIGINT)]
        run = instance.create_run_for_job(calls, status=dg.DagsterRunStatus.STARTED, tags=other.tags)
        assert instance.event_log_storage.claim_concurrency_slot("venue", run.run_id, "call").is_claimed
        work = Runner(dg.Definitions(jobs=[calls]), instance, Say())
        with pytest.raises(KeyboardInterrupt):
            work.launch(calls, "calls")
        assert [one.run_id for one in instance.get_runs()] == [run.run_id]
        work.launch(calls, "calls")
        assert sorted(one.status.value for one in instance.get_runs()) == ["FAILURE", "SUCCESS"]
        work.close()


@pytest.mark.slow
def test_a_stopped_command_keeps_what_it_has_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "sandbox" / "lake"
    for number in (signal.SIGINT, signal.SIGTERM):
        before = pages(lake)
        process = start(tmp_path)
        wait_until(lambda process=process, before=before: process.poll() is not None or pages(lake) - before, "a page is stored")
        process.send_signal(number)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 1, said
        assert "Traceback" not in said
        assert "Stopped at: days 2026-05-01 to 2026-05-03. Kept: " in said
        assert "continues from there" in said
    process = start(tmp_path)
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said + out
    assert len(Lake(str(lake)).manifests(table("clean/markets"))) == 3
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "sandbox" / "dagster"))
    with dg.DagsterInstance.from_config(str(tmp_path / "sandbox" / "dagster")) as instance:
        found = [run.status for run in instance.get_runs(dg.RunsFilter(job_name="days"))]
    assert sorted(status.value for status in found) == ["CANCELED", "CANCELED", "SUCCESS"]
