"""The demo home: its results have the committed digests, it is up to date, and reading commands change nothing and fit the terminal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import dagster as dg
import pytest
from click.testing import CliRunner, Result

from bellwether.console import console
from cli.main import Lazy, main
from tests.demo_home import EVENT, RELEASE, WEEKS, World, run_all
from tests.golden.digests import EXPORTS, PRINTED, differences, digests, read
from tests.graph.worlds import restrict_automation, tick

WEEK = WEEKS[0]
#: Commands that only read a home, with arguments for which they print rows, in addition to those whose results have digests.
READING = (
    "agents",
    f"arena explain {WEEK}/favourite/{WEEK}",
    f"leaderboard arena --known-at {WEEKS[1]}",
    f"arena run --week {WEEK} --dry-run",
    f"arena explain {WEEK}",
    f"arena explain {WEEK}/favourite",
    f"backtest --agent buy-and-hold --episode {EVENT}",
    "doctor",
    "doctor --files",
    "episode",
    "evaluate --models sandbox-noisy --samples 50 --dry-run",
    "journal",
    "journal export {elsewhere}/answers.jsonl",
    "models",
    'query "FROM meta.tables"',
    'query "FROM views.pnl LIMIT 5"',
    "query arena_weeks",
    "record",
    "episode build",
    "release",
    f"export {RELEASE} --format report --to {{elsewhere}}/report",
)
#: Those that print a table of few columns, with one line per row in every terminal.
TABLES = (*PRINTED, "agents", f"arena explain {WEEK}", "episode", "journal", "models", "episode build")
#: Commands that change a home or do not read one.
OTHERS = {
    "agents new",
    "audit",
    "arena admin cancel",
    "arena admin close",
    "arena admin resolve",
    "backup",
    "demo",
    "episode export",
    "episode import",
    "import",
    "journal import",
    "journal reopen",
    "journal show",
    "metaculus",
    "pull",
    "restore",
    "sandbox",
    "score",
    "site",
    "submit",
    "ui",
    "warehouse",
    "worker",
}


@pytest.fixture(autouse=True)
def _new_console() -> Iterator[None]:
    """Measure the terminal again in each test."""
    console.cache_clear()
    yield
    console.cache_clear()


def contents(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and modification time of every file, except SQLite's temporary ones."""
    return {
        str(path.relative_to(folder)): (found.st_ino, found.st_size, found.st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal")) and (found := path.stat())
    }


def called(words: str, elsewhere: Path) -> Result:
    return CliRunner().invoke(main, shlex.split(words.format(elsewhere=elsewhere)))


def test_every_result_has_its_digest_and_reading_changes_nothing(demo_home: Path) -> None:
    """After an intended change of a number, `make golden` rewrites the digests and prints each difference."""
    before = contents(demo_home)
    told = differences(read(), digests(demo_home))
    assert contents(demo_home) == before
    assert not told, "\n".join(told[:40])


def test_a_second_run_makes_nothing(demo_copy: World) -> None:
    assert run_all(demo_copy).stats.runs == 0


def test_no_sensor_and_no_condition_requests_a_run(demo_copy: World, monkeypatch: pytest.MonkeyPatch) -> None:
    restrict_automation(monkeypatch)
    evaluated = set()
    for sensor in demo_copy.defs.sensors or ():
        if isinstance(sensor, dg.SensorDefinition) and not isinstance(sensor, dg.RunStatusSensorDefinition):
            found = tick(demo_copy, sensor)
            assert not found.run_requests and not found.dynamic_partitions_requests, sensor.name
            evaluated.add(sensor.name)
    expected = {
        "add_partitions",
        "import_recordings",
        "build_episodes",
        "publish_warehouse",
        "poll_markets",
        "reconstruct_marks",
        "update_tables",
    }
    assert evaluated >= expected


def test_reading_commands_change_nothing(demo_copy: World, tmp_path: Path) -> None:
    before = contents(demo_copy.config.home)
    for words in READING:
        done = called(words, tmp_path)
        assert done.exit_code == 0, (words, done.output[-2000:], done.exception)
        assert contents(demo_copy.config.home) == before, words


def names(command: click.Command, above: str = "") -> Iterator[str]:
    """Return all commands below a group, including groups that are commands themselves."""
    command = command.load() if isinstance(command, Lazy) else command
    if not isinstance(command, click.Group) or (command.invoke_without_command and above):
        yield above
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from names(below, f"{above} {name}".strip())


def test_every_command_is_listed_as_reading_or_writing() -> None:
    every = set(names(main))
    listed = (*READING, *PRINTED, *(" ".join(words) for words in EXPORTS.values()))
    reading = {max((name for name in every if f"{words} ".startswith(f"{name} ")), key=len) for words in listed}
    assert every - reading - OTHERS == set()
    assert OTHERS | reading <= every


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_terminal_and_break_no_name(demo: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in TABLES:
        shown = called(words, tmp_path).output
        ruled = [line for line in shown.splitlines() if re.search("[─━]{3}", line)]
        assert ruled, (words, shown)
        assert max(map(len, ruled)) <= width, words
    assert EVENT in called("episode", tmp_path).output
