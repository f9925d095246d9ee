"""A killed run of an agent with a language model continues from its trajectory, and no decision is lost or duplicated."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bellwether.replay.agents.llm import Trajectory
from bellwether.replay.agents.llm.steps import Step
from tests.unit.replay.llm.scripted_models import Scripted, trade


def steps_of(folder: Path) -> list[Step]:
    """Return the steps without token usage and attempts, because an interrupted request is sent again."""
    return [
        replace(step, rounds=tuple(replace(one, usage={}, attempts=1) for one in step.rounds)) for step in Trajectory.open(folder).steps()
    ]


@pytest.mark.nightly
def test_a_killed_run_ends_as_an_uninterrupted_one(tmp_path: Path) -> None:
    models = Scripted(tmp_path / "journal.db")
    whole = trade(models, tmp_path / "run")
    requests = ["1", "150"]
    command = [sys.executable, "-m", "tests.processes.killed_runs", str(tmp_path), *requests]
    killed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert killed.stdout.split() == [str(-signal.SIGKILL.value)] * len(requests)
    for number in requests:
        run_folder = tmp_path / number / "run"
        later = Scripted(tmp_path / number / "journal.db")
        assert trade(later, run_folder).digest == whole.digest
        assert later.sent == models.sent - int(number) + 1
        assert steps_of(run_folder) == steps_of(tmp_path / "run")
