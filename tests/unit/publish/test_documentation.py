"""Statements of the page on publishing about rows and files are true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bellwether.publish import export
from bellwether.publish.dataset import SHARED
from bellwether.settings import World
from tests.publish.rows import questions

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "scoring.md").read_text(encoding="utf-8")


def test_the_page_names_the_columns_in_their_order_and_every_file(tmp_path: Path) -> None:
    named = re.findall(r"`(\w+)`", PAGE.partition("in its order and its types:")[2])
    assert tuple(named[: len(SHARED)]) == SHARED
    folder = export(questions(), tmp_path / "out", world=World.LIVE).folder
    for file in folder.rglob("*.*"):
        assert f"| `{file.relative_to(folder)}` |" in PAGE


def test_the_example_reads_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    export(questions(), "sandbox-2026", world=World.SANDBOX)
    example = re.findall(r"```python\n(.*?)```", PAGE.partition("## Publishing a release")[2], re.DOTALL)[0]
    found: dict[str, object] = {}
    exec(example, found)
    assert len(found["questions"]) == 6  # type: ignore[arg-type]
