"""Runs of commands: executed in the process, or submitted to a UI with the same home and settings. Their lines reach the waiting user."""

import errno
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from sqlalchemy.exc import OperationalError

from assets.warehouse.runs import publish
from bellwether.errors import BellwetherError, ConfigError
from bellwether.progress import Silent
from bellwether.settings import settings
from orchestration import run_submission
from orchestration.definitions import build_defs
from orchestration.home import prepare
from orchestration.orphaned_runs import UI, ProcessLock
from orchestration.partitions import PARTITION, RANGE_END, RANGE_START
from orchestration.progress import listener, progress
from orchestration.run_priority import COMMAND, LAUNCHED_BY
from orchestration.run_session import runner
from orchestration.run_submission import Endpoint, Submission, Terminated, announce_ui, execute, find_endpoint
from orchestration.runner import RunFailed, Runner
from resources import WarehouseResource
from tests.demo_home import open_world, stock_storage
from tests.shared import wait_until


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "sandbox" / "dagster"))
    settings.cache_clear()
    prepare(settings())
    with dg.DagsterInstance.get() as found:
        yield found
    settings.cache_clear()


def test_a_ui_with_other_settings_or_keys_takes_no_runs(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = int(server.getsockname()[1])
    here = Endpoint(f"http://127.0.0.1:{port}")
    assert find_endpoint(instance) is None
    ui = ProcessLock(instance, UI)
    assert find_endpoint(instance) is None, "it is not ready"
    announce_ui(ui, port, dagster=4711)
    others = {"BELLWETHER_BUDGET": "7", "BELLWETHER_REGISTRY": "elsewhere", "OPENAI_API_KEY": "sk-other", "HF_TOKEN": "hf"}
    for name, value in others.items():
        assert find_endpoint(instance) == here
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            settings.cache_clear()
            assert find_endpoint(instance) is None, name
        settings.cache_clear()
    server.close()
    assert find_endpoint(instance) is None, "Dagster has just ended"
    ui.close()


def test_the_second_command_in_a_home_names_the_first_and_how_to_stop_it(
    instance: dg.DagsterInstance, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/bellwether", "demo", "--days", "30"])
    with runner(venues=False):
        assert "Already running" not in capsys.readouterr().err
        with runner(venues=False):
            said = capsys.readouterr().err
    assert f"Already running in {settings().world_home}: bellwether demo --days 30 (process {os.getpid()})" in said
    assert f"`kill {os.getpid()}`" in said


@dg.op
def talk(context: dg.OpExecutionContext) -> None:
    context.log.info("one of two")
    context.log.debug("not for users")
    context.log.warning("two of two")
    if "broken" in context.run.tags:
        raise ValueError("broken")


@dg.job(executor_def=dg.in_process_executor)
def talking() -> None:
    """A job whose step logs a message."""
    talk()


Lines = list[str]


@dataclass
class Ui:
    """A UI in this process that queues submissions. `works` is called with each, in place of a daemon."""

    instance: dg.DagsterInstance
    works: Callable[[dg.DagsterRun], object] = lambda run: None
    refusals: list[str] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)

    def submit_job_execution(self, job: str, tags: dict[str, str], **how: object) -> str:
        run = self.instance.create_run_for_job(talking, status=dg.DagsterRunStatus.NOT_STARTED, tags=tags)
        self.submitted.append(run.run_id)
        self.works(run)
        return run.run_id

    def terminate_run(self, run_id: str) -> None:
        from dagster_graphql import DagsterGraphQLClientError

        if self.refusals:
            raise DagsterGraphQLClientError(self.refusals.pop())
        self.instance.report_run_canceled(self.instance.get_run_by_id(run_id))


@pytest.fixture
def ui(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ui]:
    """A UI of this home."""
    made, lock = Ui(instance), ProcessLock(instance, UI)
    monkeypatch.setattr(run_submission, "_client", lambda url: made)
    monkeypatch.setattr(run_submission, "_POLL_SECONDS", 0.01)
    yield made
    lock.close()


HERE, FLEET = Endpoint("http://127.0.0.1:1"), Endpoint("http://ui:3000", of_fleet=True)


def execute_all(instance: dg.DagsterInstance, where: Endpoint, *tags: dict[str, str]) -> tuple[list[dg.DagsterRun], Lines]:
    ended: list[dg.DagsterRun] = []
    lines: Lines = []
    execute(instance, where, [Submission("talking", one, {}, lines.append, ended.append) for one in tags])
    return ended, lines


def runs_of(instance: dg.DagsterInstance, ui: Ui) -> list[str]:
    return [instance.get_run_by_id(run_id).status.value for run_id in ui.submitted]


def work(instance: dg.DagsterInstance, worker: ThreadPoolExecutor) -> Callable[[dg.DagsterRun], None]:
    """Execute a submitted run under its id in the thread of a worker."""

    def begin(run: dg.DagsterRun) -> None:
        instance.delete_run(run.run_id)
        how = {"instance": instance, "run_id": run.run_id, "tags": run.tags, "raise_on_error": False}
        worker.submit(talking.execute_in_process, **how)
        wait_until(lambda: instance.get_run_by_id(run.run_id), "the run exists")

    return begin


@pytest.mark.parametrize("where", [HERE, FLEET], ids=["home", "fleet"])
def test_what_the_steps_of_followed_runs_log_is_progress(instance: dg.DagsterInstance, ui: Ui, where: Endpoint) -> None:
    # One thread: Dagster configures logging at the start of each run, which deadlocks with log lines of another run of the process.
    with ThreadPoolExecutor(1) as worker:
        ui.works = work(instance, worker)
        ended, lines = execute_all(instance, where, {}, {"broken": "yes"})
    assert {run.tags.get("broken"): run.status.value for run in ended} == {None: "SUCCESS", "yes": "FAILURE"}
    assert sorted(lines) == ["one of two", "one of two", "two of two", "two of two"]


@pytest.mark.parametrize("where", [HERE, FLEET], ids=["home", "fleet"])
def test_an_interrupted_submission_is_canceled_once_its_run_exists_or_left_to_the_fleet(
    instance: dg.DagsterInstance, ui: Ui, where: Endpoint, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(run: dg.DagsterRun) -> None:
        raise KeyboardInterrupt

    ui.works, ui.refusals = interrupt, ["being created"]
    monkeypatch.setattr(run_submission, "_CHOICE_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        execute_all(instance, where, {})
    assert runs_of(instance, ui) == [{False: "CANCELED", True: "NOT_STARTED"}[where.of_fleet]]
    assert (ui.submitted[0] in capsys.readouterr().err) == where.of_fleet


@pytest.mark.parametrize(
    ("signals", "left"),
    [((Terminated,), True), ((KeyboardInterrupt,), True), ((KeyboardInterrupt, Terminated), True), ((KeyboardInterrupt,) * 2, False)],
)
def test_runs_of_a_fleet_are_left_in_progress_unless_ctrl_c_is_pressed_twice(
    instance: dg.DagsterInstance,
    ui: Ui,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    signals: tuple[type[KeyboardInterrupt], ...],
    left: bool,
) -> None:
    arriving, slept = list(signals), list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if arriving:
            raise arriving.pop(0)

    monkeypatch.setattr(run_submission, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    with pytest.raises(signals[0]):
        execute_all(instance, FLEET, {}, {})
    assert len(ui.submitted) == 2 and set(runs_of(instance, ui)) == {"NOT_STARTED" if left else "CANCELED"}
    told = capsys.readouterr().err
    assert all(run_id in told for run_id in ui.submitted) and "http://ui:3000/runs" in told
    assert ("Ctrl-C again" in told) == (signals[0] is not Terminated)
    assert max(slept[1:]) == (0 if signals[0] is Terminated else 5)


def test_a_lost_run_is_followed_as_its_retry(instance: dg.DagsterInstance, ui: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster adds its tags after the status: first that it will retry, then the id of the retry."""
    steps: list[Callable[[], object]] = []

    def lose(run: dg.DagsterRun) -> None:
        retry = instance.create_run_for_job(talking, status=dg.DagsterRunStatus.NOT_STARTED)
        steps.extend(
            [
                lambda: instance.report_run_failed(run, "the worker is gone"),
                lambda: instance.add_run_tags(run.run_id, {"dagster/will_retry": "true"}),
                lambda: None,
                lambda: instance.add_run_tags(run.run_id, {"dagster/auto_retry_run_id": retry.run_id}),
                lambda: instance.report_run_canceled(retry),
            ]
        )

    ui.works = lose
    monkeypatch.setattr(run_submission, "time", SimpleNamespace(sleep=lambda _: steps.pop(0)(), monotonic=time.monotonic))
    (ended,), lines = execute_all(instance, FLEET, {})
    assert not steps and ended.status is dg.DagsterRunStatus.CANCELED and ended.run_id not in ui.submitted
    assert any("worker was lost" in line for line in lines)


@dg.asset(key=["clean", "markets"], partitions_def=dg.StaticPartitionsDefinition(list("abcdef")))
def letters() -> None:
    """A table of letters."""


def test_runs_of_an_interrupted_command_are_followed_and_not_submitted_again(
    instance: dg.DagsterInstance, ui: Ui, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELLWETHER_FLEET", "celery")
    settings.cache_clear()
    job = dg.define_asset_job("letters", [letters])
    tags = {LAUNCHED_BY: COMMAND, RANGE_START: "a", RANGE_END: "c"}
    earlier = instance.add_run(dg.DagsterRun("letters", str(uuid.uuid4()), status=dg.DagsterRunStatus.STARTED, tags=tags))
    work = Runner(dg.Definitions([letters], jobs=[job]), instance)
    assert not any(one.run_id for one in work.launches(job, "clean/markets", ["b"], "letter", {"ops": {}})), "of another configuration"
    assert not any(one.run_id for one in work.launches(job, "clean/markets", ["e"], "letter"))

    def end(run: dg.DagsterRun) -> None:
        instance.report_run_canceled(run)
        if not instance.get_run_by_id(earlier.run_id).is_finished:
            instance.report_run_failed(earlier)
            instance.add_run_tags(earlier.run_id, {"dagster/will_retry": "false"})

    ui.works = end
    ends = work.run_partitions(job, "clean/markets", list("bcdef"), "letter")
    submitted = [instance.get_run_by_id(run_id).tags for run_id in ui.submitted]
    assert [(one.get(PARTITION), one.get(RANGE_START), one.get(RANGE_END)) for one in submitted] == [("d", None, None), (None, "e", "f")]
    assert not any("dagster/max_retries" in one for one in submitted), "Dagster retries lost runs"
    assert {key: earlier.run_id in str(error) for key, error in ends.items()} == dict.fromkeys("bc", True) | dict.fromkeys("def", False)
    assert all("http://127.0.0.1:3000/runs/" in str(error) for error in ends.values())
    assert work.stats.runs == 3


def test_a_failure_that_nobody_retries_is_the_end(instance: dg.DagsterInstance, ui: Ui) -> None:
    ui.works = lambda run: (instance.report_run_failed(run), instance.add_run_tags(run.run_id, {"dagster/will_retry": "false"}))
    (ended,), _ = execute_all(instance, FLEET, {})
    assert ended.status is dg.DagsterRunStatus.FAILURE


def test_a_storage_that_restarts_is_waited_for_in_a_fleet(instance: dg.DagsterInstance, ui: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
    ui.works = instance.report_run_canceled
    read, outages = instance.get_records_for_run, [3]

    def unreachable(*arguments: object) -> object:
        if outages[0]:
            outages[0] -= 1
            raise OperationalError("SELECT", {}, Exception("the server closed the connection"))
        return read(*arguments)

    monkeypatch.setattr(instance, "get_records_for_run", unreachable)
    ended, _ = execute_all(instance, FLEET, {}, {})
    assert sorted(run.run_id for run in ended) == sorted(ui.submitted), "each once"
    outages[0] = 1
    with pytest.raises(OperationalError):
        execute_all(instance, HERE, {})
    outages[0] = 1
    monkeypatch.setattr(run_submission, "_OUTAGE_SECONDS", -1.0)
    with pytest.raises(OperationalError):
        execute_all(instance, FLEET, {})


def test_a_run_in_another_storage_is_an_error(instance: dg.DagsterInstance, ui: Ui) -> None:
    ui.works = lambda run: instance.delete_run(run.run_id)
    with pytest.raises(ConfigError, match=r"BELLWETHER_UI.*another storage.*BELLWETHER_POSTGRES"):
        execute_all(instance, FLEET, {})


def test_a_refused_submission_names_the_runs_before_it(instance: dg.DagsterInstance, ui: Ui) -> None:
    from dagster_graphql import DagsterGraphQLClientError

    def refuse(run: dg.DagsterRun) -> None:
        if len(ui.submitted) == 2:
            raise DagsterGraphQLClientError("no such job")

    ui.works = refuse
    with pytest.raises(BellwetherError, match=r"submitting talking to the fleet's UI at http://ui:3000 .*no such job") as raised:
        execute_all(instance, FLEET, {}, {})
    assert f"In progress: {ui.submitted[0]}" in str(raised.value)


@pytest.mark.parametrize("server", ["none", "of something else"])
def test_a_command_of_a_fleet_without_its_ui_submits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

    http = HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    if server == "none":
        http.shutdown()
        http.server_close()
    with pytest.raises(ConfigError, match=r"BELLWETHER_UI\) does not answer, nothing was submitted"):
        Endpoint(f"http://127.0.0.1:{http.server_address[1]}", of_fleet=True).require()
    if server != "none":
        http.shutdown()
        http.server_close()


def test_a_run_whose_ui_is_stopped_continues_later(instance: dg.DagsterInstance) -> None:
    run = instance.create_run_for_job(talking, status=dg.DagsterRunStatus.STARTED)
    with pytest.raises(BellwetherError, match="was stopped; the run continues at its next start"):
        execute(instance, HERE, [Submission("talking", {}, {}, print, print, run.run_id)])


def test_runs_of_divided_work_share_a_budget_which_the_repeated_command_continues(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELLWETHER_FLEET", "celery")
    monkeypatch.setenv("BELLWETHER_WORKERS", "2")
    settings.cache_clear()
    work = Runner(build_defs(), instance)
    days, job = [f"2026-06-{day:02d}" for day in range(1, 13)], SimpleNamespace(name="days")
    (single,) = work.launches(job, "raw/kalshi_markets", days[:1], "day")
    assert "bellwether/paid_by" not in single.tags
    first = work.launches(job, "raw/kalshi_markets", days, "day")
    assert len(first) == 4
    (budget,) = {one.tags["bellwether/paid_by"] for one in first}
    (other,) = {one.tags["bellwether/paid_by"] for one in work.launches(job, "raw/kalshi_markets", days, "day")}
    assert budget != other
    run = dg.DagsterRun(job_name="days", tags={**first[0].tags, LAUNCHED_BY: COMMAND}, status=dg.DagsterRunStatus.STARTED)
    instance.add_run(run)
    again = work.launches(job, "raw/kalshi_markets", days, "day")
    assert again[0].run_id == run.run_id
    assert {one.tags["bellwether/paid_by"] for one in again[1:]} == {budget}
    assert sorted(day for one in again for day in one.partitions) == days


def test_nothing_is_submitted_to_a_fleet_when_nothing_is_due(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestration.runner.find_endpoint", lambda _: FLEET)
    work = Runner(dg.Definitions(), instance)
    assert work.launch_all(None, []) == []


@dg.job(logger_defs={"progress": progress})
def reporting() -> None:
    """A job whose lines reach the listener."""
    talk()


def test_the_listener_hears_only_lines_of_steps() -> None:
    heard: list[str] = []
    token = listener.set(heard.append)
    reporting.execute_in_process(run_config={"loggers": {"progress": {}}})
    listener.reset(token)
    assert heard == ["one of two", "two of two"]


@dg.op
def printing() -> None:
    sys.stdout.write("printed by an agent\n")
    os.write(1, b"printed by its process\n")


@dg.job(logger_defs={"progress": progress})
def noisy() -> None:
    printing()


def test_what_a_step_prints_goes_to_standard_error(instance: dg.DagsterInstance, capfd: pytest.CaptureFixture[str]) -> None:
    work = Runner(dg.Definitions(jobs=[noisy]), instance)
    work.launch(noisy, "noisy")
    work.close()
    told = capfd.readouterr()
    assert not told.out
    assert "printed by an agent" in told.err
    assert "printed by its process" in told.err


@dg.op(pool="venue")
def call() -> None:
    """Send one request to a venue."""


@dg.job(logger_defs={"progress": progress})
def calls() -> None:
    """A job that needs the venue's pool."""
    call()


def test_a_command_that_waits_for_a_pool_ends_with_a_signal_and_goes_on_when_the_pool_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Say(Silent):
        def say(self, line: str) -> None:
            if "waiting for another run, which uses venue" in line:
                acts.pop()()

    monkeypatch.setattr("orchestration.runner._POLL_SECONDS", 0.01)
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=stock_storage(str(tmp_path))) as instance:
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


def test_a_step_on_a_full_disk_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: WarehouseResource, *what: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(WarehouseResource, "publish", full)
    world = open_world(tmp_path)
    with world.instance, pytest.raises(RunFailed, match=r"No space left on device\. Stored results are complete\. Free space"):
        publish(world.runner())
