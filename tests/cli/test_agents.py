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
from tests.replay.episode.folders import Native


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
    listed = json.loads(CliRunner().invoke(main, ["agents", "--json"]).output)
    assert {"random", "bollinger", "momentum", "spread-capture", "market-maker", "buy-and-hold", "passive"} <= {
        row["name"] for row in listed
    }


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


def test_only_what_is_installed_is_recommended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "python -m pytest test_first.py" in new("first").output
    monkeypatch.setattr("cli.backtest.find_spec", lambda name: None)
    written = new("second").output
    assert "bellwether backtest --agent second.py" in written
    assert "pytest" not in written


def test_the_test_of_a_new_agent_passes_and_can_fail(folder: Path) -> None:
    for name, module in (("Narrow", "narrow_bids.py"), ("Wide", "wide_bids.py")):
        assert new(name, "--to", folder / "agents" / module).exit_code == 0
    wide = folder / "agents" / "wide_bids.py"
    wide.write_text(wide.read_text().replace("return market.yes_bid\n", "return market.yes_bid - 10\n"))
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--import-mode=prepend", str(folder / "agents")]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    said = subprocess.run(command, env=alone, capture_output=True, text=True, check=False).stdout
    ended = Counter(re.findall(r"^(PASSED|FAILED) \S*test_(narrow|wide)_bids\.py::", said, re.MULTILINE))
    assert ended == {("PASSED", "narrow"): 2, ("PASSED", "wide"): 1, ("FAILED", "wide"): 1}, said


@pytest.mark.parametrize("there", ["my_maker.py", "test_my_maker.py"])
def test_what_is_there_is_not_overwritten(folder: Path, there: str) -> None:
    (folder / there).write_text("mine")
    result = new("my-maker")
    assert result.exit_code == 1
    assert f"{folder / there} already exists" in str(result.exception) + result.output
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(there, "mine")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("2fast",), "the name '2fast' is invalid"),
        (("my/maker",), "the name 'my/maker' is invalid"),
        (("agent",), "the name 'agent' is used by the generated file"),
        (("x", "--to", "my-agent.py"), "'my-agent.py' is not a Python module name"),
        (("x", "--to", "agent.txt"), "'agent.txt' is not a Python module name"),
        (("random",), "random.py would hide the installed module 'random'"),
        (("numpy",), "numpy.py would hide the installed module 'numpy'"),
    ],
)
def test_a_name_that_makes_no_module_is_refused(folder: Path, words: tuple[str, ...], said: str) -> None:
    result = new(*words)
    assert result.exit_code == 1
    assert said in str(result.exception) + result.output
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("name", "file", "cls"),
    [("MyMaker", "my_maker", "MyMaker"), ("my_maker", "my_maker", "MyMaker"), ("HTTPMaker2", "http_maker_2", "HTTPMaker2")],
)
def test_a_name_in_any_spelling_names_file_and_class(folder: Path, name: str, file: str, cls: str) -> None:
    assert new(name).exit_code == 0
    assert f"class {cls}(Agent):" in (folder / f"{file}.py").read_text()
    assert f"from {file} import {cls}\n" in (folder / f"test_{file}.py").read_text()


def test_the_list_alone_has_json(folder: Path) -> None:
    assert CliRunner().invoke(main, ["agents", "--json", "new", "my-maker"]).exit_code == 2
    assert not list(folder.iterdir())
