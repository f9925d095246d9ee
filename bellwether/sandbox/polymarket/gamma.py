"""Routes of Polymarket's Gamma over a world: filters, sorting, and paging by keyset and by offset."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.params import Params, VenueRefusal, build_position_cursor, gamma_invalid
from bellwether.sandbox.polymarket.source import EventRow, ListingFilter, MarketRow, PolymarketSource
from bellwether.sandbox.timestamps import to_instant

#: Maximum rows of a page by keyset and, as `MOST_LISTED`, by offset.
MOST = {"markets": 100, "events": 500}
MOST_LISTED = 500
MOST_CONDITIONS = 100
LAST_OFFSET = 2000

_DEFAULT_LIMIT = 20
#: Requests with this parameter may take seconds, so they run in a thread.
_SORTS = "order"
_DEPRECATED = {"Deprecation": "true", "Sunset": "Fri, 01 May 2026 00:00:00 GMT"}

Row = MarketRow | EventRow
Position = tuple[Any, ...]

#: Sort keys of markets by field.
_NUMBERS: dict[str, Callable[[MarketRow], float | None]] = {
    "volumeNum": lambda row: row.volume(),
    "endDate": lambda row: row.ends,
    "closedTime": lambda row: row.closed_at,
}


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters of a listing. wanted: those by which the world can skip rows; the others are applied to its rows."""

    wanted: ListingFilter
    active: bool | None
    uma_status: str | None

    @classmethod
    def of(cls, params: Params, closed: bool | None = None) -> Filters:
        """Parse the filters in a query; `closed` is the default of that filter. Raises `VenueRefusal` for an invalid one."""
        names = {name: params.get_all(name) for name in ("id", "condition_ids", "clob_token_ids")}
        ids, conditions, tokens = (None if named is None else frozenset(named) for named in names.values())
        if conditions is not None and len(conditions) > MOST_CONDITIONS:
            raise gamma_invalid(f"condition_ids exceeds the maximum of {MOST_CONDITIONS}")
        if ids is not None and not all(map(str.isdecimal, ids)):
            raise gamma_invalid("id is invalid")
        stated, ends = params.flag("closed"), (params.instant("end_date_min"), params.instant("end_date_max"))
        wanted = ListingFilter(ids=ids, condition_ids=conditions, tokens=tokens, ends=ends, closed=closed if stated is None else stated)
        return cls(wanted, params.flag("active"), params.text("uma_resolution_status"))

    def matches(self, row: Row) -> bool:
        """Return True if a row passes all filters."""
        wanted, (low, high) = self.wanted, self.wanted.ends
        return (
            (wanted.ids is None or row.id in wanted.ids)
            and (wanted.closed is None or row.closed == wanted.closed)
            and (self.active is None or row.active == self.active)
            and (low is None or (row.ends is not None and row.ends >= low))
            and (high is None or (row.ends is not None and row.ends <= high))
            and (not isinstance(row, MarketRow) or self._matches_market(row))
        )

    def _matches_market(self, row: MarketRow) -> bool:
        wanted = self.wanted
        return (
            (wanted.condition_ids is None or row.condition_id in wanted.condition_ids)
            and (wanted.tokens is None or not wanted.tokens.isdisjoint(row.tokens))
            and (self.uma_status is None or row.uma_status == self.uma_status)
        )


@dataclass(frozen=True, slots=True)
class SortOrder:
    """Order of a listing. field: field to sort by; None for the order of the world, which needs no sorting."""

    field: str | None
    sign: int

    @classmethod
    def of(cls, params: Params, name: str) -> SortOrder:
        """Parse the order in a query; only markets can be sorted. Raises `VenueRefusal` for an unknown field."""
        field = params.text("order") if name == "markets" else None
        if field is not None and field not in _NUMBERS:
            raise gamma_invalid("order fields are not valid")
        return cls(field, -1 if params.flag("ascending") is False else 1)

    def position(self, row: Any) -> Position:
        """Return the sort position of a row; rows without a value come last."""
        if self.field is None:
            return tuple(row.key)
        value = _NUMBERS[self.field](row)
        return value is None, self.sign * (value or 0), *row.key


