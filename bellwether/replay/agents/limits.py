"""Time limit of an agent's steps, errors of limits, and failures of agents, whose messages are identical in every process."""

from __future__ import annotations

import math
import re
import signal
import threading
import time
import traceback
from collections.abc import Container
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Self

from bellwether.errors import BellwetherError

#: Checks per limit of a step, so that a step is stopped at most a quarter late.
_CHECKS = 4


class BudgetError(BellwetherError):
    """Call beyond the tool-call budget of a decision, which language models and PredictionMarketBench's rules have."""


class RunStopped(BellwetherError):
    """A run has no result for a reason outside the agent, such as an unavailable model or a trajectory that belongs to another run.

    `backtest.run` does not catch it.
    """


class StepTimeout(BaseException):
    """A step (decision or callback) took longer than its limit. Not an `Exception`, so that agents do not catch it by accident."""


class StepLimit:
    """Time limit of an agent's steps (decisions and callbacks), in seconds; infinity for none. Call `begin` and `finish` around each step.

    An alarm of the system raises `StepTimeout` in the main thread, where it also interrupts blocking calls such as `time.sleep`. Compiled
    code is interrupted when it returns to Python. Other threads and Windows have no alarms, and no limit.
    """

    def __init__(self, seconds: float) -> None:
        has_alarm = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        self._seconds = seconds if has_alarm and math.isfinite(seconds) else 0.0
        self._since = 0.0
        self._inside = self._fired = False

    def __enter__(self) -> Self:
        if self._seconds:
            self._previous = signal.signal(signal.SIGALRM, self._check_time)
            # Setting an alarm at every step would take longer than a quick step.
            signal.setitimer(signal.ITIMER_REAL, self._seconds / _CHECKS, self._seconds / _CHECKS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._previous or signal.SIG_DFL)

    def begin(self) -> None:
        """Begin a step."""
        self._since, self._inside = time.monotonic(), True

    def finish(self) -> None:
        """End a step. Raises `StepTimeout` if the step exceeded its limit."""
        if self.stop():
            raise StepTimeout

    def stop(self) -> bool:
        """End a step without raising. Returns True if the step exceeded its limit."""
        self._inside = False
        fired, self._fired = self._fired, False
        return fired

    def _check_time(self, number: int, frame: FrameType | None) -> None:
        """Raise `StepTimeout` if the limit has elapsed since the step began, or since this method last raised it."""
        present = time.monotonic()
        if self._inside and present - self._since >= self._seconds:
            self._since, self._fired = present, True
            raise StepTimeout


_LONGEST_MESSAGE, _LONGEST_TRACE = 300, 4000
#: Memory address in an object's `repr`, which differs between processes.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
STEP_TIMEOUT = "the call took longer than the limit of a decision"


@dataclass(frozen=True, slots=True)
class Failure:
    """Error that ended an agent's trading before the end of the episode.

    Attributes:
        type: Type of the error.
        message: First line of the error message.
        step: Number of the decision, from 0; -1 before the first decision.
        at: Simulated time of the error, ns UTC.
        traceback: Traceback within the agent, and the last output of an isolated agent; untrusted text, excluded from digests and comparisons.
    """

    type: str
    message: str
    step: int
    at: int
    traceback: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


def build_failure(error: BaseException, step: int, at: int, *, omitted: Container[str] = ()) -> Failure:
    """Build the `Failure` of an error. step: number of the decision. at: simulated time, ns UTC. omitted: files whose frames are left out
    at the start of the traceback.
    """
    return Failure(*describe_error(error), step, at, format_traceback(error, omitted))


def describe_error(error: BaseException) -> tuple[str, str]:
    """Return the type of an error and the first line of the message, both without control characters and memory addresses."""
    if isinstance(error, StepTimeout):
        return "StepTimeout", STEP_TIMEOUT
    try:
        lines = str(error).splitlines()
    except Exception:
        lines = ["the error message could not be read"]
    return sanitize_line(type(error).__name__), sanitize_line(lines[0]) if lines else ""


def format_traceback(error: BaseException, omitted: Container[str]) -> str:
    """Format the traceback of an error, without the leading frames that are in the files `omitted`."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in omitted:
        trace = trace.tb_next
    try:
        return sanitize_text("".join(traceback.format_exception(type(error), error, trace)))
    except Exception:
        return ""


def sanitize_line(message: str) -> str:
    """Return at most 300 characters of a message, without control characters and memory addresses."""
    printable = "".join(sign if sign.isprintable() else " " for sign in _ADDRESS.sub("", message))
    return printable[:_LONGEST_MESSAGE]


def sanitize_text(text: str) -> str:
    """Return the last 4,000 characters of a text, without control characters other than newlines."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text[-_LONGEST_TRACE:]).strip("\n")
