"""Shows what a step says while it works, where a person waits: the command line's spinner listens to the steps' own log.

Not here: what is said (the domain library's progress callbacks) or how it is shown (commands.py).
Concept: https://docs.dagster.io/guides/log-debug/logging/custom-logging
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar

import dagster as dg

#: Called with every line that a step logs by itself; silent unless the command line sets it.
listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


class _ProgressHandler(logging.Handler):
    """Passes on what steps say; Dagster's own events are not progress."""

    def emit(self, record: logging.LogRecord) -> None:
        hear = listener.get()
        meta = getattr(record, "dagster_meta", None) or {}
        line = str(meta.get("orig_message") or record.getMessage())
        # Steps without the tables of a failed one are a consequence, and the failure itself is reported.
        if hear is not None and not meta.get("dagster_event") and not line.startswith("Dependencies for step "):
            hear(line)


def _listening(init_context: dg.InitLoggerContext) -> logging.Logger:
    made = logging.Logger("bellwether.progress", level=logging.INFO)
    made.addHandler(_ProgressHandler())
    return made


#: The logger that jobs of the command line run with.
progress = dg.LoggerDefinition(_listening, description="Lines that steps log by themselves, for the command line's progress.")


def report(line: str) -> None:
    """Show a line where a command waits for the run; it is no event of the run."""
    hear = listener.get()
    if hear is not None:
        hear(line)
