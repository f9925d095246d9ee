"""Messages of agents' early ends, equal in every process."""

from __future__ import annotations

import re
import traceback
from collections.abc import Container
from dataclasses import dataclass, field
from types import TracebackType

from bellwether.replay.agents.limits import StepTimeout

_LONGEST_MESSAGE, _LONGEST_TRACE = 300, 4000
#: Memory address in an object's `repr`, which differs between processes.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
STEP_TIMEOUT = "the step took longer than seconds_per_step"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an agent's episode ended early: the type and the first line of its error, the decision (from 0; -1: before the first) and its time, ns.

    traceback: where in the agent it happened, and of an isolated agent the last lines that it printed; untrusted text of several lines, which neither
    digests nor comparisons count.
    """

    type: str
    message: str
    step: int
    at: int
    traceback: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


def failure(error: BaseException, step: int, at: int, *, beyond: Container[str] = ()) -> Failure:
    """Return the text of an agent's error. beyond: files whose frames the traceback omits at its start."""
    return Failure(*described(error), step, at, traced(error, beyond))


def described(error: BaseException) -> tuple[str, str]:
    """Type and first line of the message."""
    if isinstance(error, StepTimeout):
        return "StepTimeout", STEP_TIMEOUT
    try:
        lines = str(error).splitlines()
    except Exception:
        lines = ["its message could not be read"]
    return plain(type(error).__name__), plain(lines[0]) if lines else ""


def traced(error: BaseException, beyond: Container[str]) -> str:
    """The traceback, from the first frame outside of the files `beyond` on."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in beyond:
        trace = trace.tb_next
    try:
        return readable("".join(traceback.format_exception(type(error), error, trace)))
    except Exception:
        return ""


def plain(message: str) -> str:
    """A message without control characters, and equal in every process."""
    printable = "".join(sign if sign.isprintable() else " " for sign in _ADDRESS.sub("", message))
    return printable[:_LONGEST_MESSAGE]


def readable(text: str) -> str:
    """The end of a text of several lines, without other control characters."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text[-_LONGEST_TRACE:]).strip("\n")
