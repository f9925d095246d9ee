"""What stops an agent: errors of its orders, the tool-call budget of a step, the time that a step may take, and what ends a run without a result."""

from __future__ import annotations

import ctypes
import math
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from bellwether.errors import BellwetherError

#: A step is looked at this often within its limit, so it is stopped at most a quarter later.
_LOOKS = 4


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

    A second thread looks at the clock and raises `StepTimeout` in the first: that reaches any loop in Python. What it cannot stop is one call that
    does not return to Python (a compiled loop, a long sort, a blocking read): the step then ends when that call does.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._thread = threading.get_ident()
        self._lock, self._over = threading.Lock(), threading.Event()
        self._step = self._fired = 0
        self._inside = False

    def __enter__(self) -> Self:
        self._watcher = threading.Thread(target=self._watch, name="step-limit", daemon=True)
        if math.isfinite(self._seconds):
            self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._watcher.ident is not None:
            self._watcher.join()

    def begin(self) -> None:
        """A step begins."""
        self._step += 1
        self._inside = True

    def finish(self) -> None:
        """The step is over. Raises `StepTimeout` when it was told to stop and went on to its end: here and nowhere later."""
        with self._lock:
            self._inside = False
            if self._fired:
                self._take_back()
                raise StepTimeout

    def stop(self) -> None:
        """The step ended with an error: none is raised on its account any more."""
        with self._lock:
            self._inside = False
            if self._fired:
                self._take_back()

    def _take_back(self) -> None:
        """Discard an error that has not been raised yet by raising it here.

        Clearing it with NULL would leave Python looking for it at every check of the process, and loop for ever under a tracer (CPython 3.11).
        """
        with suppress(StepTimeout):
            _raise_in(self._thread)
            while True:
                pass

    def _watch(self) -> None:
        seen = looks = 0
        while not self._over.wait(self._seconds / _LOOKS):
            with self._lock:
                looks = looks + 1 if self._inside and self._step == seen else 0
                seen = self._step
                if looks >= _LOOKS:
                    looks, self._fired = 0, seen
                    _raise_in(self._thread)


def _raise_in(thread: int) -> None:
    """Raise `StepTimeout` in a thread at its next instruction."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(StepTimeout))
