"""The list of commands, which are imported on demand."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from cli.main import SECTIONS, Lazy, main

#: Modules of Bellwether imported by the help.
IMPORTED = ["bellwether.errors", "bellwether.places", "cli.main"]

ALL = [command for command in main.commands.values() if isinstance(command, Lazy)]


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry.name)
def test_every_command_is_where_the_list_says_and_explains_itself(entry: Lazy) -> None:
    assert entry.load().name == entry.name
    result = call(str(entry.name), "--help")
    assert (result.exit_code, result.output.startswith(f"Usage: main {entry.name} ")) == (0, True)


def test_the_list_shows_every_command_once_on_a_line_of_eighty_characters() -> None:
    lines = call("--help").output.splitlines()
    shown = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in main.commands]
    assert shown == [one.name for declared in SECTIONS.values() for one in declared if not one.hidden]
    assert set(main.commands) - set(shown) == {"sandbox", "worker"}
    assert [line.removesuffix(":") for line in lines if line.endswith(":") and line[:1].isalpha()] == ["Options", *SECTIONS]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("words", [(), ("agents",), ("arena",), ("arena", "admin"), ("episode",), ("journal",)], ids=" ".join)
def test_no_summary_is_cut_at_eighty_columns(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = call(*words, "--help").output.partition("Commands")[2] or call("--help").output.partition("Start:")[2]
    assert listed and "..." not in listed


def test_the_list_imports_no_library_but_click() -> None:
    code = (
        "import sys\nfrom cli.main import main\nmain(['--help'], standalone_mode=False)\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'numpy', 'polars', 'rich', 'pydantic', 'dagster', 'orchestration'}))\n"
        "print(sorted(name for name in sys.modules if name.startswith(('bellwether.', 'cli.'))))"
    )
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[-2:] == ["[]", str(IMPORTED)]


@pytest.mark.parametrize(("given", "threads"), [(None, "1"), ("3", "3")])
def test_a_light_command_imports_no_dagster_and_uses_one_thread_of_linear_algebra_unless_told_otherwise(
    given: str | None, threads: str
) -> None:
    code = (
        "import os, sys\nfrom cli.main import main\nassert 'numpy' not in sys.modules\n"
        "main(['journal', '--json'], standalone_mode=False)\nassert 'dagster' not in sys.modules\nprint(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {"OPENBLAS_NUM_THREADS": given} if given else {}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == threads
