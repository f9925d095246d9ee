"""One family of errors, split by what the caller can do about them.

Every message has three parts: what was being done, what was found (file, field, value), what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class BellwetherError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(BellwetherError):
    """A setting or a registry entry is wrong: the user mends it and runs again."""


class SchemaError(BellwetherError):
    """A frame does not match the declared table: names the table, the column and the value."""


class LakeError(BellwetherError):
    """Stored data is missing, damaged or of another version: names the file."""


class VenueError(BellwetherError):
    """A venue's call failed for good. Carries the call, the number of attempts, the cause in words and its kind.

    kind: rate limit, server, timeout, connection, malformed, authentication, out of credit, not found, refused, paging or unexpected.
    """

    def __init__(self, call: str, attempts: int, cause: str, advice: str = "", *, kind: str = "unexpected") -> None:
        self.kind = kind
        self.call = call
        self.attempts = attempts
        self.cause = cause
        message = f"{call}: failed after {attempts} attempt{'s' if attempts != 1 else ''}: {cause}"
        super().__init__(f"{message}. {advice}" if advice else message)


class PagingError(VenueError):
    """A listing loops: a cursor or a page repeats, or empty pages never end."""


class QualityError(BellwetherError):
    """Rows break a rule that guards the rankings: names the table, the rule and the first rows."""


class ScoringError(BellwetherError):
    """Forecasts cannot be scored as given: names the column and the value."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Suggest close matches for an unknown name, otherwise list all known names."""
    there = list(known)
    near = get_close_matches(name, there, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(there) or 'none'}"
