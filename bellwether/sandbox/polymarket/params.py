"""Query parameters as Gamma and the CLOB check them, their error bodies, and Gamma's cursors."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson
from starlette.datastructures import QueryParams

from bellwether.sandbox.instants import parse_time

T = TypeVar("T", int, float)

_INTEGER = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    """A request that the venue answers with an error."""

    status: int
    body: dict[str, str] = field(default_factory=dict)


def invalid(error: str) -> Refusal:
    """Gamma's HTTP 422."""
    return Refusal(422, {"type": "validation error", "error": error})


def not_found(error: str) -> Refusal:
    """Gamma's HTTP 404."""
    return Refusal(404, {"type": "not found error", "error": error})


def clob_error(status: int, error: str) -> Refusal:
    """An error of the CLOB."""
    return Refusal(status, {"error": error})


class Params:
    """The query of one request. An empty value counts as absent; unknown parameters are ignored, as the venue does.

    `refuse` makes the error of a value that is not valid out of the parameter's name.
    """

    def __init__(self, query: QueryParams, refuse: Callable[[str], Refusal]) -> None:
        self._query = query
        self._refuse = refuse

    def text(self, name: str) -> str | None:
        """The value, None when absent."""
        return self._query.get(name) or None

    def _matched(self, name: str, pattern: re.Pattern[str]) -> str | None:
        value = self.text(name)
        if value is not None and not pattern.fullmatch(value):
            raise self._refuse(name)
        return value

    def integer(self, name: str) -> int | None:
        """A whole number of at least 0. Raises `Refusal` for anything else."""
        value = self._matched(name, _INTEGER)
        return None if value is None else int(value)

    def number(self, name: str) -> float | None:
        """A number. Raises `Refusal` for anything else."""
        value = self._matched(name, _NUMBER)
        return None if value is None else float(value)

    def flag(self, name: str) -> bool | None:
        """True or false, None when absent. Raises `Refusal` for anything else."""
        value = self.text(name)
        if value is None:
            return None
        if value.lower() not in ("true", "false"):
            raise self._refuse(name)
        return value.lower() == "true"

    def instant(self, name: str) -> int | None:
        """A date or time of RFC 3339, as an instant. Raises `Refusal` for anything else."""
        value = self.text(name)
        try:
            return None if value is None else parse_time(value)
        except ValueError:
            raise self._refuse(name) from None

    def window(self, name: str) -> Range[int]:
        """The instants between NAME_min and NAME_max."""
        return Range(self.instant(f"{name}_min"), self.instant(f"{name}_max"))

    def range(self, name: str) -> Range[float]:
        """The numbers between NAME_min and NAME_max."""
        return Range(self.number(f"{name}_min"), self.number(f"{name}_max"))

    def every(self, name: str) -> frozenset[str] | None:
        """All values of a repeated parameter; None when absent."""
        values = frozenset(value for value in self._query.getlist(name) if value)
        return values or None


@dataclass(frozen=True, slots=True)
class Range(Generic[T]):
    """A pair of bounds, both included."""

    low: T | None = None
    high: T | None = None

    def holds(self, value: T | None) -> bool:
        """Whether a value lies within; what has no value does not, unless nothing is asked."""
        if self.low is None and self.high is None:
            return True
        return value is not None and (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


def cursor_after(position: Sequence[Any]) -> str:
    """The cursor of a page whose last row stands at this position."""
    return base64.urlsafe_b64encode(orjson.dumps(position)).decode()


def position_of(cursor: str, length: int) -> list[Any]:
    """The position of a cursor with at least so many parts. Raises `Refusal` for any other text."""
    try:
        position = orjson.loads(base64.urlsafe_b64decode(cursor))
    except ValueError:
        position = None
    numbers = isinstance(position, list) and all(isinstance(part, int | float) for part in position)
    if not numbers or len(position) < length:
        raise invalid("after_cursor is invalid")
    return list(position)
