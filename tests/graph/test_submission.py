"""Runs of commands: executed in the process, or submitted to the UI of a fleet and followed to their end."""

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import httpx
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._utils.error import SerializableErrorInfo
from sqlalchemy.exc import OperationalError

from assets.summary.runs import publish
from bellwether.console import Silent
from bellwether.errors import BellwetherError, ConfigError
from bellwether.settings import settings
from orchestration import run_submission
from orchestration.home import prepare
from orchestration.orphaned_runs import ProcessLock
from orchestration.partitions import RANGE_END, RANGE_START
from orchestration.run_priority import COMMAND, LAUNCHED_BY
from orchestration.run_submission import follow, submit_backfill, submit_run
from orchestration.runner import RunFailed, Runner
from orchestration.steps import listener, progress
from resources import WarehouseResource
from resources.models import BACKFILL
from tests.demo_home import open_world, stock_storage


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "sandbox" / "dagster"))
    settings.cache_clear()
    prepare(settings())
    with dg.DagsterInstance.get() as found:
        yield found
    settings.cache_clear()


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


@dataclass
class Ui:
    """The UI of a fleet: it records the mutations, creates the runs, and calls `works` with each in place of a daemon."""

    instance: dg.DagsterInstance
    works: Callable[[dg.DagsterRun], object] = lambda run: None
    answers: list[object] = field(default_factory=list)
    sent: list[object] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def post(self, url: str, json: dict[str, Any], timeout: float) -> httpx.Response:
        given = json["variables"]["given"]
        self.sent.append(given)
        answer = self.answers.pop(0) if self.answers else self.sent_result(json["query"], given)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return httpx.Response(answer, request=httpx.Request("POST", url))
        return httpx.Response(200, json=answer, request=httpx.Request("POST", url))

    def sent_result(self, query: str, given: Any) -> object:
        if "launchRun" in query:
            tags = {tag["key"]: tag["value"] for tag in given["executionMetadata"]["tags"]}
            return {"data": {"sent": {"run": {"id": self.launch(tags).run_id}}}}
        if "launchPartitionBackfill" in query:
            backfill = PartitionBackfill("many", BulkActionStatus.REQUESTED, False, {}, 0.0, partition_names=given["partitionNames"])
            self.instance.add_backfill(backfill)
            for first, last in (given["partitionNames"][:2], given["partitionNames"][2:4]):
                self.launch({BACKFILL: "many", RANGE_START: first, RANGE_END: last})
            self.instance.update_backfill(backfill.with_status(BulkActionStatus.COMPLETED_FAILED))
            return {"data": {"sent": {"backfillId": "many"}}}
        return {"data": {"sent": {}}}

    def launch(self, tags: dict[str, str], **of: str) -> dg.DagsterRun:
        run = self.instance.create_run_for_job(talking, status=dg.DagsterRunStatus.NOT_STARTED, tags=tags, **of)
        self.works(run)
        return run

    def run(self) -> dg.DagsterRun:
        """Submit a run and follow it to its end."""
        (run,) = follow(self.instance, submit_run(self.instance, "talking", {"tag": "value"}, {}), self.told.append)
        return run


