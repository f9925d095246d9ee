"""From a recording of the sandbox to a table: personalities of known skill trade over HTTP, and their trajectories replay without models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bellwether.replay.agents.llm import Trajectory
from bellwether.settings import settings
from cli.main import main
from tests.captures import LADDER, import_event


def run_command(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def episode() -> str:
    """The captured ladder as an episode."""
    import_event(settings().recordings_path, LADDER)
    run_command("episode", "build", LADDER)
    return LADDER


def trade(episode: str, *options: str) -> dict[str, Any]:
    rows = json.loads(run_command("backtest", "--episode", episode, "--cadence", "1800", "--json", *options))
    assert len(rows) == 1
    return dict(rows[0])


def trajectory_of(model: str) -> tuple[Path, Trajectory]:
    files = (settings().world_home / "trajectories").glob("*/*.jsonl")
    return next((file, found) for file in files if (found := Trajectory.read(file)).head.run["model"] == f"sandbox/{model}")


def test_personalities_trade_as_their_skill_says_and_can_be_replayed(episode: str, caplog: pytest.LogCaptureFixture) -> None:
    names = ("calibrated", "contrarian", "failing")
    made = {name: trade(episode, "--agent", "llm", "--param", f"model=sandbox-{name}") for name in names}
    assert {name: row["failure"] for name, row in made.items()} == dict.fromkeys(made)
    assert float(made["calibrated"]["contracts"]) > 0
    assert float(made["calibrated"]["pnl"]) > float(made["contrarian"]["pnl"])
    for name, row in made.items():
        file, _ = trajectory_of(name)
        again = trade(episode, "--replay", str(file))
        assert (again["agent"], again["result_digest"]) == (file.stem, row["result_digest"])
    rounds = trajectory_of("failing")[1].rounds
    steps, refusals = rounds[-1].step + 1, sum(round.outcome == "refusal" for round in rounds)
    assert {call.status for round in rounds for call in round.calls} >= {"error"}
    assert {round.outcome for round in rounds} == {"ok", "refusal"} and 0 < refusals < steps
    assert f"{refusals} of {steps} steps have no decision (refusal {refusals})" in caplog.text
