"""A trajectory is written completely, is resumed where it ended, and refuses another run's files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bellwether.errors import LakeError
from bellwether.replay.agents.llm.steps import CalledTool, Round, Step
from bellwether.replay.agents.llm.trajectory import CHECKPOINT, Mismatch, Trajectory, TrajectoryHead, require_repeated
from tests.unit.replay.llm.scripted_models import HEAD, step, written


def failed(number: int, *, final: bool) -> Step:
    return step(number, rounds=(Round("k" * 64, "timeout", "too late", final),), ended="failed", reason="timeout: too late")


def run(folder: Path, last: int) -> Trajectory:
    """Add the missing steps up to `last`."""
    trajectory = Trajectory.begin(folder, HEAD)
    for number in range(trajectory.stored, last):
        trajectory.add(step(number))
    return trajectory


def test_a_step_comes_back_as_it_was() -> None:
    assert Step.from_line(step(7).to_line(), "here") == step(7)
    assert step(7).to_line().isascii()


def test_steps_are_on_the_disk_after_every_fifty(tmp_path: Path) -> None:
    trajectory = run(tmp_path, CHECKPOINT - 1)
    assert Trajectory.open(tmp_path).stored == 0
    trajectory.add(step(CHECKPOINT - 1))
    assert Trajectory.open(tmp_path).stored == CHECKPOINT


@pytest.mark.parametrize(("final", "stored"), [(False, 4), (True, 0)])
def test_a_failure_that_asking_again_could_change_is_on_the_disk_at_once(tmp_path: Path, final: bool, stored: int) -> None:
    run(tmp_path, 3).add(failed(3, final=final))
    assert Trajectory.open(tmp_path).stored == stored


def test_a_run_in_parts_leaves_the_same_bytes_as_one_without_a_break(tmp_path: Path) -> None:
    run(tmp_path / "whole", 123).finish()
    for stop in (*range(1, 43, 7), 49, 50, 51, 99):
        run(tmp_path / "parts", stop).save()
    trajectory = run(tmp_path / "parts", 123)
    trajectory.finish()
    assert written(tmp_path / "parts") == written(tmp_path / "whole")
    assert [one.number for one in trajectory.steps()] == list(range(123))


def test_stored_steps_are_given_back_in_any_order(tmp_path: Path) -> None:
    run(tmp_path, 123).save()
    trajectory = Trajectory.open(tmp_path)
    assert [trajectory.step(number) for number in (0, 122, 50, 49)] == [step(number) for number in (0, 122, 50, 49)]
    assert trajectory.step(123) is None


def test_a_finished_trajectory_says_what_came_of_it(tmp_path: Path) -> None:
    trajectory = run(tmp_path, 2)
    trajectory.add(failed(2, final=True))
    trajectory.finish()
    found = Trajectory.open(tmp_path).finished
    assert found == {
        "steps": 3,
        "ended": {"done": 2, "failed": 1},
        "answers": 2,
        "failures": {"timeout": 1},
        "tools": {"done": 2, "place_order": 2},
        "call_statuses": {"ok": 2, "rejected": 2},
        "prompt_tokens": None,
        "completion_tokens": None,
        "cost_microdollars": None,
    }


def test_another_run_is_refused_with_what_differs_and_nothing_is_changed(tmp_path: Path) -> None:
    run(tmp_path, 60).save()
    before = written(tmp_path)
    with pytest.raises(Mismatch, match=r"rules.*settings\.cadence"):
        Trajectory.begin(tmp_path, TrajectoryHead({"episode": "E", "rules": "kalshi-2026-05-28", "settings.cadence": 60}, "", []))
    assert written(tmp_path) == before


def test_a_step_that_came_out_otherwise_is_refused(tmp_path: Path) -> None:
    require_repeated(step(0), step(0), tmp_path)
    call = CalledTool("c1", "place_order", "", "{}", "ok")
    other_result = replace(step(0), rounds=(replace(step(0).rounds[0], calls=(call,)),))
    for changed in (step(0, ts=5), step(0, state="Time: 0\nCash: $4"), step(0, ended="rounds"), other_result):
        with pytest.raises(Mismatch):
            require_repeated(step(0), changed, tmp_path)


#: Damages of the second file of steps or of the head: file, and its new text from the old one.
DAMAGES: dict[str, tuple[str, Callable[[str], str]]] = {
    "cut": ("steps/000001.jsonl", lambda text: text[:-30]),
    "no JSON": ("steps/000001.jsonl", lambda text: "x\n"),
    "another step": ("steps/000001.jsonl", lambda text: text.replace('"number":50,', '"number":0,')),
    "empty": ("steps/000001.jsonl", lambda text: ""),
    "no head": ("trajectory.json", lambda text: "{}"),
    "another format": ("trajectory.json", lambda text: text.replace("trajectory/1", "trajectory/9")),
}


def test_what_is_damaged_or_missing_is_refused_by_file(tmp_path: Path) -> None:
    run(tmp_path, 123).finish()
    for name, (file, damage) in DAMAGES.items():
        path = tmp_path / file
        whole = path.read_text()
        path.write_text(damage(whole))
        assert path.read_text() != whole, name
        with pytest.raises(LakeError, match=path.name):
            list(Trajectory.open(tmp_path).steps())
        path.write_text(whole)
    for missing in ("000000.jsonl", "000002.jsonl"):
        path = tmp_path / "steps" / missing
        whole = path.read_text()
        path.unlink()
        with pytest.raises(LakeError):
            list(Trajectory.open(tmp_path).steps())
        path.write_text(whole)
