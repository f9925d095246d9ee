"""Commands on one node whose runs are executed by a worker on another node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_terminated_command_leaves_its_runs_and_the_same_command_follows_them(fleet: Fleet) -> None:
    command = fleet.begin("pull", "2026-08-01", "2026-08-16", node="b")
    wait_until(lambda: command.poll() is not None or list(runs(fleet, "days").values()).count("STARTED") == 2, "two runs have started", 300)
    before = cpu_seconds(command.pid)
    time.sleep(5)
    assert cpu_seconds(command.pid) - before < 1.0, "seconds of processor time while it waits for 5"
    assert not list(Path(fleet.environment("b")["BELLWETHER_HOME"]).rglob("processes")), "it takes no locks"

    begun = time.monotonic()
    command.send_signal(signal.SIGTERM)
    text, _ = command.communicate(timeout=60)
    took = time.monotonic() - begun
    mine = runs(fleet, "days")
    assert took < 10, "1.5 s on an idle machine"
    assert len(mine) == 2 and all(run_id in text for run_id in mine), text
    assert f"Follow or cancel at {fleet.settings['BELLWETHER_UI']}/runs" in text
    assert not {"CANCELED", "CANCELING", "FAILURE"} & set(mine.values())

    again = fleet.begin("pull", "2026-08-01", "2026-08-16", node="c")
    text, _ = again.communicate(timeout=500)
    assert again.returncode == 0, text
    assert runs(fleet, "days") == dict.fromkeys(mine, "SUCCESS"), text
    fresh = fleet.begin("pull", "2026-08-01", "2026-08-16", node="b")
    text, _ = fresh.communicate(timeout=300)
    assert fresh.returncode == 0 and runs(fleet, "days").keys() == mine.keys(), text
