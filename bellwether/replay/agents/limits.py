"""Time limit of an agent's steps, errors of limits, and failures of agents, whose messages are identical in every process."""

from __future__ import annotations

import ctypes
import math
import re
import signal
import threading
import time
import traceback
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Self

from bellwether.errors import BellwetherError

#: Checks per step limit, so that a step is stopped at most a quarter late; maximum seconds between checks.
_CHECKS, _LONGEST_WAIT = 4, 3600.0


class BudgetError(BellwetherError):
    """Call beyond the tool-call budget of a decision, which language models and PredictionMarketBench's rules have."""


class RunStopped(BellwetherError):
    """A run has no result for a reason outside the agent, such as an unavailable model or a trajectory that belongs to another run.

    `backtest.run` does not catch it.
    """


class StepTimeout(BaseException):
    """A step (decision or callback) took longer than its limit. Not an `Exception`, so that agents do not catch it by accident."""


class StepLimit:
    """Time limit of an agent's steps (decisions and callbacks), in seconds; infinity for none. Call `begin` and `finish` around each step,
    on the thread that created the object.

    On the main thread a system alarm raises `StepTimeout`, which also interrupts blocking calls such as `time.sleep`. On other threads and
    on Windows a watcher thread raises it at the next Python instruction, after a blocking call. Neither interrupts compiled code before it
    returns to Python.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._every = seconds, min(max(seconds / _CHECKS, 1e-3), _LONGEST_WAIT)
        self._thread = threading.get_ident()
        self._lock, self._over = threading.Lock(), threading.Event()
        self._since = 0.0
        self._inside = self._fired = False
        self._alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        self._watcher = threading.Thread(target=self._watch, name="step-limit", daemon=True)
        if not math.isfinite(self._seconds):
            self._alarms = False
        elif self._alarms:
            self._previous = signal.signal(signal.SIGALRM, self._alarmed)
            every = self._every
            self._begun, self._outer = time.monotonic(), signal.setitimer(signal.ITIMER_REAL, every, every)
        else:
            self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._watcher.ident is not None:
            self._watcher.join()
        if self._alarms:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._previous or signal.SIG_DFL)
            delay, every = self._outer
            if delay:
                # Restore the caller's own alarm.
                signal.setitimer(signal.ITIMER_REAL, max(delay - (time.monotonic() - self._begun), 1e-3), every)

    def begin(self) -> None:
        """Begin a step."""
        self._since = time.monotonic()
        self._inside = True

    def finish(self) -> None:
        """End a step. Raises `StepTimeout` if the step exceeded its limit."""
        if self.stop():
            raise StepTimeout

    def stop(self) -> bool:
        """End a step without raising. Returns True if the step exceeded its limit."""
        with self._lock:
            self._inside = False
            fired, self._fired = self._fired, False
            if fired and not self._alarms:
                self._discard_pending()
            return fired

    def _discard_pending(self) -> None:
        """Wait here for a pending `StepTimeout` and discard it, so that it does not interrupt later code.

        Clearing it with NULL would loop for ever under a tracer (CPython 3.11).
        """
        with suppress(StepTimeout):
            _raise_in_thread(self._thread)
            while True:
                pass

    def _watch(self) -> None:
        while not self._over.wait(self._every):
            with self._lock:
                if self._is_late():
                    _raise_in_thread(self._thread)

    def _alarmed(self, number: int, frame: FrameType | None) -> None:
        if self._is_late():
            raise StepTimeout

    def _is_late(self) -> bool:
        """Return True if the limit has elapsed since the step began, or since this method last returned True."""
        present = time.monotonic()
        if not self._inside or present - self._since < self._seconds:
            return False
        self._since, self._fired = present, True
        return True


def _raise_in_thread(thread: int) -> None:
    """Raise `StepTimeout` in a thread at its next instruction."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(StepTimeout))


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
