"""Limits of agents, their errors, and failures of agents, whose messages are identical in every process."""

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
from decimal import Decimal
from types import FrameType, TracebackType
from typing import Any, Self

from bellwether.errors import BellwetherError, ConfigError

#: Checks per step limit, so that a step is stopped at most a quarter late; maximum seconds between checks.
_CHECKS, _LONGEST_WAIT = 4, 3600.0
_LEAST_MEMORY, _LONGEST_RUN = 256 << 20, 366 * 86_400
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_DURATIONS = {"s": 1, "min": 60, "h": 3600}
_LIMIT_UNITS = {"decision": _DURATIONS, "run": _DURATIONS, "memory": {"MiB": 1 << 20, "GiB": 1 << 30}, "calls": {"": 1}}
_LIMIT_EXAMPLES = {"decision": "5s", "run": "1h", "memory": "2GiB", "calls": "20"}


class BudgetError(BellwetherError):
    """Call beyond the tool-call budget of a decision, which language models and PredictionMarketBench's rules have."""


class RunStopped(BellwetherError):
    """A run has no result for a reason outside the agent, such as an unavailable model or a trajectory that belongs to another run.

    `backtest.run` does not catch it.
    """


class StepTimeout(BaseException):
    """A step (decision or callback) took longer than its limit. Not an `Exception`, so that agents do not catch it by accident."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of agents. Raises `ConfigError` for values out of range.

    Attributes:
        decision: Real seconds of a decision, of a callback, and of loading the agent.
        run: Real seconds of all of these in a run, and its CPU seconds; of isolated agents only.
        memory: Bytes of address space, at least 256 MiB; of isolated agents only.
        calls: Tool calls of a decision; of language models and under PredictionMarketBench's rules only.
    """

    decision: float = 60.0
    run: float = 3600.0
    memory: int = 2 << 30
    calls: int = 100

    def __post_init__(self) -> None:
        for name in ("decision", "run"):
            if not 0 < getattr(self, name) < _LONGEST_RUN:
                raise ConfigError(f"limiting an agent: {name} is {getattr(self, name)!r:.60}; give more than 0 seconds, and at most a year")
        for name, least in (("memory", _LEAST_MEMORY), ("calls", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ConfigError(f"limiting an agent: {name} is {value!r:.60}; give an integer of {least:,} or more")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse limits such as `memory=2GiB,decision=5s,run=1h,calls=20`; those left out keep their defaults.

        Durations are in s, min or h, memory in MiB or GiB. Raises `ConfigError` naming the limit and the value.
        """
        values: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, _, value = (word.strip() for word in part.partition("="))
            if name not in _LIMIT_UNITS:
                raise ConfigError(f"reading --limits: {name!r:.60} is not a limit; the limits are {', '.join(_LIMIT_UNITS)}")
            match = _QUANTITY.fullmatch(value)
            unit = _LIMIT_UNITS[name].get(match[2]) if match else None
            if match is None or unit is None:
                example = _LIMIT_EXAMPLES[name]
                raise ConfigError(f"reading --limits: {name} is {value!r:.60}; give a value such as {example}")
            amount = Decimal(match[1]) * unit
            values[name] = float(amount) if name in ("decision", "run") else int(amount)
        return cls(**values)


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
