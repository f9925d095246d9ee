"""The list of commands: imports on demand, and remedies for missing packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from bellwether import extras
from bellwether.domains import PlatformCommand
from cli.lazy import Lazy
from cli.main import SECTIONS, Commands, main

#: Modules of Bellwether imported by the help, and the declaration of each domain.
IMPORTED = [
    "bellwether.domains",
    *(f"bellwether.domains.{name}" for name in ("arena", "benchmark", "domain", "replay", "venues", "warehouse")),
    "bellwether.errors",
    "bellwether.extras",
    "bellwether.places",
    "cli.lazy",
    "cli.main",
]

ALL = [command for command in main.commands.values() if isinstance(command, Lazy)]

INSTALL = "pip install 'bellwether[platform]'"


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate that only the package duckdb is missing."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "duckdb" else object())


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of an installed package with the commands `good`, `broken`, `gone` and `number`, on the Python path."""
    about = tmp_path / "others-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    homes = ("good = others_good:good", "broken = others_broken:broken", "gone = others_gone:gone", "number = others_good:number")
    (about / "entry_points.txt").write_text("\n".join(("[bellwether.commands]", *homes)))
    (tmp_path / "others_good.py").write_text(
        "import click\nnumber = 3\n@click.command()\ndef good():\n    'Do some good.'\n    click.echo('done')\n"
    )
    (tmp_path / "others_broken.py").write_text("raise RuntimeError('halfway\\nthrough')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def call(*words: str, group: click.Group = main) -> Result:
    return CliRunner().invoke(group, words)


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry.name)
def test_every_command_is_where_the_list_says_and_explains_itself(entry: Lazy) -> None:
    assert entry.load().name == entry.name
    result = call(str(entry.name), "--help")
    assert (result.exit_code, result.output.startswith(f"Usage: main {entry.name} ")) == (0, True)


def test_the_list_shows_every_command_once_on_a_line_of_eighty_characters() -> None:
    lines = call("--help").output.splitlines()
    shown = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in main.commands]
    assert shown == [one.name for declared in SECTIONS.values() for one in declared]
    assert sorted(shown) == sorted(main.commands)
    assert [line.removesuffix(":") for line in lines if line.endswith(":") and line[:1].isalpha()] == ["Options", *SECTIONS]
    assert max(map(len, lines)) <= 80


def test_the_list_imports_no_library_but_click() -> None:
    code = (
        "import sys\nfrom cli.main import main\nmain(['--help'], standalone_mode=False)\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'numpy', 'polars', 'rich', 'pydantic', 'dagster', 'orchestration'}))\n"
        "print(sorted(name for name in sys.modules if name.startswith(('bellwether.', 'cli.'))))"
    )
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[-2:] == ["[]", str(IMPORTED)]


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("words", [("demo",), ("demo", "--help"), ("query", "SELECT 1"), ("trading",)], ids=" ".join)
def test_a_command_of_the_platform_says_in_one_line_what_to_install(words: tuple[str, ...]) -> None:
    result = call(*words)
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)
    assert f"bellwether {words[0]}" in result.output and "duckdb is missing" in result.output and INSTALL in result.output


@pytest.mark.usefixtures("core")
def test_the_list_marks_what_the_platform_would_add() -> None:
    shown = call("--help").output
    marked = {line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line.split()[1:2] == ["*"]}
    assert shown.endswith(f"* Needs an extra: {INSTALL}\n")
    assert {"demo", "query", "arena"} <= marked
    assert not marked & {"agents", "backtest", "compat", "episode", "recordings", "score", "trading"}


def test_a_mistake_in_a_module_of_the_platform_is_not_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mistaken_commands.py").write_text("from bellwether.lake import Lakes\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    group = Commands("bellwether", commands={"mistaken": Lazy(PlatformCommand("mistaken", "mistaken_commands:mistaken", "Fail."))})
    result = call("mistaken", group=group)
    assert isinstance(result.exception, ImportError)
    assert "cannot import name 'Lakes'" in str(result.exception)


@pytest.mark.usefixtures("package")
def test_another_package_adds_its_command() -> None:
    assert call("good").output == "done\n"
    assert "Commands of other packages:" in call("--help").output
    assert "Do some good." in call("--help").output


@pytest.mark.usefixtures("package")
def test_a_broken_command_of_another_package_is_a_warning_that_names_it() -> None:
    result = call("--help")
    assert result.exit_code == 0
    for name in ("broken", "gone", "number"):
        assert f"Warning: the entry point '{name}' (bellwether.commands) of others cannot be loaded" in result.stderr
    assert len(result.stderr.splitlines()) == 3
    assert "RuntimeError: halfway" in result.stderr
    assert "demo" in result.stdout and "Do some good." in result.stdout


def test_the_package_of_another_cannot_replace_a_command(package: Path) -> None:
    entries = package / "others-1.0.dist-info" / "entry_points.txt"
    entries.write_text("[bellwether.commands]\ndemo = others_good:good\n")
    result = call("demo", "--help")
    assert "Run all stages in the sandbox" in result.output
    assert "Warning: the entry point 'demo' (bellwether.commands) of others is left out" in call("--help").stderr


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
