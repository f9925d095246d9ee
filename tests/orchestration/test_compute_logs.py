"""What steps print is kept for the UI and reaches the terminal, without a process for it."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.instigation_logger import InstigationLogger, get_instigation_log_records

from orchestration.compute_logs import ComputeLogs, mirrored
from orchestration.home import settings_file

ROOT = Path(__file__).resolve().parents[2]
#: A run that prints by itself and by a child, on both streams, to the last moment; nothing may start a process but the step.
SCRIPT = """
import os, subprocess, sys
import dagster as dg

popen, started = subprocess.Popen, []

def noted(words, *others, **more):
    started.append(words[0])
    return popen(words, *others, **more)

subprocess.Popen = noted

@dg.op
def speak():
    print("from Python")
    os.system("echo from a child")
    print("an error", file=sys.stderr)
    print("x" * 300_000)
    subprocess.run(["echo", "the last line"], check=True)

@dg.job
def talk():
    speak()

print("before")
with dg.DagsterInstance.get() as instance:
    result = talk.execute_in_process(instance=instance, run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}})
print("after", result.run_id, started)
"""
PRINTED = f"from Python\nfrom a child\n{'x' * 300_000}\nthe last line\n"


def talk(home: Path) -> subprocess.Popen[str]:
    (home / "dagster.yaml").write_text(settings_file())
    environment = {**os.environ, "DAGSTER_HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home
    )


def kept(home: Path, run: str) -> dict[str, str]:
    """What the UI would show of a run, by stream."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        logs = instance.compute_log_manager
        assert isinstance(logs, ComputeLogs)
        (event,) = [entry.dagster_event for entry in instance.all_logs(run, of_type=dg.DagsterEventType.LOGS_CAPTURED)]
        assert event is not None
        key = [run, "compute_logs", event.logs_captured_data.file_key]
        assert logs.is_capture_complete(key)
        found = logs.get_log_data(key)
    return {"out": (found.stdout or b"").decode(), "err": (found.stderr or b"").decode()}


@pytest.fixture
def _home_of_dagster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures("_home_of_dagster")
def test_what_a_run_prints_is_kept_and_passed_on_whole_without_a_process(tmp_path: Path) -> None:
    out, err = talk(tmp_path).communicate(timeout=120)
    first, *between, last = out.splitlines(keepends=True)
    assert first == "before\n"
    assert "".join(between) == PRINTED
    word, run, started = last.split(" ", 2)
    assert (word, started.strip()) == ("after", "['echo']")
    assert "an error\n" in err
    assert kept(tmp_path, run) == {"out": PRINTED, "err": err}


@pytest.mark.slow
@pytest.mark.usefixtures("_home_of_dagster")
def test_a_reader_that_goes_away_stops_no_run(tmp_path: Path) -> None:
    process = talk(tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "before\n"
    process.stdout.close()
    process.wait(timeout=120)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.SUCCESS
    assert kept(tmp_path, run.run_id)["out"] == PRINTED


def test_a_stream_in_memory_is_left_alone(tmp_path: Path) -> None:
    from io import StringIO

    stream = StringIO()
    with mirrored(stream, tmp_path / "logs" / "one.out"):
        stream.write("said")
    assert stream.getvalue() == "said"
    assert (tmp_path / "logs" / "one.out").read_bytes() == b""


def test_later_lines_are_added_and_only_they_are_passed_on(tmp_path: Path) -> None:
    path, target = tmp_path / "one.out", tmp_path / "target"
    path.write_text("earlier\n")
    with target.open("w") as stream:
        for line in ("first\n", "second\n"):
            with mirrored(stream, path):
                stream.write(line)
        stream.write("at the end\n")
    assert path.read_text() == "earlier\nfirst\nsecond\n"
    assert target.read_text() == "first\nsecond\nat the end\n"


def test_what_fails_inside_leaves_the_stream_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with target.open("w") as stream:
        with pytest.raises(KeyboardInterrupt), mirrored(stream, tmp_path / "one.out"):
            stream.write("inside\n")
            raise KeyboardInterrupt
        stream.write("outside\n")
    assert target.read_text() == "inside\noutside\n"


@dg.op
def count(context: dg.OpExecutionContext) -> None:
    context.log.info("counted")
    context.log.debug("looked at each")


@dg.job
def counting() -> None:
    count()


def test_steps_print_what_they_log_and_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(settings_file())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        run = counting.execute_in_process(instance=instance).run_id
        events = {event.dagster_event_type.value for event in instance.all_logs(run) if event.dagster_event_type}
    printed = capfd.readouterr().err
    assert "counted" in printed
    assert "looked at each" not in printed and "STEP_START" not in printed
    assert {"STEP_START", "PIPELINE_SUCCESS"} <= events, "the history has them"


def test_of_a_tick_only_what_says_something_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(settings_file())
    repository = tmp_path / "storage" / "__repository__"
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        for tick, requests in (("1", False), ("2", True)):
            with InstigationLogger(["__repository__", "automation", tick], instance, "__repository__", "automation") as log:
                log.debug("Evaluating clean/markets (0/32)")
                _prefetch(log)
                if requests:
                    log.info("clean/markets evaluation result: 1 requested")
        kept = get_instigation_log_records(instance, ["__repository__", "automation", "2"])
    assert [record["msg"].rpartition(" - ")[2] for record in kept] == ["clean/markets evaluation result: 1 requested"]
    assert [path.name for path in (repository / "automation").iterdir()] == ["2.err"], "nothing was worth a file in the first tick"


def _prefetch(log: InstigationLogger) -> None:
    """What Dagster says in a function of that name, in every tick."""

    def prefetch() -> None:
        log.info("Prefetching asset records for 50 records.")

    prefetch()