@pytest.fixture
def ui(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Ui:
    made = Ui(instance, works=instance.report_run_canceled)
    monkeypatch.setattr(run_submission.httpx, "post", made.post)
    monkeypatch.setattr(run_submission, "_POLL_SECONDS", 0.01)
    monkeypatch.setenv("BELLWETHER_FLEET", "celery")
    settings.cache_clear()
    return made


def test_mutations_fit_the_schema_of_dagster() -> None:
    import graphql
    from dagster_graphql.schema import create_schema

    mutations = [text for name, text in vars(run_submission).items() if isinstance(text, str) and text.startswith("mutation")]
    assert len(mutations) == 4
    for mutation in mutations:
        assert graphql.validate(create_schema().graphql_schema, graphql.parse(mutation)) == []


def steps(monkeypatch: pytest.MonkeyPatch, *does: Callable[[], object]) -> list[Callable[[], object]]:
    """Replace waiting: each wait calls the next function. Returns the functions that are left."""
    left = list(does)
    monkeypatch.setattr(run_submission, "time", SimpleNamespace(sleep=lambda _: left.pop(0)(), monotonic=time.monotonic))
    return left


def test_a_lost_run_is_followed_as_its_retry(instance: dg.DagsterInstance, ui: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster adds its tag after the status, and creates the retry later."""
    runs: list[dg.DagsterRun] = []
    ui.works = runs.append
    left = steps(
        monkeypatch,
        lambda: instance.report_run_failed(runs[0], "the worker is gone"),
        lambda: instance.add_run_tags(runs[0].run_id, {"dagster/will_retry": "true"}),
        lambda: None,
        lambda: ui.launch({"dagster/root_run_id": runs[0].run_id}, root_run_id=runs[0].run_id, parent_run_id=runs[0].run_id),
        lambda: instance.report_run_canceled(runs[1]),
    )
    ended = ui.run()
    assert not left and ended.run_id == runs[1].run_id and ended.status is dg.DagsterRunStatus.CANCELED
    assert ui.told == ["0 of 1 runs ended, 1 not started", "1 of 1 runs ended", "0 of 1 runs ended, 1 not started"]


def test_a_failure_that_nobody_retries_is_the_end(instance: dg.DagsterInstance, ui: Ui) -> None:
    ui.works = lambda run: (instance.report_run_failed(run), instance.add_run_tags(run.run_id, {"dagster/will_retry": "false"}))
    assert ui.run().status is dg.DagsterRunStatus.FAILURE


@dg.asset(
    key=["clean", "markets"],
    partitions_def=dg.StaticPartitionsDefinition(list("abcdef")),
    backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=2),
)
def letters() -> None:
    """A table of letters."""


LETTERS = dg.define_asset_job("letters", [letters])


def test_partitions_of_several_runs_are_one_backfill_and_those_of_one_are_a_run(instance: dg.DagsterInstance, ui: Ui) -> None:
    work = Runner(dg.Definitions([letters], jobs=[LETTERS]), instance)
    assert work.run_partitions(LETTERS, "clean/markets", [], "letter") == {} and ui.sent == []
    ends = work.run_partitions(LETTERS, "clean/markets", ["b", "a"], "letter", {"ops": {}})
    assert all("/runs/" in str(error) and "was canceled" in str(error) for error in ends.values()) and ends.keys() == {"a", "b"}
    (sent,) = ui.sent
    tags = {tag["key"]: tag["value"] for tag in sent["executionMetadata"]["tags"]}
    assert sent["selector"]["jobName"] == "letters" and sent["runConfigData"] == {"ops": {}}
    assert (tags[LAUNCHED_BY], tags[RANGE_START], tags[RANGE_END]) == (COMMAND, "a", "b")
    assert "dagster/max_retries" not in tags, "Dagster retries lost runs"

    ui.works = lambda run: instance.report_run_canceled(run) if "a" in run.tags.values() else succeed(instance, run)
    ends = work.run_partitions(LETTERS, "clean/markets", list("abcde"), "letter")
    assert ui.sent[1]["partitionNames"] == list("abcde") and ui.sent[1]["selector"]["partitionSetName"] == "letters_partition_set"
    assert {part: "/runs/b/many" in str(error) for part, error in ends.items() if error} == dict.fromkeys("abe", True)
    assert "letter e: backfill many was canceled" in str(ends["e"])
    assert work.stats.runs == 3


def succeed(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    for kind in ("PIPELINE_START", "PIPELINE_SUCCESS"):
        instance.report_dagster_event(dg.DagsterEvent(kind, run.job_name), run_id=run.run_id)


def test_a_backfill_that_dagster_cannot_divide_is_an_error_with_its_reason(instance: dg.DagsterInstance, ui: Ui) -> None:
    submission = submit_backfill(instance, "letters", list("abcd"), {}, {})
    error = SerializableErrorInfo("no such code location\n", [], None)
    instance.update_backfill(instance.get_backfill("many").with_status(BulkActionStatus.FAILED).with_error(error))
    with pytest.raises(BellwetherError, match=r"backfill many failed: no such code location\. Its page is .*/runs/b/many$"):
        follow(instance, submission, print)


@pytest.mark.parametrize("several", [False, True])
def test_an_interrupted_command_lets_dagster_cancel_its_work(
    instance: dg.DagsterInstance, ui: Ui, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    ui.works = lambda run: None
    steps(monkeypatch, interrupt)
    work = Runner(dg.Definitions([letters], jobs=[LETTERS]), instance)
    with pytest.raises(KeyboardInterrupt):
        work.run_partitions(LETTERS, "clean/markets", list("abcd" if several else "ab"), "letter")
    assert ui.sent[1:] == ["many" if several else instance.get_runs()[0].run_id]


def test_a_storage_that_restarts_is_waited_for(instance: dg.DagsterInstance, ui: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
    read, outages = instance.get_runs, [3]

    def unreachable(*arguments: object, **named: object) -> object:
        if outages[0]:
            outages[0] -= 1
            raise OperationalError("SELECT", {}, Exception("the server closed the connection"))
        return read(*arguments, **named)

    monkeypatch.setattr(instance, "get_runs", unreachable)
    assert ui.run().is_finished
    outages[0] = 1
    monkeypatch.setattr(run_submission, "_OUTAGE_SECONDS", -1.0)
    with pytest.raises(OperationalError):
        ui.run()


def test_a_ui_that_restarts_is_waited_for_and_one_that_stays_away_is_named(ui: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
    ui.answers = [httpx.ConnectError("Connection refused"), 503]
    assert ui.run().is_finished
    assert len(ui.sent) == 3
    monkeypatch.setattr(run_submission, "_OUTAGE_SECONDS", -1.0)
    ui.answers = [httpx.ConnectError("Connection refused")]
    with pytest.raises(ConfigError, match=r"BELLWETHER_UI\) does not answer \(Connection refused\), nothing was submitted"):
        ui.run()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (httpx.ReadError("reset"), "reset; see .*/runs"),  # it may have been submitted
        ({"data": {"sent": {"message": "no such\njob"}}}, "no such job"),
        ({"data": {"sent": {"errors": [{"message": "wrong option"}]}}}, "wrong option"),
        ({"errors": [{"message": "no such field"}]}, "no such field"),
        ([], "the answer is not Dagster's"),
    ],
)
def test_a_refused_submission_is_not_repeated_and_says_why(ui: Ui, answer: object, reason: str) -> None:
    ui.answers = [answer]
    with pytest.raises(BellwetherError, match=rf"submitting talking at the fleet's UI at http://.*{reason}"):
        ui.run()
    assert len(ui.sent) == 1


def test_work_in_another_storage_is_an_error(instance: dg.DagsterInstance, ui: Ui) -> None:
    ui.works = lambda run: instance.delete_run(run.run_id)
    with pytest.raises(ConfigError, match=r"BELLWETHER_UI.*another storage.*BELLWETHER_POSTGRES"):
        ui.run()


def test_runs_of_divided_work_share_a_budget(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    tags: list[dict[str, str]] = []
    work = Runner(dg.Definitions([letters], jobs=[LETTERS]), instance)
    run = dg.DagsterRun("letters", status=dg.DagsterRunStatus.SUCCESS)
    monkeypatch.setattr(work, "_execute", lambda job, given, config, label: tags.append(given) or (run, []))
    for names in ("b", "abde", "abde"):
        work.run_partitions(LETTERS, "clean/markets", list(names), "letter")
    budgets = [given.get("bellwether/paid_by") for given in tags]
    assert len(tags) == 5 and budgets[0] is None
    assert budgets[1] == budgets[2] != budgets[3] == budgets[4]


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
