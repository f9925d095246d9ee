"""Commands of one node whose runs a worker of another node executes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import psycopg
import pytest

from deploy import loopback
from deploy.loopback import Process, Processes
from orchestration.orphans import TAG, end_orphans, queue_again
from orchestration.progress import progress
from orchestration.runner import Runner
from tests.shared import wait_until

pytestmark = [pytest.mark.fleet, pytest.mark.slow]
BELLWETHER = Path(sys.executable).with_name("bellwether")


@dataclass
class Nodes:
    """Nodes with homes of their own, and the Postgres that they share."""

    folder: Path
    settings: dict[str, str]

    def environment(self, node: str) -> dict[str, str]:
        return {**self.settings, "BELLWETHER_HOME": str(self.folder / f"home-{node}")}

    def begin(self, node: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [BELLWETHER, *words],
            env=self.environment(node),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def runs(self, job: str) -> dict[str, str]:
        """Statuses of the runs of a job by their ids."""
        with psycopg.connect(self.settings["BELLWETHER_POSTGRES"]) as database:
            return dict(database.execute("SELECT run_id, status FROM runs WHERE pipeline_name = %s ORDER BY id", [job]).fetchall())


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Node `a` has the UI with its daemon and one worker; commands are given on others."""
    with Processes() as processes:
        postgres, redis = loopback.postgres(processes), loopback.redis(processes)
        (port,) = loopback.free_ports(1)
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "NUMBA_CACHE_DIR") if name in os.environ}
        made = Nodes(
            processes.folder,
            {
                **inherited,
                "DAGSTER_DISABLE_TELEMETRY": "1",
                "BELLWETHER_FLEET": "celery",
                "BELLWETHER_WORKERS": "1",
                "BELLWETHER_POSTGRES": postgres.url,
                "BELLWETHER_BROKER": redis.url,
                "BELLWETHER_UI": f"http://127.0.0.1:{port}",
                "BELLWETHER_STORE": str(processes.folder / "store"),
            },
        )
        for name, words in {"ui": ["ui", "--port", str(port)], "worker": ["worker", "--name", "a"]}.items():
            folder = processes.folder / name
            folder.mkdir()

            def is_ready(name: str = name) -> bool:
                log = processes.folder / "worker.log"
                return loopback.is_listening(port) if name == "ui" else "Worker a is ready" in log.read_text()

            processes.start(Process([BELLWETHER, *words], folder, is_ready, environment=made.environment("a"), patience=300))
        yield made


@dg.job(logger_defs={"progress": progress})
def nothing() -> None:
    """A job without steps, whose runs only have a status here."""


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
        assert end_orphans(instance, of_ui=True) == queue_again(instance) == []
        assert [instance.get_run_by_id(run.run_id).status.value for run in theirs] == ["STARTED", "STARTED"]
        assert not (tmp_path / "processes").exists() or not list((tmp_path / "processes").iterdir())


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_terminated_command_leaves_its_runs_and_the_same_command_follows_them(nodes: Nodes) -> None:
    command = nodes.begin("b", "pull", "2026-05-01", "2026-05-16")
    wait_until(lambda: command.poll() is not None or list(nodes.runs("days").values()).count("STARTED") == 2, "two runs have started", 300)
    before = cpu_seconds(command.pid)
    time.sleep(5)
    assert cpu_seconds(command.pid) - before < 1.0, "seconds of processor time while it waits for 5"
    assert not list((nodes.folder / "home-b").rglob("processes")), "it takes no locks"

    begun = time.monotonic()
    command.send_signal(signal.SIGTERM)
    text, _ = command.communicate(timeout=60)
    took = time.monotonic() - begun
    mine = nodes.runs("days")
    assert took < 10, "1.5 s on an idle machine"
    assert len(mine) == 2 and all(run_id in text for run_id in mine), text
    assert f"Follow or cancel at {nodes.settings['BELLWETHER_UI']}/runs" in text
    assert not {"CANCELED", "CANCELING", "FAILURE"} & set(mine.values())

    again = nodes.begin("c", "pull", "2026-05-01", "2026-05-16")
    text, _ = again.communicate(timeout=500)
    assert again.returncode == 0, text
    assert nodes.runs("days") == dict.fromkeys(mine, "SUCCESS"), text
    fresh = nodes.begin("b", "pull", "2026-05-01", "2026-05-16")
    text, _ = fresh.communicate(timeout=300)
    assert fresh.returncode == 0 and nodes.runs("days").keys() == mine.keys(), text
