"""Progress of a command and its remaining time: a live display in a terminal, plain lines on standard error otherwise."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from bellwether.untrusted_text import visible

#: What takes less says nothing.
PATIENCE = 2.0
#: Seconds between plain lines about the same stage.
INTERVAL = 10.0

#: Called with the parts of a stage that were done since the last call.
Advance = Callable[[int], None]


class Progress(Protocol):
    """Shows what is being done."""

    def say(self, text: str) -> None:
        """Show the current activity."""

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """A stage of so many equal parts, while the context is open; stages may contain others."""


class Silent:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Nothing is shown."""
        return

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Nothing is shown."""
        return nullcontext(lambda parts: None)


@dataclass
class _Stage:
    name: str
    total: int
    began: float
    done: int = 0

    def line(self, now: float) -> str:
        left = f", about {_span((now - self.began) / self.done * (self.total - self.done))} left" if 0 < self.done < self.total else ""
        return f"{self.name}: {self.done} of {self.total}{left}"


class Lines:
    """A line whenever something has been done for a while: at most one in `interval` seconds, and one when a long stage ends.

    now: seconds of a clock that only goes forward.
    """

    def __init__(self, stream: IO[str], *, interval: float = INTERVAL, now: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._interval, self._now = stream, interval, now
        self._stages: list[_Stage] = []
        self._doing, self._since = "", now()
        self._due = now() + PATIENCE
        self._lock = threading.RLock()

    def say(self, text: str) -> None:
        """Show what is being done now."""
        with self._lock:
            self._doing, self._since = text, self._now()
            self.tick()

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Show a stage of `total` parts while the block runs; it yields the function that reports finished parts."""
        one = _Stage(name, total, self._now())
        with self._lock:
            self._stages.append(one)

        def advance(parts: int) -> None:
            with self._lock:
                one.done += parts
                self.tick()

        try:
            yield advance
        finally:
            with self._lock:
                self._stages.remove(one)
                if self._now() - one.began >= PATIENCE and one.done == total:
                    self._write(f"{name}: {total} of {total} in {_span(self._now() - one.began)}")

    def tick(self) -> None:
        """Write a line if one is due."""
        with self._lock:
            now = self._now()
            if now >= self._due and (self._stages or self._doing):
                took = f", for {_span(now - self._since)}" if now - self._since >= self._interval else ""
                self._write("; ".join([*(stage.line(now) for stage in self._stages), *([f"{self._doing}{took}"] if self._doing else [])]))

    def _write(self, line: str) -> None:
        self._due = self._now() + self._interval
        self._stream.write(f"{visible(line)}\n")
        self._stream.flush()


@contextmanager
def shown(stream: IO[str] | None = None) -> Iterator[Progress]:
    """The progress of a command, on standard error."""
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
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(file=stream), transient=True) as bars:
        yield _Live(bars)


class _Live:
    """Bars in a terminal: one per open stage, and a line with the current activity."""

    def __init__(self, bars: object) -> None:
        assert isinstance(bars, Bars)
        self._bars = bars
        self._doing = bars.add_task("starting", total=None)

    def say(self, text: str) -> None:
        self._bars.update(self._doing, description=visible(text))

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Show a stage of `total` parts while the block runs; it yields the function that reports finished parts."""
        task = self._bars.add_task(visible(name), total=total)
        try:
            yield lambda parts: self._bars.advance(task, parts)
        finally:
            self._bars.remove_task(task)


def _span(seconds: float) -> str:
    """Format a duration."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 5400 else f"{whole // 3600} h {whole % 3600 // 60} min"
