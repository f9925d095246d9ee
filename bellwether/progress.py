"""Display of a command's progress and its remaining time: live in a terminal, as lines of text elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, Protocol

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from bellwether.untrusted_text import visible

#: Seconds within which a command shows nothing.
PATIENCE = 2.0
#: Seconds between plain lines about the same stage.
INTERVAL = 10.0

#: Receives the number of parts of a stage that are finished since the last call.
Advance = Callable[[int], None]


class Progress(Protocol):
    """Display of a command's progress, in stages."""

    def say(self, text: str) -> None:
        """Show what the command is doing now."""

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Show a stage with `total` equal parts until the block ends.
        Yields the function to call with the number of parts just finished. Stages may be nested.
        """

    def plan(self, seconds: Mapping[str, float]) -> AbstractContextManager[Callable[[str], None]]:
        """Show stages that follow one another until the block ends. Yields the function that begins the stage with a given name.

        seconds: durations of all stages on some machine; the finished stages show how much slower or faster this machine is.
        """


class Silent:
    """Progress that shows nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""
        return

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Show nothing."""
        return nullcontext(lambda parts: None)

    def plan(self, seconds: Mapping[str, float]) -> AbstractContextManager[Callable[[str], None]]:
        """Show nothing."""
        return nullcontext(lambda name: None)


@dataclass
class _Stage:
    """Stage with a number of equal parts, and its estimated remaining time."""

    name: str
    total: int
    clock: Callable[[], float]
    began: float
    done: int = 0

    def advance(self, parts: int) -> None:
        self.done += parts

    def __str__(self) -> str:
        left = (self.clock() - self.began) / self.done * (self.total - self.done) if 0 < self.done < self.total else 0
        return visible(f"{self.name}: {self.done} of {self.total}{f', about {_span(left)} left' if left else ''}")


class _Plan:
    """Stages that follow one another, with their expected durations."""

    def __init__(self, seconds: Mapping[str, float], clock: Callable[[], float]) -> None:
        self.seconds, self.clock = dict(seconds), clock
        self.names = list(seconds)
        self.number, self.began, self.begun = 0, clock(), clock()

    def begin(self, name: str) -> None:
        self.number, self.begun = self.names.index(name), self.clock()

    def remaining(self) -> float:
        """Return the estimated seconds until the last stage ends.
        Expected durations are scaled by the pace of the finished stages, or of the present one if slower.
        """
        now, expected = self.clock(), list(self.seconds.values())
        finished, current = sum(expected[: self.number]), expected[self.number]
        pace = max((self.begun - self.began) / finished if finished else 1.0, (now - self.begun) / current)
        return pace * sum(expected[self.number :]) - (now - self.begun)

    def __str__(self) -> str:
        left = f", about {_span(seconds)} left" if (seconds := self.remaining()) >= 1 else ""
        return visible(f"stage {self.number + 1} of {len(self.names)} ({self.names[self.number]}){left}")


class Lines:
    """Progress as lines of text, at most one per `interval` seconds. The start of a planned stage and the end of a long stage are always written.

    now: monotonic clock, in seconds.
    """

    def __init__(self, stream: IO[str], *, interval: float = INTERVAL, now: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._interval, self._now = stream, interval, now
        self._stages: list[_Stage | _Plan] = []
        self._activity, self._since = "", now()
        self._due = now() + PATIENCE
        self._lock = threading.RLock()

    def say(self, text: str) -> None:
        """Set the current activity, and write a line if one is due."""
        with self._lock:
            self._activity, self._since = text, self._now()
            self.tick()

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Include a stage of `total` parts in the lines until the block ends. Yields the function to call with the number of parts just finished."""
        stage = _Stage(name, total, self._now, self._now())

        def advance(parts: int) -> None:
            with self._lock:
                stage.advance(parts)
                self.tick()

        with self._listed(stage):
            yield advance
        if (seconds := self._now() - stage.began) >= PATIENCE and stage.done == total:
            self._write(f"{name}: {total} of {total} in {_span(seconds)}")

    @contextmanager
    def plan(self, seconds: Mapping[str, float]) -> Iterator[Callable[[str], None]]:
        """Include stages that follow one another in the lines until the block ends. Yields the function that begins a stage."""
        plan = _Plan(seconds, self._now)

        def begin(name: str) -> None:
            with self._lock:
                plan.begin(name)
                self._activity = ""
                self._write(str(plan), PATIENCE)

        with self._listed(plan):
            yield begin

    @contextmanager
    def _listed(self, stage: _Stage | _Plan) -> Iterator[None]:
        """Include a stage in the lines until the block ends."""
        with self._lock:
            self._stages.append(stage)
        try:
            yield
        finally:
            with self._lock:
                self._stages.remove(stage)

    def tick(self) -> None:
        """Write a line if one is due."""
        with self._lock:
            now = self._now()
            if now >= self._due and (self._stages or self._activity):
                duration = f", for {_span(now - self._since)}" if now - self._since >= self._interval else ""
                self._write("; ".join([*map(str, self._stages), *([f"{self._activity}{duration}"] if self._activity else [])]))

    def _write(self, line: str, pause: float | None = None) -> None:
        """Write a line; the next is due after `pause` seconds, by default the interval."""
        with self._lock:
            self._due = self._now() + (pause or self._interval)
            self._stream.write(f"{visible(line)}\n")
            self._stream.flush()


@contextmanager
def shown(stream: IO[str] | None = None) -> Iterator[Progress]:
    """Yield a progress display on standard error, or on `stream`, until the block ends."""
    stream = stream or sys.stderr
    if stream.isatty():
        with _live(stream) as live:
            yield live
        return
    lines, ended = Lines(stream), threading.Event()

    def tick() -> None:
        while not ended.wait(1.0):
            lines.tick()

    clock = threading.Thread(target=tick, daemon=True, name="progress")
    clock.start()
    try:
        yield lines
    finally:
        ended.set()
        clock.join()


@contextmanager
def _live(stream: IO[str]) -> Iterator[Progress]:
    columns = (SpinnerColumn(), TextColumn("{task.fields[line]}", markup=False), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(file=stream), transient=True) as bars:
        yield _Live(bars)


class _Live:
    """Live display in a terminal: a bar for each open stage, and a line with the current activity."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._activity = bars.add_task("", total=None, line="starting")

    def say(self, text: str) -> None:
        self._bars.update(self._activity, line=visible(text))

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Show a bar for a stage of `total` parts until the block ends. Yields the function to call with the number of parts just finished."""
        stage = _Stage(name, total, time.monotonic, time.monotonic())
        task = self._bars.add_task("", total=total, line=stage)

        def advance(parts: int) -> None:
            stage.advance(parts)
            self._bars.advance(task, parts)

        try:
            yield advance
        finally:
            self._bars.remove_task(task)

    @contextmanager
    def plan(self, seconds: Mapping[str, float]) -> Iterator[Callable[[str], None]]:
        """Show a bar for stages that follow one another until the block ends. Yields the function that begins a stage."""
        plan = _Plan(seconds, time.monotonic)
        task = self._bars.add_task("", total=len(seconds), line=plan)

        def begin(name: str) -> None:
            plan.begin(name)
            self._bars.update(task, completed=plan.number)

        try:
            yield begin
        finally:
            self._bars.remove_task(task)


def _span(seconds: float) -> str:
    """Format a duration in seconds with a suitable unit."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    return f"{round(whole / 60)} min" if whole < 5400 else f"{whole // 3600} h {whole % 3600 // 60} min"
