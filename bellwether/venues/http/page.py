"""A call to a venue and its verbatim response."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import orjson

from bellwether.errors import VenueError
from bellwether.venues.wire.rejects import Origin

Params = tuple[tuple[str, str], ...]
T = TypeVar("T")


def format_target(path: str, params: Params) -> str:
    """Format the path and query of a call, such as "/markets?limit=5"."""
    query = urlencode(params, quote_via=quote, safe=",")
    return f"{path}?{query}" if query else path


def strip_user(address: str) -> str:
    """Remove user and password from an address."""
    return address.rpartition("@")[2]


def drop_missing(chosen: Mapping[str, str | None]) -> Params:
    """Return the parameters that have a value, as pairs."""
    return tuple((name, value) for name, value in chosen.items() if value)


def split_batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield consecutive parts of `items` with at most `size` elements."""
    return (items[first : first + size] for first in range(0, len(items), size))


class MalformedBody(ValueError):
    """Body that is not a JSON object: truncated, a web page, or not text."""


def decode_json(body: bytes) -> Any:
    """Decode the JSON value in `body`.

    If the body is not strict JSON, numbers that are not finite become text, so that their record becomes a reject where a number is expected;
    what is not Unicode becomes a character reference, so that other bytes stay another name, and bare control characters are accepted. Raises `MalformedBody` for any other body, also for one that
    is nested too deeply.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        problem = error
    if body[:512].lstrip().startswith(b"<"):
        raise MalformedBody("a web page (HTML) instead of JSON")
    try:
        text = body.decode(errors="surrogateescape")
        value = json.loads(text, strict=False, parse_constant=str, parse_int=_read_number, parse_float=_read_number)
        return orjson.loads(json.dumps(value, ensure_ascii=False).encode(errors="xmlcharrefreplace"))
    except (ValueError, RecursionError):
        raise MalformedBody(f"not JSON, or cut off after {len(body)} bytes ({problem})" if body.strip() else "an empty body") from None


def _read_number(text: str) -> int | float | str:
    """Return a number of JSON; its text if it is too large for a float."""
    number = float(text)
    if math.isinf(number):
        return text
    return int(text) if text.removeprefix("-").isdigit() else number


@dataclass(frozen=True, slots=True)
class VenueCall:
    """Call of a route with a single response; a POST if it has a JSON `body`.

    required: field that a successful response must have; if empty, any response is valid.
    """

    path: str
    params: Params = ()
    body: bytes = b""
    required: str = ""

    @property
    def method(self) -> str:
        """HTTP method: GET or POST."""
        return "POST" if self.body else "GET"

    @property
    def request(self) -> str:
        """The call as text, such as "GET /markets?limit=5"; a POST with the digest of its body. Equal calls give equal text."""
        text = f"{self.method} {format_target(self.path, self.params)}"
        return f"{text} body={hashlib.blake2b(self.body, digest_size=8).hexdigest()}" if self.body else text


@dataclass(frozen=True)
class VenuePage:
    """Response of a venue: the call, the status, the time of the response (aware, UTC) and the verbatim body.

    ordinal: position within its pull, from 0. sent: the body of the call, empty for a GET.
    """

    request: str
    status: int
    fetched_at: datetime
    body: bytes
    ordinal: int = 0
    sent: bytes = b""

    @cached_property
    def json(self) -> Any:
        """The body parsed as JSON, on first use. Raises `MalformedBody` if it is not JSON."""
        return decode_json(self.body)

    @property
    def answer(self) -> dict[str, Any]:
        """The body parsed as a JSON object. Raises `MalformedBody` if the body is not a JSON object."""
        if not isinstance(self.json, dict):
            raise MalformedBody(f"a JSON {type(self.json).__name__} where an object was expected")
        return self.json

    @property
    def origin(self) -> Origin:
        """Request, ordinal and response time of the page, which its rows store."""
        return Origin(self.request, self.ordinal, self.fetched_at)

    def items(self, key: str) -> list[Any]:
        """Return the list of records under `key`, or the whole response if it is a list.

        Null counts as an empty list. Raises `VenueError` if the response has no list under `key`.
        """
        content = self.json if isinstance(self.json, dict) else {}
        items = self.json if isinstance(self.json, list) else content.get(key, "missing")
        if items is None:
            return []
        if not isinstance(items, list):
            names = ", ".join(sorted(content)) or "nothing"
            raise VenueError(
                self.request,
                1,
                f"the answer has no list {key!r}, it holds {names}",
                "A failed read is not an empty list; look at the address",
                kind="malformed",
            )
        return items