class Gamma:
    """Handlers of markets and events."""

    def __init__(self, source: PolymarketSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._sorted: tuple[Any, list[Row]] | None = None
        self._sorting = threading.Lock()

    def routes(self) -> list[Route]:
        """Return the routes, relative to the base URL."""
        return [
            Route(f"/{name}{rest}", self._endpoint(name, handler), methods=["GET"])
            for name in MOST
            for rest, handler in (("/keyset", self._keyset), ("/{id}", self._by_id), ("", self._by_offset))
        ]

    def _endpoint(self, name: str, handler: Callable[[str, Params, dict[str, str], int], Response]) -> Callable[[Request], Any]:
        def answer(request: Request) -> Response:
            try:
                params = Params(request.query_params, lambda name: gamma_invalid(f"{name} is invalid"))
                return handler(name, params, request.path_params, to_instant(self._clock.now()))
            except VenueRefusal as refusal:
                return refusal.response()

        async def endpoint(request: Request) -> Response:
            return await run_in_threadpool(answer, request) if _SORTS in request.query_params else answer(request)

        return endpoint

    def _keyset(self, name: str, params: Params, path: dict[str, str], now: int) -> Response:
        """Serve GET /markets/keyset and /events/keyset: the next rows, and a cursor if there are more."""
        filters, order, after = Filters.of(params), SortOrder.of(params, name), params.position("after_cursor")
        if params.text("offset") is not None:
            raise gamma_invalid("offset is not supported, use after_cursor")
        limit = params.integer("limit", 1, MOST[name]) or _DEFAULT_LIMIT
        wanted = filters.wanted
        if after is not None and order.field is None:
            wanted = replace(wanted, after=tuple(map(int, after)))
        rows = self._rows(name, replace(filters, wanted=wanted), order, now)
        following = (row for row in rows if after is None or order.position(row) > after)
        page = list(islice(following, limit))
        cursor = {} if next(following, None) is None else {"next_cursor": build_position_cursor(order.position(page[-1]))}
        return _respond_json({name: [_body(row, params) for row in page], **cursor})

    def _by_offset(self, name: str, params: Params, path: dict[str, str], now: int) -> Response:
        """Serve GET /markets and /events: a list of rows from an offset; by default only closed events."""
        filters, order = Filters.of(params, closed=True if name == "events" else None), SortOrder.of(params, name)
        offset, limit = params.integer("offset", 0) or 0, params.integer("limit", 0)
        if offset > LAST_OFFSET:
            raise gamma_invalid(f"offset exceeds the maximum of {LAST_OFFSET}, use /{name}/keyset")
        end = offset + min(_DEFAULT_LIMIT if limit is None else limit, MOST_LISTED)
        page = islice(self._rows(name, filters, order, now), offset, end)
        link = f'</{name}/keyset>; rel="successor-version"'
        return _respond_json([_body(row, params) for row in page], {**_DEPRECATED, "Link": link})

    def _by_id(self, name: str, params: Params, path: dict[str, str], now: int) -> Response:
        """Serve GET /markets/{id} and /events/{id}."""
        row = next(self._listed(name, ListingFilter(ids=frozenset((path["id"],))), now), None)
        if row is None:
            raise VenueRefusal(404, {"type": "not found error", "error": "id not found"})
        return _respond_json(_body(row, params))

    def _listed(self, name: str, wanted: ListingFilter, now: int) -> Iterator[Row]:
        return iter(self._source.markets(wanted, now) if name == "markets" else self._source.events(wanted, now))

    def _rows(self, name: str, filters: Filters, order: SortOrder, now: int) -> Iterator[Row]:
        """Return the matching rows in order. A sorted listing is cached, because its next pages are requested at the same instant."""
        rows = filter(filters.matches, self._listed(name, filters.wanted, now))
        if order.field is None:
            return rows
        with self._sorting:
            if self._sorted is None or self._sorted[0] != (filters, order, now):
                self._sorted = (filters, order, now), sorted(rows, key=order.position)
            return iter(self._sorted[1])


def _respond_json(body: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(body), media_type="application/json", headers=headers)


def _body(row: Row, params: Params) -> orjson.Fragment:
    body = row.body()
    if isinstance(row, MarketRow) and params.flag("include_tag") is True:
        body = body[:-1] + b',"tags":' + orjson.dumps(row.tags()) + b"}"
    return orjson.Fragment(body)
