"""Failures of agents, with messages that are identical in every process."""

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
    """Error that ended an agent's episode early.

    Attributes:
        type: Type of the error.
        message: First line of the error message.
        step: Number of the decision, from 0; -1 before the first.
        at: Simulated time, ns UTC.
        traceback: Traceback within the agent, and the last output of an isolated agent; untrusted text, excluded from digests and comparisons.
    """

    type: str
    message: str
    step: int
    at: int
    traceback: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


def build_failure(error: BaseException, step: int, at: int, *, beyond: Container[str] = ()) -> Failure:
    """Describe an agent's error. beyond: files whose frames are omitted at the start of the traceback."""
    return Failure(*describe_error(error), step, at, format_traceback(error, beyond))


def describe_error(error: BaseException) -> tuple[str, str]:
    """Return the type and the first line of the message."""
    if isinstance(error, StepTimeout):
        return "StepTimeout", STEP_TIMEOUT
    try:
        lines = str(error).splitlines()
    except Exception:
        lines = ["the error message could not be read"]
    return sanitize_line(type(error).__name__), sanitize_line(lines[0]) if lines else ""


def format_traceback(error: BaseException, beyond: Container[str]) -> str:
    """Format the traceback, without leading frames in the files `beyond`."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in beyond:
        trace = trace.tb_next
    try:
        return sanitize_text("".join(traceback.format_exception(type(error), error, trace)))
    except Exception:
        return ""


def sanitize_line(message: str) -> str:
    """Remove control characters and memory addresses from a message, and truncate it."""
    printable = "".join(sign if sign.isprintable() else " " for sign in _ADDRESS.sub("", message))
    return printable[:_LONGEST_MESSAGE]


def sanitize_text(text: str) -> str:
    """Truncate a multi-line text to its end, and remove control characters other than newlines."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text[-_LONGEST_TRACE:]).strip("\n")
