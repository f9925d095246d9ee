"""What stops an agent: errors of its orders, the tool-call budget of a step, the time that a step may take, and what ends a run without a result."""

from __future__ import annotations

import ctypes
import math
import signal
import threading
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

from bellwether.errors import BellwetherError

#: Checks of a step within its limit; it is stopped at most a quarter later. Seconds between checks at most.
_LOOKS, _LONGEST_WAIT = 4, 3600.0


class OrderError(BellwetherError, ValueError):
    """An agent asked for what is no order: an unknown ticker, a price that is no integer, a size below 1, an id that it never got."""


class BudgetError(BellwetherError):
    """An agent made more calls in a step than `calls_per_step` allows, or a call outside of `act`."""


class RunStopped(BellwetherError):
    """The run ends without a result, for a reason that is not the agent's decision: a model that cannot be asked now, a stored trajectory of another
    run. `backtest.run` lets it through.
    """


class StepTimeout(BaseException):
    """A step took longer than `seconds_per_step`. No `Exception`, so that an agent that catches those is stopped too."""


class RunawayAgent(BaseException):
    """A step went on calling long after its budget was used up. No `Exception`, as above."""


class StepLimit:
    """Stops a step that takes longer than `seconds`: `begin` and `finish` enclose a step, on the thread that made the object; infinity: never.

    On the main thread an alarm of the system raises `StepTimeout`, which also ends `time.sleep` and other blocking calls. On another thread, or without
    such alarms (Windows), a watcher thread raises it at the next instruction of Python, so a blocking call ends first. Neither ends compiled code that
    does not return to Python.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._every = seconds, min(max(seconds / _LOOKS, 1e-3), _LONGEST_WAIT)
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
            left, every = self._outer
            if left:
                # An alarm of the program that calls goes off when it would have, or now.
                signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - self._begun), 1e-3), every)

    def begin(self) -> None:
        """Begin a step."""
        self._since = time.monotonic()
        self._inside = True

    def finish(self) -> None:
        """End a step. Raises `StepTimeout` if it was stopped and went on to its end: here and nowhere later."""
        if self.stop():
            raise StepTimeout

    def stop(self) -> bool:
        """End a step without an error on its account; return whether it was stopped."""
        with self._lock:
            self._inside = False
            fired, self._fired = self._fired, False
            if fired and not self._alarms:
                self._take_back()
            return fired

    def _take_back(self) -> None:
        """Discard an error that has not been raised yet by raising it here.

        Clearing it with NULL would leave Python looking for it at every check of the process, and loop for ever under a tracer (CPython 3.11).
        """
        with suppress(StepTimeout):
            _raise_in(self._thread)
            while True:
                pass

    def _watch(self) -> None:
        while not self._over.wait(self._every):
            with self._lock:
                if self._is_late():
                    _raise_in(self._thread)

    def _alarmed(self, number: int, frame: FrameType | None) -> None:
        if self._is_late():
            raise StepTimeout

    def _is_late(self) -> bool:
        """Return whether the step has been running for `seconds`, once per such time."""
        now = time.monotonic()
        if not self._inside or now - self._since < self._seconds:
            return False
        self._since, self._fired = now, True
        return True


def _raise_in(thread: int) -> None:
    """Raise `StepTimeout` in a thread at its next instruction."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(StepTimeout))
