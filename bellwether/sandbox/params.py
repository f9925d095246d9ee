"""Routes that return JSON, with parsed query parameters, paging cursors and error responses.

Instants are microseconds since 1970. A row's sort key determines its place in a listing.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.sandbox.timestamps import SECOND, Clock, parse_time, to_instant

T = TypeVar("T")

#: Takes the query, the path's parameters and the instant `now`; returns the body of the response, or raises `VenueRefusal`.
Handler = Callable[["Params", dict[str, str], int], Any]

_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class VenueRefusal(Exception):
    """Refusal of a request, with status and body of the venue's error response."""

    status: int
    body: dict[str, Any]

    def response(self) -> Response:
        """Build the error response."""
        return Response(orjson.dumps(self.body), status_code=self.status, media_type="application/json")


class Params:
    """Query parameters of a request. An empty value counts as missing; unknown parameters are ignored, as by the venues.

    refuse: builds the error for an invalid value from the parameter's name. The methods return None for a missing parameter.
    """

    def __init__(self, query: QueryParams, refuse: Callable[[str], VenueRefusal]) -> None:
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

    def cursor(self, name: str) -> tuple[int, ...] | None:
        """Parse a cursor that `build_cursor` built; return the sort key of the last row before the page."""
        return self._read(name, _read_cursor)


def build_cursor(key: tuple[int, ...]) -> str:
    """Build the cursor of a page from the sort key of its last row."""
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode()


def _read_cursor(cursor: str) -> tuple[int, ...]:
    key = orjson.loads(base64.urlsafe_b64decode(cursor))
    if not isinstance(key, list) or not all(isinstance(part, int) for part in key):
        raise ValueError(cursor)
    return tuple(key)


def take_page(rows: Iterator[T], limit: int) -> tuple[list[T], bool]:
    """Return the next `limit` rows, and True if more rows follow."""
    page = list(islice(rows, limit))
    return page, next(rows, None) is not None


def build_routes(handlers: Mapping[str, Handler], clock: Clock, refuse: Callable[[str], VenueRefusal]) -> list[Route]:
    """Build one GET route per path, which returns the result of the path's handler as JSON. refuse: builds the error for an invalid parameter
    from its name.
    """

    def build_endpoint(handler: Handler) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                return respond(handler(Params(request.query_params, refuse), request.path_params, to_instant(clock())))
            except VenueRefusal as refusal:
                return refusal.response()

        return endpoint

    return [Route(path, build_endpoint(handler), methods=["GET"]) for path, handler in handlers.items()]


def respond(body: Any) -> Response:
    """Build a response with a JSON body."""
    return Response(orjson.dumps(body), media_type="application/json")
