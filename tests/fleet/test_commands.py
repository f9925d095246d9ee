"""Commands on one node whose runs are executed by a worker on another node."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from deploy.fleet import Fleet
from deploy.loopback import Process
from orchestration.orphaned_runs import TAG, end_orphans, requeue_runs
from orchestration.progress import progress
from orchestration.runner import Runner
from tests.shared import wait_until

pytestmark = [pytest.mark.fleet, pytest.mark.nightly]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    """A UI with its daemon and one worker. Tests run commands on other nodes."""
    with Fleet(workers=1) as running:
        yield running


def runs(fleet: Fleet, job: str) -> dict[str, str]:
    """Return the status of each run of a job by run id."""
    import psycopg

    with psycopg.connect(fleet.postgres.url) as database:
        return dict(database.execute("SELECT run_id, status FROM runs WHERE pipeline_name = %s ORDER BY id", [job]).fetchall())


@dg.job(logger_defs={"progress": progress})
def nothing() -> None:
    """A job without steps. Its runs have a status and no work."""


def test_a_machine_of_its_own_on_a_shared_postgres_ends_no_runs(postgres_server: Process, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait(60)
    storage = {"postgres": {"postgres_url": postgres_server.url.replace("postgresql:", "postgresql+psycopg2:")}}
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides={"storage": storage}) as instance:
        theirs = [instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED, tags=tags) for tags in ({}, {TAG: "1-killed"})]
        for run in theirs:
            instance.report_dagster_event(dg.DagsterEvent("STEP_START", "nothing", step_key="one", pid=gone.pid), run_id=run.run_id)
        work = Runner(dg.Definitions(jobs=[nothing]), instance)
        work.launch(nothing, "nothing")
        assert end_orphans(instance, of_ui=True) == requeue_runs(instance) == []
        assert [instance.get_run_by_id(run.run_id).status.value for run in theirs] == ["STARTED", "STARTED"]
        assert not (tmp_path / "processes").exists() or not list((tmp_path / "processes").iterdir())


def test_an_interrupted_command_cancels_its_backfill_and_a_killed_one_leaves_it(fleet: Fleet) -> None:
    words = ("pull", "2026-08-01", "2026-08-16")
    command = fleet.begin(*words, node="b")
    wait_until(lambda: command.poll() is not None or "STARTED" in runs(fleet, "days").values(), "a run has started", 300)
    assert not list(Path(fleet.environment("b")["BELLWETHER_HOME"]).rglob("processes")), "it takes no locks"
    command.send_signal(signal.SIGTERM)
    text, _ = command.communicate(timeout=60)
    assert "/runs/b/" in text and "continues from there" in text
    wait_until(lambda: set(runs(fleet, "days").values()) <= {"CANCELED", "SUCCESS"}, "the backfill is canceled", 300)
    canceled = runs(fleet, "days")
    assert "CANCELED" in canceled.values()

    command = fleet.begin(*words, node="c")
    wait_until(lambda: command.poll() is not None or "STARTED" in runs(fleet, "days").values(), "a run has started", 300)
    command.kill()
    command.communicate()
    wait_until(lambda: set(list(runs(fleet, "days").values())[len(canceled) :]) == {"SUCCESS"}, "Dagster finishes the backfill", 500)
    ended = runs(fleet, "days")
    text, _ = (fresh := fleet.begin(*words, node="b")).communicate(timeout=300)
    assert fresh.returncode == 0 and runs(fleet, "days") == ended, text
