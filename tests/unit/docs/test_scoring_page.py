"""docs/scoring.md shows the real output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bellwether.scoring.columns import NAMES
from cli.main import main

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "scoring.md").read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    """Return a code block of the page."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)[number]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder with the forecasts of the page."""
    (tmp_path / "forecasts.csv").write_text(block("csv"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_prints_the_tables_shown(folder: Path) -> None:
    done = CliRunner().invoke(main, ["score", "forecasts.csv"])
    assert done.exit_code == 0
    assert [line.rstrip() for line in done.output.rstrip().splitlines()] == block("text").rstrip().splitlines()


def test_two_lines_of_python_print_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(block("python").split("\n\n")) == 2
    exec(compile(block("python"), "scoring.md", "exec"), {})
    assert [line.rstrip() for line in capsys.readouterr().out.rstrip().splitlines()] == block("text").rstrip().splitlines()


def test_the_python_example_runs(folder: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python", 1), "scoring.md", "exec"), names)
    assert names["gpt"].height == 14
    for name in ("reliability.png", "differences.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert (folder / "scores.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_names_listed_are_those_recognised() -> None:
    rows = re.findall(r"^\| `--\w+` \| .*? \| (.*) \|$", PAGE, flags=re.MULTILINE)
    assert [tuple(re.findall(r"`(\w+)`", row)) for row in rows] == list(NAMES.values())
