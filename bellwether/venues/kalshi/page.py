"""One answer of the venue, as it came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode

from bellwether.errors import VenueError
from bellwether.venues.kalshi.wire.decode import decode
from bellwether.venues.kalshi.wire.rejects import Origin

Params = tuple[tuple[str, str], ...]


def request_text(path: str, params: Params) -> str:
    """A call as text, "GET /path?query", the same for the same call; it never holds a credential."""
    query = urlencode(params, quote_via=quote, safe=",")
    return f"GET {path}?{query}" if query else f"GET {path}"


def segment(ticker: str) -> str:
    """`ticker` as one segment of a path."""
    return quote(ticker, safe="")


def comma_list(tickers: Iterable[str]) -> str:
    """Tickers as the value of a list parameter."""
    return ",".join(tickers)


@dataclass(frozen=True)
class Page:
    """One answer: the call, the status, when the venue answered (aware, UTC) and the body's bytes exactly as they came.

    ordinal: position within its pull, from 0.
    """

    request: str
    status: int
    fetched_at: datetime
    body: bytes
    ordinal: int = 0

    @cached_property
    def answer(self) -> dict[str, Any]:
        """The body as JSON, parsed at the first use. Raises `MalformedBody` when it is not a JSON object."""
        return decode(self.body)

    @property
    def cursor(self) -> str | None:
        """The cursor of the next page; None at the end of a listing."""
        cursor = self.answer.get("cursor")
        return str(cursor) if cursor else None

    @property
    def origin(self) -> Origin:
        """What the rows of this page say about where they come from."""
        return Origin(self.request, self.ordinal, self.fetched_at)

    def items(self, key: str) -> list[Any]:
        """The records that the answer lists under `key`; null is an empty list. Raises `VenueError` when there is no such list."""
        items = self.answer.get(key, "missing")
        if items is None:
            return []
        if not isinstance(items, list):
            found = ", ".join(sorted(self.answer)) or "nothing"
            raise VenueError(
                self.request,
                1,
                f"the answer has no list {key!r}, it holds {found}",
                "A failed read is not an empty list; look at the address",
            )
        return items
