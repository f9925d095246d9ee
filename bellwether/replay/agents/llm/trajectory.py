"""Stored trajectory of a run, local or in an object store: its description and every step, so that it can continue and be replayed without a model.

    <folder>/trajectory.json       what was run, with prompt and tools; when it has ended, totals
    <folder>/steps/000000.jsonl    steps 0 to 49, one JSON object a line; 000001.jsonl the next 50

Files are written whole. Between two checkpoints a killed run loses no answer: the journal has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bellwether.errors import LakeError
from bellwether.files import atomic_file
from bellwether.replay.agents.limits import RunStopped
from bellwether.replay.agents.llm.steps import Step, totals

FORMAT = "bellwether-trajectory/1"
#: Steps of a file, and between two checkpoints.
CHECKPOINT = 50
_HEAD, _STEPS = "trajectory.json", "steps"
_KEPT = "answers are in the journal"
_LONGEST = 120


class Mismatch(RunStopped):
    """A stored trajectory is of another run: what differs is in the message, and nothing was changed."""


@dataclass(frozen=True)
class TrajectoryHead:
    """Description of a run. identity: everything that decides its steps, by name. prompt, tools: the model's input."""

    identity: Mapping[str, Any]
    prompt: str
    tools: list[dict[str, Any]]


class Trajectory:
    """The steps of one run: those that were stored when it was opened, and those that are added.

    stored: how many were stored. finished: totals of a run that had reached its end, None of another.
    """

    def __init__(self, folder: Path, head: TrajectoryHead, *, finished: Mapping[str, Any] | None = None) -> None:
        self.folder, self.head, self.finished = folder, head, finished
        self.stored = self._count = _count_segments(folder)
        self._loaded: tuple[int, list[Step]] = (-1, [])
        self._tail = list(self._segment(self.stored // CHECKPOINT)) if self.stored % CHECKPOINT else []
        self._saved = len(self._tail)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """One that is there. Raises `LakeError` for a folder that has none, or a damaged one."""
        path = folder / _HEAD
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            found, head = document["format"], TrajectoryHead(document["identity"], document["prompt"], document["tools"])
            finished = document["finished"]
        except FileNotFoundError:
            raise LakeError(f"reading {path}: there is no such file; name the folder of a trajectory") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LakeError(f"reading {path}: it is no trajectory ({error}); delete its folder") from None
        if found != FORMAT:
            raise LakeError(f"reading {path}: its format is {found!r:.60}; this version reads {FORMAT}; delete its folder")
        trajectory = cls(folder, head, finished=finished)
        if finished is not None and finished["steps"] != trajectory.stored:
            raise LakeError(f"reading {folder}: it has {trajectory.stored} of {finished['steps']} steps; delete it and run again: {_KEPT}")
        return trajectory

    @classmethod
    def begin(cls, folder: Path, head: TrajectoryHead) -> Self:
        """The one in `folder` if it is of this run, else a new one. Raises `Mismatch` for another run's, and leaves it as it is."""
        if (folder / _HEAD).exists():
            found = cls.open(folder)
            require_same(found.head.identity, head.identity, folder)
            return found
        trajectory = cls(folder, head)
        trajectory._write_head()
        return trajectory

    def step(self, number: int) -> Step | None:
        """A step that was stored when it was opened; None behind them."""
        return self._segment(number // CHECKPOINT)[number % CHECKPOINT] if number < self.stored else None

    def steps(self) -> Iterator[Step]:
        """All steps in their order; first they are saved."""
        self.save()
        for number in range(-(-self._count // CHECKPOINT)):
            yield from _read_steps(_path(self.folder, number))

    def add(self, step: Step) -> None:
        """Add the next step. It is on the disk after at most 50, and at once where asking again could bring another answer."""
        if step.number != self._count:
            raise LakeError(f"writing {self.folder}: step {step.number} follows {self._count - 1}; steps are added in their order")
        self._tail.append(step)
        self._count += 1
        if step.is_open or len(self._tail) == CHECKPOINT:
            self.save()

    def save(self) -> None:
        """Write what is not on the disk yet."""
        if len(self._tail) > self._saved:
            path = _path(self.folder, (self._count - 1) // CHECKPOINT)
            _write_text(path, "".join(f"{step.line()}\n" for step in self._tail))
            self._saved = len(self._tail)
        if len(self._tail) == CHECKPOINT:
            self._tail, self._saved = [], 0

    def finish(self) -> None:
        """The run has reached its end: write what is left, and the totals."""
        self.finished = totals(self.steps())
        self._write_head()

    def _segment(self, number: int) -> list[Step]:
        if self._loaded[0] != number:
            self._loaded = (number, _read_steps(_path(self.folder, number)))
        return self._loaded[1]

    def _write_head(self) -> None:
        head = {
            "format": FORMAT,
            "identity": self.head.identity,
            "finished": self.finished,
            "prompt": self.head.prompt,
            "tools": self.head.tools,
        }
        _write_text(self.folder / _HEAD, json.dumps(head, indent=1) + "\n")


def require_same(stored: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raise `Mismatch` that names what differs, unless all that `now` names is the same in a stored trajectory."""
    differing = [f"{name} is {_truncate(now[name])} and was {_truncate(stored.get(name))}" for name in now if stored.get(name) != now[name]]
    if differing:
        raise Mismatch(f"replaying {folder}: it is the trajectory of another run: {'; '.join(differing)}. Run it as it was, or elsewhere")


def require_repeated(stored: Step, now: Step, folder: Path) -> None:
    """Raise `Mismatch` that names the first thing that came out otherwise, unless a step was repeated to the letter."""
    if stored == now:
        return
    where, was, found = next(_differences(stored, now), ("it", "otherwise", "this"))
    raise Mismatch(
        f"replaying {folder}: step {stored.number} came out otherwise: {where} is {_truncate(found)} and was {_truncate(was)}. "
        "The episode, the rules or the simulator have changed; run it anew in another folder"
    )


def _differences(stored: Step, now: Step) -> Iterator[tuple[str, Any, Any]]:
    for name in ("number", "ts", "state"):
        was, found = getattr(stored, name), getattr(now, name)
        if was != found and name == "state":
            lines = zip([*was.splitlines(), ""], [*found.splitlines(), ""], strict=False)
            yield "the state", *next(((a, b) for a, b in lines if a != b), (was, found))
        elif was != found:
            yield name, was, found
    for place, (old, new) in enumerate(zip(stored.rounds, now.rounds, strict=False)):
        for a, b in zip(old.calls, new.calls, strict=False):
            if a != b:
                yield f"the result of {a.name} in round {place}", a.result, b.result
    yield "its end", f"{stored.ended} after {len(stored.rounds)} rounds", f"{now.ended} after {len(now.rounds)} rounds"


def _truncate(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


# --- files -------------------------------------------------------------------------------------------------------------


def _path(folder: Path, segment: int) -> Path:
    return folder / _STEPS / f"{segment:06d}.jsonl"


def _count_segments(folder: Path) -> int:
    """Return the number of stored steps. Raises `LakeError` if files between others are missing."""
    names = sorted(path.name for path in (folder / _STEPS).glob("*.jsonl"))
    expected = [_path(folder, number).name for number in range(len(names))]
    if names != expected:
        missing = next(name for name, found in zip(expected, names, strict=True) if name != found)
        raise LakeError(f"reading {folder}: {missing} is missing among the files of its steps; delete the folder and run again: {_KEPT}")
    return (len(names) - 1) * CHECKPOINT + len(_read_steps(_path(folder, len(names) - 1))) if names else 0


def _read_steps(path: Path) -> list[Step]:
    """The steps of a file; raises `LakeError` for one that is damaged."""
    first = int(path.stem) * CHECKPOINT
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LakeError(f"reading {path}: it cannot be read ({error}); delete the folder and run again: {_KEPT}") from None
    steps = [Step.of(line, f"{path}, line {place}") for place, line in enumerate(lines, start=1)]
    if [step.number for step in steps] != list(range(first, first + len(steps))) or not 0 < len(steps) <= CHECKPOINT:
        raise LakeError(f"reading {path}: it does not hold the steps from {first} in their order; delete the folder and run again: {_KEPT}")
    return steps


def _write_text(path: Path, text: str) -> None:
    with atomic_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
