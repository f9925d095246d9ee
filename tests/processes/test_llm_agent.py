"""A killed run of an agent with a language model continues from the journal, and no decision is lost or duplicated."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bellwether.replay.agents.llm import Trajectory
from bellwether.replay.agents.llm.trajectory import Round
from tests.unit.replay.llm.scripted_models import Scripted, trade


def rounds_of(file: Path) -> list[Round]:
    """Return the requests without token usage, because an interrupted request is sent again."""
    unknown = {"prompt_tokens": None, "completion_tokens": None, "cost_microdollars": None}
    return [round.model_copy(update=unknown) for round in Trajectory.read(file).rounds]


@pytest.mark.nightly
def test_a_killed_run_ends_as_an_uninterrupted_one(tmp_path: Path) -> None:
    models = Scripted(tmp_path / "journal.db")
    whole = trade(models, tmp_path / "run.jsonl")
    requests = ["1", "80"]
    command = [sys.executable, "-m", "tests.processes.killed_runs", str(tmp_path), *requests]
    killed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert killed.stdout.split() == [str(-signal.SIGKILL.value)] * len(requests)
    for number in requests:
        file = tmp_path / number / "run.jsonl"
        later = Scripted(tmp_path / number / "journal.db")
        assert trade(later, file).digest == whole.digest
        assert later.sent == models.sent - int(number) + 1
        assert rounds_of(file) == rounds_of(tmp_path / "run.jsonl")
