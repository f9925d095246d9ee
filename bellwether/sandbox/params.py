"""Parsing of query parameters, paging cursors, and the error responses of both venues.

Instants are microseconds since 1970. A row's sort key or position determines its place in a listing.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
from starlette.datastructures import QueryParams
from starlette.responses import Response

from bellwether.sandbox.source import Key
from bellwether.sandbox.timestamps import SECOND, parse_time

T = TypeVar("T")

#: Status in a filter -> statuses in responses, of the current format and of 2024.
STATUSES: dict[str, frozenset[str]] = {
    "unopened": frozenset({"initialized", "unopened"}),
    "open": frozenset({"active", "open"}),
    "paused": frozenset({"inactive", "paused"}),
    "closed": frozenset({"closed", "determined", "disputed", "amended"}),
    "settled": frozenset({"finalized", "settled"}),
}
EVENT_STATUSES = ("unopened", "open", "closed", "settled")
PERIODS = (1, 60, 1440)

_CURSOR = b"k1:"
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class VenueRefusal(Exception):
    """Refusal of a request, with status and body of the venue's error response."""

    status: int
    body: dict[str, Any]

    def response(self) -> Response:
        """Build the error response."""
        return Response(orjson.dumps(self.body), status_code=self.status, media_type="application/json")


def kalshi_error(status: int, code: str, details: str) -> VenueRefusal:
    """Build an error response of Kalshi."""
    return VenueRefusal(status, {"error": {"code": code, "message": code.replace("_", " "), "details": details}})


def bad_request(details: str) -> VenueRefusal:
    """Build Kalshi's HTTP 400."""
    return kalshi_error(400, "bad_request", details)


def not_found(details: str) -> VenueRefusal:
    """Build Kalshi's HTTP 404."""
    return kalshi_error(404, "not_found", details)


def gamma_invalid(error: str) -> VenueRefusal:
    """Build Gamma's HTTP 422."""
    return VenueRefusal(422, {"type": "validation error", "error": error})


def clob_error(status: int, error: str) -> VenueRefusal:
    """Build an error response of the CLOB."""
    return VenueRefusal(status, {"error": error})


class Params:
    """Query parameters of a request. An empty value counts as missing; unknown parameters are ignored, as by the venues.

    refuse: builds the error for an invalid value from the parameter's name. The methods return None for a missing parameter.
    """

    def __init__(self, query: QueryParams, refuse: Callable[[str], VenueRefusal] = lambda name: bad_request(f"invalid {name}")) -> None:
        self._query = query
        self._refuse = refuse

    def text(self, name: str) -> str | None:
        """Return the value of a parameter."""
        return self._query.get(name) or None

    def _read(self, name: str, convert: Callable[[str], T]) -> T | None:
        """Return the value of a parameter as converted; None if missing. Raises `VenueRefusal` if `convert` fails."""
        value = self.text(name)
        try:
            return None if value is None else convert(value)
        except (ValueError, KeyError):
            raise self._refuse(name) from None

    def integer(self, name: str, least: int = -(10**12), most: int = 10**12) -> int | None:
        """Parse an integer from `least` to `most`. Raises `VenueRefusal` for other values."""
        value = self._read(name, int)
        if value is not None and not least <= value <= most:
            raise self._refuse(name)
        return value

    def flag(self, name: str) -> bool | None:
        """Parse true or false. Raises `VenueRefusal` for other values."""
        return self._read(name, lambda value: _FLAGS[value.lower()])

    def seconds(self, name: str) -> int | None:
        """Parse a Unix time in seconds; return the instant."""
        seconds = self.integer(name)
        return None if seconds is None else seconds * SECOND

    def instant(self, name: str) -> int | None:
        """Parse an RFC 3339 date or time; return the instant."""
        return self._read(name, parse_time)

    def tickers(self, name: str = "tickers") -> tuple[str, ...] | None:
        """Parse a comma-separated list of tickers."""
        value = self.text(name)
        return None if value is None else tuple(ticker for ticker in value.split(",") if ticker)

    def get_all(self, name: str) -> tuple[str, ...] | None:
        """Return all values of a repeated parameter."""
        return tuple(filter(None, self._query.getlist(name))) or None

    def choice(self, name: str, *allowed: str) -> str | None:
        """Return the parameter's value, which must be one of `allowed`; None if missing. Raises `VenueRefusal` for other values."""
        value = self.text(name)
        if value is not None and value not in allowed:
            raise self._refuse(f"{name} filter")
        return value

    def cursor(self, name: str) -> Key | None:
        """Parse a cursor that `build_cursor` built; return the sort key of the last row before the page."""
        return self._read(name, _key_of)

    def position(self, name: str) -> tuple[Any, ...] | None:
        """Parse a cursor that `build_position_cursor` built; return the sort position of the last row before the page."""
        return self._read(name, _position_of)


def build_cursor(key: Key) -> str:
    """Build the cursor of a page from the sort key (integers) of its last row."""
    return base64.urlsafe_b64encode(_CURSOR + ",".join(map(str, key)).encode()).decode().rstrip("=")


def _key_of(cursor: str) -> Key:
    plain = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    if not plain.startswith(_CURSOR):
        raise ValueError(cursor)
    return tuple(map(int, plain.removeprefix(_CURSOR).split(b",")))


def build_position_cursor(position: tuple[Any, ...]) -> str:
    """Build the cursor of a page from the sort position (numbers) of its last row."""
    return base64.urlsafe_b64encode(orjson.dumps(position)).decode()


def _position_of(cursor: str) -> tuple[Any, ...]:
    position = orjson.loads(base64.urlsafe_b64decode(cursor))
    if not isinstance(position, list) or not all(isinstance(part, int | float) for part in position):
        raise ValueError(cursor)
    return tuple(position)


@dataclass(frozen=True, slots=True)
class TimeFilter:
    """Filter on the close of a market: strictly after `low` and strictly before `high`."""

    low: int | None
    high: int | None

    @classmethod
    def of(cls, params: Params) -> TimeFilter:
        """Build the filter from the parameters min_close_ts and max_close_ts."""
        return cls(params.seconds("min_close_ts"), params.seconds("max_close_ts"))

    def matches(self, value: int | None) -> bool:
        """Return True if an instant is within the bounds; None, a missing close, matches only if there are no bounds."""
        if self.low is None and self.high is None:
            return True
        return value is not None and (self.low is None or value > self.low) and (self.high is None or value < self.high)
