"""A command submits its runs to the UI that serves its home with its settings, and otherwise executes them itself."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster_graphql import DagsterGraphQLClientError

from bellwether.errors import BellwetherError
from bellwether.lake import Lake
from bellwether.settings import settings
from bellwether.tables import table
from orchestration import submission
from orchestration.home import prepare
from orchestration.orphans import TAG, UI, Process
from orchestration.precedence import COMMAND, LAUNCHED_BY
from orchestration.session import runner
from orchestration.submission import announce, daemon_port, follow
from tests.shared import wait_until

ROOT = Path(__file__).resolve().parents[2]


@dg.job
def nothing() -> None:
    """A job without steps, whose runs only have a status here."""


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "sandbox" / "dagster"))
    settings.cache_clear()
    prepare(settings())
    with dg.DagsterInstance.get() as found:
        yield found
    settings.cache_clear()


@pytest.mark.parametrize(
    ("name", "value"),
    [("BELLWETHER_BUDGET", "7"), ("BELLWETHER_REGISTRY", "elsewhere"), ("OPENAI_API_KEY", "sk-other"), ("HF_TOKEN", "hf")],
)
def test_a_daemon_with_other_settings_or_keys_takes_no_runs(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = int(server.getsockname()[1])
    assert daemon_port(instance) is None
    ui = Process(instance, UI)
    assert daemon_port(instance) is None, "it is not ready"
    announce(ui, port, dagster=4711)
    assert daemon_port(instance) == port
    monkeypatch.setenv(name, value)
    settings.cache_clear()
    assert daemon_port(instance) is None
    monkeypatch.delenv(name)
    settings.cache_clear()
    assert daemon_port(instance) == port
    server.close()
    assert daemon_port(instance) is None, "Dagster has just ended"
    ui.close()


def test_two_commands_in_one_home_announce_each_other(instance: dg.DagsterInstance, capsys: pytest.CaptureFixture[str]) -> None:
    with runner(venues=False):
        assert "Another command" not in capsys.readouterr().err
        with runner(venues=False):
            assert f"Another command is running here (process {os.getpid()})" in capsys.readouterr().err


@dg.op
def talk(context: dg.OpExecutionContext) -> None:
    context.log.info("one of two")
    context.log.debug("not for users")
    context.log.warning("two of two")
    if "broken" in context.run.tags:
        raise ValueError("broken")


@dg.job(executor_def=dg.in_process_executor)
def talking() -> None:
    """A job whose step logs."""
    talk()


@pytest.mark.parametrize("tags", [{}, {"broken": "yes"}])
def test_what_the_steps_of_a_followed_run_log_is_progress(instance: dg.DagsterInstance, tags: dict[str, str]) -> None:
    run = instance.create_run_for_job(talking, tags=tags)
    lines: list[str] = []
    ui = Process(instance, UI)
    worker = threading.Thread(
        target=lambda: talking.execute_in_process(instance=instance, run_id=run.run_id, raise_on_error=False, tags=tags)
    )
    instance.delete_run(run.run_id)
    worker.start()
    wait_until(lambda: instance.get_run_by_id(run.run_id), "the run exists")
    done = follow(instance, run.run_id, 0, lines.append)
    worker.join(60)
    ui.close()
    assert done.status is (dg.DagsterRunStatus.FAILURE if tags else dg.DagsterRunStatus.SUCCESS)
    assert lines == ["one of two", "two of two"]


def test_an_interrupted_submission_is_canceled_once_its_run_exists(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[dg.DagsterRun] = []
    refusals = [DagsterGraphQLClientError("being created")]

    class Client:
        def submit_job_execution(self, job: str, tags: dict[str, str], **how: object) -> str:
            created.append(instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.NOT_STARTED, tags=tags))
            raise KeyboardInterrupt

        def terminate_run(self, run_id: str) -> None:
            if refusals:
                raise refusals.pop()
            run = instance.get_run_by_id(run_id)
            assert run is not None
            instance.report_run_canceled(run)

    monkeypatch.setattr(submission, "_client", lambda port: Client())
    monkeypatch.setattr(submission, "_POLL_SECONDS", 0.01)
    ui = Process(instance, UI)
    with pytest.raises(KeyboardInterrupt):
        submission.submit(instance, 1, "nothing", partition=None, tags={}, config={})
    ui.close()
    run = instance.get_run_by_id(created[0].run_id)
    assert run is not None and run.status is dg.DagsterRunStatus.CANCELED


def test_a_run_whose_ui_is_stopped_continues_later(instance: dg.DagsterInstance) -> None:
    run = instance.create_run_for_job(talking, status=dg.DagsterRunStatus.STARTED)
    with pytest.raises(BellwetherError, match="was stopped; the run continues at its next start"):
        follow(instance, run.run_id, 0, lambda _: None)


def call(home: Path, *arguments: str, **settings: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "BELLWETHER_HOME": str(home), "PYTHONPATH": str(ROOT), **settings}
    environment.pop("DAGSTER_HOME", None)
    command = [sys.executable, "-m", "bellwether", *arguments]
    return subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    text, _ = process.communicate(timeout=300)
    return text


@pytest.mark.slow
def test_a_command_submits_its_runs_to_the_ui_of_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    ui = call(tmp_path, "ui", "--port", port)
    try:
        note = tmp_path / "sandbox" / "dagster" / "processes" / UI
        wait_until(lambda: ui.poll() is not None or (note.exists() and note.read_text()), "the UI is ready")
        submitted = call(tmp_path, "pull", "2026-06-01")
        text = finished(submitted)
        assert submitted.returncode == 0, text
        assert f"The UI at http://127.0.0.1:{port} executes the runs of this command." in text
        other = call(tmp_path, "pull", "2026-06-02", BELLWETHER_BUDGET="7")
        text = finished(other)
        assert other.returncode == 0, text
        interrupted = call(tmp_path, "pull", "2026-05-01", "2026-05-31")
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "sandbox" / "dagster"))
        with dg.DagsterInstance.get() as instance:
            started = dg.RunsFilter(job_name="days", statuses=[dg.DagsterRunStatus.STARTED], tags={LAUNCHED_BY: COMMAND})
            wait_until(lambda: interrupted.poll() is not None or instance.get_runs(started), "the run has started")
            interrupted.send_signal(signal.SIGINT)
            assert "goes on from there" in finished(interrupted)
            runs = instance.get_runs(dg.RunsFilter(job_name="days", tags={LAUNCHED_BY: COMMAND}))
        assert [(run.status.value, TAG in run.tags) for run in reversed(runs)] == [
            ("SUCCESS", False),
            ("SUCCESS", True),
            ("CANCELED", False),
        ]
        assert {("2026-06-01",), ("2026-06-02",)} <= set(Lake(str(tmp_path / "sandbox" / "lake")).manifests(table("raw/kalshi_markets")))
    finally:
        ui.send_signal(signal.SIGTERM)
        finished(ui)
    assert ui.returncode == 0
