"""The UI: it stops so that its runs continue at the next start, and works beside commands of its home."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from bellwether.errors import BellwetherError, ConfigError
from bellwether.lake import Lake
from bellwether.lake.recovery import verify
from bellwether.settings import Settings
from bellwether.tables import table
from orchestration import server
from orchestration.home import LOCATION, REPOSITORY, prepare
from orchestration.orphaned_runs import TAG, UI, ProcessLock, is_running, requeue_runs
from tests.demo_home import LAST
from tests.shared import wait_until

ROOT = Path(__file__).resolve().parents[2]
#: Replacement for Dagster: a parent and a child that answer on its port and refuse to end on request.
SERVER = """
import os, signal, socket, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: open(sys.argv[2], "a").write("was asked to end"))
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if os.fork() == 0:
    open(sys.argv[2], "a").write(f"{os.getpid()} ")
while True:
    time.sleep(1)
"""


#: Location of a job launched by the UI, as Dagster stores it.
ORIGIN = {
    "__class__": "ExternalPipelineOrigin",
    "external_repository_origin": {
        "__class__": "ExternalRepositoryOrigin",
        "repository_location_origin": {
            "__class__": "ManagedGrpcPythonEnvRepositoryLocationOrigin",
            "loadable_target_origin": {"__class__": "LoadableTargetOrigin", "module_name": "orchestration.definitions"},
            "location_name": "bellwether",
        },
        "repository_name": "__repository__",
    },
    "pipeline_name": "days",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    return tmp_path


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


def run(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, tags: dict[str, str] | None = None) -> dg.DagsterRun:
    """Run launched by the UI."""
    origin = dg.deserialize_value(json.dumps(ORIGIN))
    return instance.add_run(
        dg.DagsterRun(job_name="days", run_id=str(uuid.uuid4()), status=status, tags=tags or {}, remote_job_origin=origin)
    )


def status(instance: dg.DagsterInstance, one: dg.DagsterRun) -> dg.DagsterRunStatus:
    found = instance.get_run_by_id(one.run_id)
    assert found is not None
    return found.status


def test_runs_under_way_are_queued_again_and_give_their_slots_back(instance: dg.DagsterInstance) -> None:
    instance.event_log_storage.set_concurrency_slots("pool", 1)
    started, finished = run(instance, dg.DagsterRunStatus.STARTED), run(instance, dg.DagsterRunStatus.SUCCESS)
    canceling, command = run(instance, dg.DagsterRunStatus.CANCELING), run(instance, dg.DagsterRunStatus.STARTED, {TAG: "1-x"})
    assert instance.event_log_storage.claim_concurrency_slot("pool", started.run_id, "step").is_claimed
    assert requeue_runs(instance) == [started.run_id]
    assert status(instance, started) is dg.DagsterRunStatus.QUEUED
    assert status(instance, canceling) is dg.DagsterRunStatus.CANCELED
    assert status(instance, finished) is dg.DagsterRunStatus.SUCCESS
    assert status(instance, command) is dg.DagsterRunStatus.STARTED
    assert instance.event_log_storage.claim_concurrency_slot("pool", canceling.run_id, "step").is_claimed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_dagster_at_once_and_keeps_its_runs(
    home: Path, port: int, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    notes = home / "notes"
    monkeypatch.setattr(server, "dagster_command", lambda *_: [sys.executable, "-c", SERVER, str(port), str(notes)])
    said: list[str] = []
    runs: list[dg.DagsterRun] = []

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("Ready"):
            with dg.DagsterInstance.get() as instance:
                runs.append(run(instance, dg.DagsterRunStatus.STARTED))
            wait_until(lambda: notes.exists() and notes.read_text().endswith(" "), "the child of the server has started")
            os.kill(os.getpid(), number)

    assert server.serve(Settings(home=home), port, say) == 0
    assert f"http://127.0.0.1:{port}" in said[1]
    assert "1 run in progress: queued" in said[-1]
    assert notes.read_text().strip().isdigit(), "no process was asked to end before it ended"
    wait_until(lambda: not is_running(int(notes.read_text())), "the child of the server has ended")
    with dg.DagsterInstance.get() as instance:
        assert status(instance, runs[0]) is dg.DagsterRunStatus.QUEUED
        assert ProcessLock(instance, UI).held, "the next UI cannot start"


def test_the_log_of_the_previous_start_is_kept(home: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; print(sys.argv[1], flush=True); sys.exit(3)"
    for number in ("first", "second"):
        monkeypatch.setattr(server, "dagster_command", lambda *_, number=number: [sys.executable, "-c", code, number])
        assert server.serve(Settings(home=home), port, lambda _: None) == 3
    assert "second" in (home / "dagster" / "ui.log").read_text()
    assert "first" in (home / "dagster" / "ui.log.1").read_text()


def test_code_is_loaded_from_where_it_is_and_not_from_the_present_folder(home: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; print('first:', repr(sys.path[0])); print(open(sys.argv[1]).read()); sys.exit(3)"
    monkeypatch.setattr(server, "dagster_command", lambda port, workspace, host: [sys.executable, "-c", code, str(workspace)])
    said: list[str] = []
    assert server.serve(Settings(home=home), port, said.append) == 3
    assert "first: ''" not in said[-1]
    assert f'"working_directory": "{Path(server.__file__).resolve().parent.parent}"' in said[-1]


def test_a_home_that_cannot_be_written_is_one_clear_error(home: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def get() -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(dg.DagsterInstance, "get", get)
    with pytest.raises(BellwetherError, match=r"readonly database.*set BELLWETHER_HOME to another place"):
        server.serve(Settings(home=home), port, lambda _: None)


def test_another_ui_is_named_with_its_address(home: Path, port: int) -> None:
    config = Settings(home=home)
    prepare(config)
    with dg.DagsterInstance.get() as instance, closing(ProcessLock(instance, UI)) as ui:
        ui.write(f"http://127.0.0.1:{port} (process 4711)")
        with pytest.raises(ConfigError, match=rf"already serves this world \(.*\) at http://127.0.0.1:{port} \(process 4711\)$"):
            server.serve(config, port, lambda _: None)


def test_a_port_that_is_taken_is_refused_at_once(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match=r"port \d+ is taken .* --port"):
        server.serve(Settings(home=home), taken.getsockname()[1], lambda _: None)


@pytest.mark.nightly
def test_dagster_ends_with_a_killed_ui(home: Path) -> None:
    notes = home / "notes"
    program = f"""
