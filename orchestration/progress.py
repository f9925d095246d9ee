"""Progress of a command's runs: lines that steps log are shown, Dagster's own events are not.

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
    """Log handler that passes the lines of steps to `listener`."""

    def emit(self, record: logging.LogRecord) -> None:
        receive = listener.get()
        meta = getattr(record, "dagster_meta", None) or {}
        line = str(meta.get("orig_message") or record.getMessage())
        # Skipped steps follow from a failure, which is reported itself.
        if receive is not None and not meta.get("dagster_event") and not line.startswith("Dependencies for step "):
            receive(line)


def _make_logger(init_context: dg.InitLoggerContext) -> logging.Logger:
    logger = logging.Logger("bellwether.console", level=logging.INFO)
    logger.addHandler(_ProgressHandler())
    return logger


#: Logger of the runs of the command line.
progress = dg.LoggerDefinition(_make_logger, description="Lines logged by steps, for the progress of the command line.")


def report(line: str) -> None:
    """Pass a line to the command's `listener`, without writing it to the log of the run."""
    receive = listener.get()
    if receive is not None:
        receive(line)
