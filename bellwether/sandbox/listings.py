"""Where records and cursors stand in the listings of each service, for faults that have to tamper with them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

import orjson

from bellwether.sandbox.services import Service

_CURSOR = re.compile(rb'"(?:next_)?cursor"\s*:\s*"([^"]+)"')
_EDGE = 4096
_MOST_REMEMBERED = 4096
#: Page size of offset listings that are asked for none.
_DEFAULT_LIMIT = 20


@dataclass(frozen=True, slots=True)
class Paging:
    """What a cursor is called in the request and in the answer (None where pages are asked for by offset), and the cursors that mean the end."""

    parameter: str
    field: str | None
    last: frozenset[str] = frozenset({""})


_KALSHI = Paging("cursor", "cursor")
_KEYSET = Paging("after_cursor", "next_cursor")
_OFFSET = Paging("offset", None)
_CLOB = Paging("next_cursor", "next_cursor", frozenset({"", "LTE="}))


def paging_of(service: Service, path: str) -> Paging:
    """How the listings below a path of this service are paged."""
    if service is Service.GAMMA:
        return _KEYSET if path.endswith("/keyset") else _OFFSET
    return _CLOB if service is Service.CLOB else _KALSHI


@dataclass(frozen=True, slots=True)
class Position:
    """A request for one page of a listing: its paging, the path, and its parameters."""

    paging: Paging
    path: str
    params: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, service: Service, path: str, query: bytes) -> Position:
        """Read it off a request."""
        return cls(paging_of(service, path), path, tuple(parse_qsl(query.decode("latin-1"), keep_blank_values=True)))

    @property
    def cursor(self) -> str:
        """The cursor, or offset, that it asks with; "" on the first page."""
        return dict(self.params).get(self.paging.parameter, "")

    @property
    def filters(self) -> tuple[tuple[str, str], ...]:
        """All other parameters."""
        return tuple(sorted((name, value) for name, value in self.params if name != self.paging.parameter))

    def moved(self, cursor: str) -> bytes:
        """The query of the same listing at another position."""
        others = [(name, value) for name, value in self.params if name != self.paging.parameter]
        return urlencode([*others, (self.paging.parameter, cursor)] if cursor else others).encode()


class Trail:
    """Remembers which request led to which cursor, so that the page before a page can be found. Bounded."""

    def __init__(self) -> None:
        self._queries: OrderedDict[tuple[str, tuple[tuple[str, str], ...], str], bytes] = OrderedDict()

    def note(self, position: Position, query: bytes, body: bytes) -> None:
        """Remember what this answer leads to, if it is a page with a cursor."""
        if position.paging.field is None:
            return
        found = _CURSOR.search(body[:_EDGE]) or _CURSOR.search(body[-_EDGE:])
        if found:
            self._queries[(position.path, position.filters, found[1].decode("latin-1"))] = query
            if len(self._queries) > _MOST_REMEMBERED:
                self._queries.popitem(last=False)

    def before(self, position: Position) -> bytes | None:
        """The query of the page before this one; None on a first page, and where nobody has asked for the one before."""
        if position.paging.field is not None:
            return self._queries.get((position.path, position.filters, position.cursor)) if position.cursor else None
        offset, limit = _number(position.cursor), _number(dict(position.params).get("limit", "")) or _DEFAULT_LIMIT
        return position.moved(str(max(offset - limit, 0))) if offset else None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _goes_on(position: Position, page: Mapping[str, Any]) -> bool:
    field = position.paging.field
    return field is not None and page.get(field) is not None and str(page[field]) not in position.paging.last


def without_records(position: Position, body: bytes) -> bytes | None:
    """The page without its records while its cursor goes on; None where the answer is no page with others behind it."""
    page = _parsed(body)
    if isinstance(page, list):
        is_listing = position.paging.field is None and {"limit", "offset"} & {name for name, _ in position.params}
        return b"[]" if page and is_listing else None
    if not isinstance(page, dict) or not _goes_on(position, page):
        return None
    return orjson.dumps({name: [] if isinstance(value, list) else value for name, value in page.items()})


def with_old_cursor(position: Position, body: bytes) -> bytes | None:
    """The page with the cursor that it was asked for with as the one to go on with; None on first pages and elsewhere."""
    page, field = _parsed(body), position.paging.field
    if field is None or not position.cursor or not isinstance(page, dict) or field not in page:
        return None
    return orjson.dumps({**page, field: position.cursor})
