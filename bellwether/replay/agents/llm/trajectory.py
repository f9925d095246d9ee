"""Stored trajectory of a run, in a local folder or an object store. It can be resumed, and replayed without a model.

    <folder>/trajectory.json       description of the run, prompt and tools; totals after its end
    <folder>/steps/000000.jsonl    steps 0 to 49, one JSON object per line; 000001.jsonl the next 50

Files are written atomically. A run that is killed between two checkpoints loses no answers: they are in the journal.
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
#: Steps per file, and between two checkpoints.
CHECKPOINT = 50
_HEAD, _STEPS = "trajectory.json", "steps"
_KEPT = "answers are in the journal"
_LONGEST = 120


class Mismatch(RunStopped):
    """A trajectory belongs to another run, or a repeated step differs from the stored step. The message names the difference; no file was
    changed.
    """


@dataclass(frozen=True)
class TrajectoryHead:
    """Description of a run. identity: properties that affect its steps, by name. prompt, tools: system prompt and tools of the model."""

    identity: Mapping[str, Any]
    prompt: str
    tools: list[dict[str, Any]]


class Trajectory:
    """Steps of a run, stored in a folder, and new steps that are not yet stored.

    Attributes:
        folder: Folder of the trajectory.
        head: Description of the run.
        stored: Number of steps that were stored when the trajectory was opened.
        finished: Totals of a finished run; None for an unfinished run.
    """

    def __init__(self, folder: Path, head: TrajectoryHead, *, finished: Mapping[str, Any] | None = None) -> None:
        self.folder, self.head, self.finished = folder, head, finished
        self.stored = self._count = _count_steps(folder)
        self._loaded: tuple[int, list[Step]] = (-1, [])
        self._tail = list(self._load_segment(self.stored // CHECKPOINT)) if self.stored % CHECKPOINT else []
        self._saved = len(self._tail)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a stored trajectory. Raises `LakeError` if it is missing or damaged."""
        path = folder / _HEAD
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            version, head = document["format"], TrajectoryHead(document["identity"], document["prompt"], document["tools"])
            finished = document["finished"]
        except FileNotFoundError:
            raise LakeError(f"reading {path}: the file does not exist; give the folder of a trajectory") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LakeError(f"reading {path}: it is not a trajectory ({error}); delete its folder") from None
        if version != FORMAT:
            raise LakeError(f"reading {path}: its format is {version!r:.60}; this version reads {FORMAT}; delete its folder")
        trajectory = cls(folder, head, finished=finished)
        if finished is not None and finished["steps"] != trajectory.stored:
            raise LakeError(
                f"reading {folder}: it has {trajectory.stored} of {finished['steps']} steps; delete it and repeat the run: {_KEPT}"
            )
        return trajectory

    @classmethod
    def begin(cls, folder: Path, head: TrajectoryHead) -> Self:
        """Open the trajectory in `folder`, or create it. Raises `Mismatch` if the folder has the trajectory of another run."""
        if (folder / _HEAD).exists():
            stored = cls.open(folder)
            require_same(stored.head.identity, head.identity, folder)
            return stored
        trajectory = cls(folder, head)
        trajectory._write_head()
        return trajectory

    def step(self, number: int) -> Step | None:
        """Return step `number` if it was stored when the trajectory was opened; None for later steps."""
        return self._load_segment(number // CHECKPOINT)[number % CHECKPOINT] if number < self.stored else None

    def steps(self) -> Iterator[Step]:
        """Save the new steps, and yield all steps in order."""
        self.save()
        for number in range(-(-self._count // CHECKPOINT)):
            yield from _read_steps(_path(self.folder, number))

    def add(self, step: Step) -> None:
        """Append the next step. All steps are saved every 50 steps, and after a failed step that a new request could resolve."""
        if step.number != self._count:
            raise LakeError(f"writing {self.folder}: step {step.number} follows {self._count - 1}; add steps in order")
        self._tail.append(step)
        self._count += 1
        if step.is_open or len(self._tail) == CHECKPOINT:
            self.save()

    def save(self) -> None:
        """Write the steps that are not yet stored."""
        if len(self._tail) > self._saved:
            path = _path(self.folder, (self._count - 1) // CHECKPOINT)
            _write_text(path, "".join(f"{step.to_line()}\n" for step in self._tail))
            self._saved = len(self._tail)
        if len(self._tail) == CHECKPOINT:
            self._tail, self._saved = [], 0

    def finish(self) -> None:
        """Save the remaining steps, and mark the run as finished with its totals."""
        self.finished = totals(self.steps())
        self._write_head()

    def _load_segment(self, number: int) -> list[Step]:
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


def require_same(stored: Mapping[str, Any], identity: Mapping[str, Any], folder: Path) -> None:
    """Raise `Mismatch` if any property in `identity` differs from the property of that name in `stored`, and name the differences."""
    names = [name for name in identity if stored.get(name) != identity[name]]
    differing = [f"{name} is {_truncate(identity[name])} and was {_truncate(stored.get(name))}" for name in names]
    if differing:
        raise Mismatch(
            f"replaying {folder}: it is the trajectory of another run: {'; '.join(differing)}. Use the original values, or another folder"
        )


def require_repeated(stored: Step, repeated: Step, folder: Path) -> None:
    """Raise `Mismatch` naming the first difference between a stored step and its repetition."""
    if stored == repeated:
        return
    where, old, new = next(_differences(stored, repeated), ("it", "otherwise", "this"))
    raise Mismatch(
        f"replaying {folder}: step {stored.number} differs: {where} is {_truncate(new)} and was {_truncate(old)}. "
        "The episode, the rules or the simulator have changed; run it in another folder"
    )


def _differences(stored: Step, repeated: Step) -> Iterator[tuple[str, Any, Any]]:
    """Yield each difference between a stored step and its repetition: a name, the stored value and the repeated value."""
    for name in ("number", "ts", "state"):
        old, new = getattr(stored, name), getattr(repeated, name)
        if old != new and name == "state":
            lines = zip([*old.splitlines(), ""], [*new.splitlines(), ""], strict=False)
            yield "the state", *next(((a, b) for a, b in lines if a != b), (old, new))
        elif old != new:
            yield name, old, new
    for place, rounds in enumerate(zip(stored.rounds, repeated.rounds, strict=False)):
        for a, b in zip(*(entry.calls for entry in rounds), strict=False):
            if a != b:
                yield f"the result of {a.name} in round {place}", a.result, b.result
    yield "its end", f"{stored.ended} after {len(stored.rounds)} rounds", f"{repeated.ended} after {len(repeated.rounds)} rounds"


def _truncate(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


# --- files -------------------------------------------------------------------------------------------------------------


def _path(folder: Path, segment: int) -> Path:
    return folder / _STEPS / f"{segment:06d}.jsonl"


def _count_steps(folder: Path) -> int:
    """Return the number of stored steps. Raises `LakeError` if a step file before the last one is missing."""
    names = sorted(path.name for path in (folder / _STEPS).glob("*.jsonl"))
    expected = [_path(folder, number).name for number in range(len(names))]
    if names != expected:
        missing = next(name for name, present in zip(expected, names, strict=True) if name != present)
        raise LakeError(f"reading {folder}: the step file {missing} is missing; delete the folder and repeat the run: {_KEPT}")
    return (len(names) - 1) * CHECKPOINT + len(_read_steps(_path(folder, len(names) - 1))) if names else 0


def _read_steps(path: Path) -> list[Step]:
    """Read a step file. Raises `LakeError` if it is damaged."""
    first = int(path.stem) * CHECKPOINT
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LakeError(f"reading {path}: it cannot be read ({error}); delete the folder and repeat the run: {_KEPT}") from None
    steps = [Step.from_line(line, f"{path}, line {place}") for place, line in enumerate(lines, start=1)]
    if [step.number for step in steps] != list(range(first, first + len(steps))) or not 0 < len(steps) <= CHECKPOINT:
        raise LakeError(
            f"reading {path}: its steps do not start at {first} or are not in order; delete the folder and repeat the run: {_KEPT}"
        )
    return steps


def _write_text(path: Path, text: str) -> None:
    with atomic_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
