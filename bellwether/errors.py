"""Exceptions of the project, one class for each way in which the caller can react.

A message has three parts: the operation, the problem with file, field or value, and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class BellwetherError(Exception):
    """Base class of all errors that this project raises on purpose."""


class ConfigError(BellwetherError):
    """A setting or a registry entry is invalid. The user must correct it."""


class SchemaError(BellwetherError):
    """A frame does not match the declared table. The message names table, column and value."""


class LakeError(BellwetherError):
    """Stored data is missing, damaged or written by another version. The message names the file."""


class VenueError(BellwetherError):
    """A call to a venue failed finally: retries were used up or would not help.

    call: description of the call. attempts: their number. cause: of the failure, as text. kind: rate limit, server, timeout, connection, malformed, authentication, out of credit, not found, refused, paging or unexpected.
    """

    def __init__(self, call: str, attempts: int, cause: str, advice: str = "", *, kind: str = "unexpected") -> None:
        self.kind = kind
        self.call = call
        self.attempts = attempts
        self.cause = cause
        message = f"{call}: failed after {attempts} attempt{'s' if attempts != 1 else ''}: {cause}"
        super().__init__(f"{message}. {advice}" if advice else message)


class OrderError(BellwetherError, ValueError):
    """Invalid call of an agent: an unknown ticker or order id, a price that is not an integer, a size below 1, or an order in `start` or `end`."""


class QualityError(BellwetherError):
    """Rows break a blocking rule. The message names table, rule and the first such rows."""


class ScoringError(BellwetherError):
    """Forecasts cannot be scored. The message names column and value."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return text for an error message about an unknown name: similar known names, or all of them if none is similar."""
    names = list(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names) or 'none'}"
