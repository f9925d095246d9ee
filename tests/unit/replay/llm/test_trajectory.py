"""A trajectory is one JSON object per line, and a damaged one is refused by its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bellwether.errors import LakeError
from bellwether.replay.agents.llm import Trajectory
from bellwether.replay.agents.llm.trajectory import request_digest
from tests.unit.replay.llm.scripted_models import HEAD, played


def test_a_trajectory_comes_back_as_it_was(tmp_path: Path) -> None:
    failed = played(1, outcome="timeout", message=None, calls=[], ended="failed", prompt_tokens=None)
    written = Trajectory(HEAD, [played(0), failed, played(2)])
    written.write(tmp_path / "run.jsonl")
    assert Trajectory.read(tmp_path / "run.jsonl") == written
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_bytes().splitlines()]
    assert [line.get("step") for line in lines] == [None, 0, 1, 2]


def test_a_digest_covers_messages_and_tools() -> None:
    digests = {request_digest([{"content": text}], tools) for text in "ab" for tools in ([], [{"name": "x"}])}
    assert len(digests) == 4
    assert request_digest([{"a": 1, "b": 2}], []) == request_digest([{"b": 2, "a": 1}], [])


#: Damages of a line: its number, and its new text from the old one.
DAMAGES: dict[str, tuple[int, Callable[[str], str]]] = {
    "cut": (3, lambda text: text[:-30]),
    "no JSON": (2, lambda text: "x"),
    "another status": (3, lambda text: text.replace('"status":"ok"', '"status":"fine"')),
    "an unknown field": (2, lambda text: text.replace('"step":', '"stop":1,"step":')),
    "no head": (1, lambda text: "{}"),
}


def test_what_is_damaged_or_missing_is_refused_by_line(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    with pytest.raises(LakeError, match=r"run\.jsonl"):
        Trajectory.read(file)
    Trajectory(HEAD, [played(0), played(1)]).write(file)
    lines = file.read_text().splitlines()
    for name, (number, damage) in DAMAGES.items():
        damaged = [damage(line) if place == number else line for place, line in enumerate(lines, start=1)]
        assert damaged != lines, name
        file.write_text("\n".join(damaged))
        with pytest.raises(LakeError, match=f"run.jsonl, line {number}: "):
            Trajectory.read(file)
    file.write_text("")
    with pytest.raises(LakeError, match="empty"):
        Trajectory.read(file)
