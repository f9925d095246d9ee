"""`bellwether agents` and `bellwether agents new`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from tests.unit.replay.episode.folders import Native


def new(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["agents", "new", *map(str, words)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_agents_are_listed_with_what_they_do() -> None:
    shown = CliRunner().invoke(main, ["agents"])
    assert shown.exit_code == 0
    assert "Never trades." in shown.output
    listed = {line.split()[0] for line in shown.output.splitlines() if line.strip()}
    assert {"random", "bollinger", "momentum", "spread-capture", "market-maker", "buy-and-hold", "passive"} <= listed


def test_a_new_agent_trades_an_episode_with_the_command_shown(folder: Path) -> None:
    episode = Native().write(folder / "KXTEST-26JAN20")
    written = new("my-maker")
    assert written.exit_code == 0, written.output
    assert sorted(path.name for path in folder.glob("*.py")) == ["my_maker.py", "test_my_maker.py"]
    (shown,) = [line.split() for line in written.output.splitlines() if "bellwether backtest" in line]
    assert shown[1:5] == ["backtest", "--agent", "my_maker.py", "--episode"]
    result = CliRunner().invoke(main, [*shown[1:-1], str(episode), "--cadence", "5", "--json"])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)
    assert (row["agent"], row["failure"]) == ("my-maker", None)
    assert row["orders"] > 0


@pytest.mark.nightly
def test_the_test_of_a_new_agent_passes_and_can_fail(folder: Path) -> None:
    for name in ("NarrowBids", "WideBids"):
        assert new(name).exit_code == 0
    wide = folder / "wide_bids.py"
    wide.write_text(wide.read_text().replace("return market.yes_bid\n", "return market.yes_bid - 10\n"))
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--import-mode=prepend", str(folder)]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    said = subprocess.run(command, env=alone, capture_output=True, text=True, check=False).stdout
    ended = Counter(re.findall(r"^(PASSED|FAILED) \S*test_(narrow|wide)_bids\.py::", said, re.MULTILINE))
    assert ended == {("PASSED", "narrow"): 2, ("PASSED", "wide"): 1, ("FAILED", "wide"): 1}, said


def test_existing_files_and_invalid_names_are_refused(folder: Path) -> None:
    (folder / "test_my_maker.py").write_text("mine")
    for words in (("my-maker",), ("2fast",), ("../maker",), ("agent",), ("class",), ("numpy",)):
        assert new(*words).exit_code == 1, words
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("test_my_maker.py", "mine")]


@pytest.mark.parametrize(("name", "file", "cls"), [("my_maker", "my_maker", "MyMaker"), ("HTTPMaker2", "http_maker_2", "HTTPMaker2")])
def test_any_spelling_of_a_name_gives_file_and_class(folder: Path, name: str, file: str, cls: str) -> None:
    assert new(name).exit_code == 0
    assert f"class {cls}(Agent):" in (folder / f"{file}.py").read_text()
    assert f"from {file} import {cls}\n" in (folder / f"test_{file}.py").read_text()
