"""Messages of steps reach the waiting user."""

import os
import sys
from pathlib import Path

import dagster as dg
import pytest

from bellwether.settings import Settings
from orchestration.home import prepare
from orchestration.progress import listener, progress
from orchestration.runner import Runner


@dg.op
def talk(context: dg.OpExecutionContext) -> None:
    context.log.info("3 pages")


@dg.job(logger_defs={"progress": progress})
def talking() -> None:
    talk()


def test_only_what_steps_say_themselves_is_heard() -> None:
    heard: list[str] = []
    token = listener.set(heard.append)
    talking.execute_in_process(run_config={"loggers": {"progress": {}}})
    listener.reset(token)
    assert heard == ["3 pages"]


@dg.op
def printing() -> None:
    sys.stdout.write("said by an agent\n")
    os.system("echo said by its process")


@dg.job(logger_defs={"progress": progress})
def noisy() -> None:
    printing()


def test_what_a_step_prints_goes_to_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    prepare(Settings(home=tmp_path))
    with dg.DagsterInstance.get() as instance:
        runner = Runner(dg.Definitions(jobs=[noisy]), instance)
        runner.launch(noisy, "noisy")
        runner.close()
    told = capfd.readouterr()
    assert not told.out
    assert "said by an agent" in told.err
    assert "said by its process" in told.err