import subprocess, sys, time
from orchestration import server as serve
server = serve._start([sys.executable, "-c", "import time; time.sleep(600)"], sys.stderr, sys.stderr.fileno())
with serve._watchdog(server):
    open({str(notes)!r}, "w").write(f"{{server.pid}} ")
    time.sleep(600)
"""
    ui = subprocess.Popen([sys.executable, "-c", program])
    wait_until(lambda: notes.exists() and notes.read_text().endswith(" "), "Dagster has started")
    ui.kill()
    ui.wait()
    wait_until(lambda: not is_running(int(notes.read_text())), "Dagster has ended")


STEP = """
import multiprocessing, os, signal, sys, time
from orchestration.definitions import EXECUTOR

def step(file):
    with open(file, "a") as out:
        print(os.getpid(), file=out)
    time.sleep(600)

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["orchestration.definitions"])
    context.Process(target=step, args=(sys.argv[1],)).start()
    time.sleep(600)
"""


@pytest.mark.nightly
def test_the_steps_of_a_run_that_is_killed_end_at_once(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(STEP)
    started = tmp_path / "started"
    run = subprocess.Popen(
        [sys.executable, str(tmp_path / "run.py"), str(started)], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        wait_until(lambda: started.exists() and started.read_text().endswith("\n"), "the step has started")
        step = int(started.read_text())
        assert run.poll() is None and is_running(step)
    finally:
        run.kill()
    run.wait(60)
    wait_until(lambda: not is_running(step), "the step has ended")


#: Two days, and the month after them.
DAYS = [str(LAST + timedelta(days=ahead)) for ahead in range(-1, 32)]


def call(home: Path, *arguments: str, **settings: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "BELLWETHER_HOME": str(home), "PYTHONPATH": str(ROOT), **settings}
    environment.pop("DAGSTER_HOME", None)
    command = [sys.executable, "-m", "bellwether", *arguments]
    return subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    text, _ = process.communicate(timeout=300)
    return text


@pytest.mark.nightly
def test_a_command_and_the_ui_of_its_home_pull_the_same_days_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster_graphql import DagsterGraphQLClient

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    ui = call(tmp_path, "ui", "--port", str(port))
    try:
        note = tmp_path / "sandbox" / "dagster" / "processes" / UI
        wait_until(lambda: ui.poll() is not None or (note.exists() and note.read_text()), "the UI is ready")
        theirs = {"dagster/asset_partition_range_start": DAYS[0], "dagster/asset_partition_range_end": DAYS[-1]}
        DagsterGraphQLClient(f"127.0.0.1:{port}").submit_job_execution("days", LOCATION, REPOSITORY, tags=theirs)
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "sandbox" / "dagster"))
        with dg.DagsterInstance.get() as instance:
            started = dg.RunsFilter(job_name="days", statuses=[dg.DagsterRunStatus.STARTED])
            wait_until(lambda: ui.poll() is not None or instance.get_runs(started), "the UI's run has started")
            command = call(tmp_path, "pull", DAYS[0], DAYS[-1])
            text = finished(command)
            assert command.returncode == 0 or "the newer rows are kept" in text, text
            wait_until(lambda: all(run.is_finished for run in instance.get_runs()), "the UI's runs have ended", 300)
            runs = instance.get_runs(dg.RunsFilter(job_name="days"))
        assert {TAG in run.tags for run in runs} == {False, True}
        again = call(tmp_path, "pull", DAYS[0], DAYS[-1])
        text = finished(again)
        assert again.returncode == 0, text
        lake = Lake(str(tmp_path / "sandbox" / "lake"))
        assert {(day,) for day in DAYS} <= set(lake.manifests(table("clean/markets"))) and not verify(lake).damaged
    finally:
        ui.send_signal(signal.SIGTERM)
        finished(ui)
    assert ui.returncode == 0
