"""Progress of steps on the command line, taken from their log.

Concept: https://docs.dagster.io/guides/log-debug/logging/custom-logging
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar

import dagster as dg

#: Receives every line that a step logs; set by the command line.
listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


class _ProgressHandler(logging.Handler):
    """Handler that passes on lines of steps without Dagster's own events."""

    def emit(self, record: logging.LogRecord) -> None:
        hear = listener.get()
        meta = getattr(record, "dagster_meta", None) or {}
        line = str(meta.get("orig_message") or record.getMessage())
        # Skipped steps follow from a failure, which is reported itself.
        if hear is not None and not meta.get("dagster_event") and not line.startswith("Dependencies for step "):
            hear(line)


def _listening(init_context: dg.InitLoggerContext) -> logging.Logger:
    made = logging.Logger("bellwether.progress", level=logging.INFO)
    made.addHandler(_ProgressHandler())
    return made


#: Logger of the runs of the command line.
progress = dg.LoggerDefinition(_listening, description="Lines logged by steps, for the progress of the command line.")


def report(line: str) -> None:
    """Show a line as progress of the command, without an event of the run."""
    hear = listener.get()
    if hear is not None:
        hear(line)
