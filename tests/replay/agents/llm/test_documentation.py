"""docs/llm-agent.md names every parameter and tool, and its examples run."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from bellwether.recordings.generating import generate_recording, settled_events
from bellwether.replay.agents.llm import LLMAgent
from bellwether.replay.agents.llm.tools import Toolbox
from bellwether.sandbox import GeneratedWorld
from bellwether.settings import settings
from tests.replay.agents.llm.scripted import Scripted, episode, trade

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "llm-agent.md").read_text("utf-8")


def rows(section: str) -> dict[str, str]:
    """The table of a section by its first cell's names."""
    text = f"\n{PAGE}".split(f"\n{section}\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\| (`[^|]+`) \|(.*)\|$", text, re.MULTILINE)
    return {name: cells for names, cells in lines for name in re.findall(r"`(\w+)`", names)}


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_every_parameter_is_listed() -> None:
    listed = rows("# Language models as traders")
    assert list(listed) == list(inspect.signature(LLMAgent.__init__).parameters)[1:]


def test_every_tool_is_listed_with_its_arguments() -> None:
    info = replace(episode(1).info, exogenous=("spx",))
    listed = rows("## Tools")
    tools = {one["function"]["name"]: one["function"]["parameters"]["properties"] for one in Toolbox(info).definitions}
    assert list(listed) == list(tools)
    for name, properties in tools.items():
        assert re.findall(r"`(\w+)`", listed[name]) == list(properties), name


def test_every_end_of_a_step_is_listed() -> None:
    assert set(rows("## A step")) == {"done", "no_tool", "rounds", "failed"}


def test_steps_are_read_with_the_sql(tmp_path: Path) -> None:
    trade(Scripted(tmp_path / "journal.db"), tmp_path / "run", episode(4))
    found = duckdb.sql(block("sql").replace("steps/*.jsonl", f"{tmp_path}/run/steps/*.jsonl")).fetchall()
    assert [(number, ended) for number, _, ended, *_ in found] == [(number, "done") for number in range(4)]
    assert all(dollars == pytest.approx(rounds * 0.00002) for *_, rounds, dollars in found)


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from cli.main import main

    world, config = GeneratedWorld(7), settings()
    event = settled_events(world, config.now(), 1)[0]
    generate_recording(config.recordings_path, world, event, hours=4, now=config.now())
    made = CliRunner().invoke(main, ["episode", "build", event, "--infer-results"], catch_exceptions=False)
    assert made.exit_code == 0, made.output
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    code = block("python").replace("episodes/KXTOTALCFB-26JUN28", str(config.episodes_path / event))
    exec(compile(code, "llm-agent.md", "exec"), {})
    assert (tmp_path / "work" / "trajectory" / "trajectory.json").is_file()
