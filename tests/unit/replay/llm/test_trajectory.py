"""A trajectory is written completely, is resumed where it ended, and refuses another run's files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bellwether.errors import LakeError
from bellwether.replay.agents.llm.steps import CalledTool, Round, Step
from bellwether.replay.agents.llm.trajectory import CHECKPOINT, Mismatch, Trajectory, TrajectoryHead, require_repeated
from tests.unit.replay.llm.scripted_models import written

HEAD = TrajectoryHead({"episode": "E", "rules": "pmb-2026-01", "settings.cadence": 300}, "You trade.", [{"type": "function"}])
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "cost_microdollars": 30}


def step(number: int, **changes: object) -> Step:
    calls = (
        CalledTool("c1", "place_order", '{"ticker": "\ud800é"}', '{"status": "rejected"}', "rejected"),
        CalledTool("c2", "done", "{}", '{"ok": true}', "ok"),
    )
    heard = Round("k" * 64, "ok", message={"role": "assistant", "content": None}, calls=calls, usage=USAGE)
    return replace(Step(number, 1_768_928_400_000_000_001 + number, f"Time: {number}\nCash: $5", (heard,), "done"), **changes)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("stops", [(49, 50, 51), tuple(range(1, 120, 7))])
def test_a_run_in_parts_leaves_the_same_bytes_as_one_without_a_break(tmp_path: Path, stops: tuple[int, ...]) -> None:
    run(tmp_path / "whole", 123).finish()
    for stop in stops:
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
    with pytest.raises(Mismatch, match=r"rules is kalshi-2026-05-28 and was pmb-2026-01; settings.cadence is 60 and was 300"):
        Trajectory.begin(tmp_path, TrajectoryHead({"episode": "E", "rules": "kalshi-2026-05-28", "settings.cadence": 60}, "", []))
    assert written(tmp_path) == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (step(0, ts=5), "ts is 5"),
        (step(0, state="Time: 0\nCash: $4"), r"the state is Cash: \$4 and was Cash: \$5"),
        (step(0, ended="rounds"), "its end is rounds after 1 rounds and was done after 1 rounds"),
        (
            replace(step(0), rounds=(replace(step(0).rounds[0], calls=(CalledTool("c1", "place_order", "", "{}", "ok"),)),)),
            "result of place_order in round 0 is {}",
        ),
    ],
)
def test_a_step_that_came_out_otherwise_is_refused_with_the_first_difference(tmp_path: Path, changed: Step, message: str) -> None:
    require_repeated(step(0), step(0), tmp_path)
    with pytest.raises(Mismatch, match=message):
        require_repeated(step(0), changed, tmp_path)


def _damage(folder: Path, how: str) -> None:
    first, second = folder / "steps" / "000000.jsonl", folder / "steps" / "000001.jsonl"
    if how == "no file":
        first.unlink()
    elif how == "cut":
        second.write_text(second.read_text()[:-30])
    elif how == "no JSON":
        second.write_text("x\n")
    elif how == "another step":
        second.write_text(first.read_text())
    elif how == "empty":
        second.write_text("")
    elif how == "no head":
        (folder / "trajectory.json").write_text("{}")
    else:
        (folder / "trajectory.json").write_text((folder / "trajectory.json").read_text().replace("trajectory/1", "trajectory/9"))


@pytest.mark.parametrize("how", ["no file", "cut", "no JSON", "another step", "empty", "no head", "another format"])
def test_what_is_damaged_is_refused_by_file(tmp_path: Path, how: str) -> None:
    run(tmp_path, 123).finish()
    _damage(tmp_path, how)
    with pytest.raises(LakeError, match=r"reading .*(jsonl|json|steps)"):
        list(Trajectory.open(tmp_path).steps())


def test_steps_that_are_missing_at_the_end_are_noticed(tmp_path: Path) -> None:
    run(tmp_path, 123).finish()
    (tmp_path / "steps" / "000002.jsonl").unlink()
    with pytest.raises(LakeError, match="100 of 123 steps"):
        Trajectory.open(tmp_path)
