"""Gamma's routes over a world: filters, sorting, both kinds of paging and their limits."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.instants import instant
from bellwether.sandbox.params import Params, Refusal, gamma_invalid, position_after
from bellwether.sandbox.polymarket.source import EventRow, MarketRow, PolymarketSource, Wanted

MOST_MARKETS, MOST_EVENTS, MOST_LISTED = 100, 500, 500
MOST_CONDITIONS = 100
LAST_OFFSET = 2000

_DEFAULT_LIMIT = 20
#: With this parameter an answer may take seconds: it must not hold up the others.
_SORTS = "order"
_SNAKE = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+")
_DEPRECATED = {"Deprecation": "true", "Sunset": "Fri, 01 May 2026 00:00:00 GMT"}

Row = TypeVar("Row", MarketRow, EventRow)
Position = tuple[Any, ...]

#: The fields that listings can be sorted by.
_NUMBERS: dict[str, Callable[[Any], float | None]] = {
    "volumeNum": lambda row: row.volume(),
    "liquidityNum": lambda row: row.liquidity(),
    "endDate": lambda row: row.ends,
    "startDate": lambda row: row.starts,
    "closedTime": lambda row: row.closed_at,
    "createdAt": lambda row: row.created,
    "id": lambda row: int(row.id),
}


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a listing: names, the announced end and whether it is closed are in `wanted`."""

    wanted: Wanted
    active: bool | None
    uma_status: str | None

    @classmethod
    def of(cls, params: Params, closed: bool | None = None) -> Filters:
        """Read them; `closed` is the default of that filter. Raises `Refusal`."""
        names = {name: params.every(name) for name in ("id", "condition_ids", "clob_token_ids")}
        ids, conditions, tokens = (None if named is None else frozenset(named) for named in names.values())
        if conditions is not None and len(conditions) > MOST_CONDITIONS:
            raise gamma_invalid(f"condition_ids exceeds the maximum of {MOST_CONDITIONS}")
        if ids is not None and not all(map(str.isdecimal, ids)):
            raise gamma_invalid("id is invalid")
        given, ends = params.flag("closed"), (params.instant("end_date_min"), params.instant("end_date_max"))
        wanted = Wanted(ids=ids, condition_ids=conditions, tokens=tokens, ends=ends, closed=closed if given is None else given)
        return cls(wanted, params.flag("active"), params.text("uma_resolution_status"))

    def matches(self, row: MarketRow | EventRow) -> bool:
        """True if a row passes."""
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
class Order:
    """The order of a listing. Without fields it is the world's own, and nothing is read ahead."""

    fields: tuple[Callable[[Any], float | None], ...]
    sign: int

    @classmethod
    def of(cls, params: Params) -> Order:
        """Read it; names in snake case are ignored, as the venue does. Raises `Refusal` for any other unknown name."""
        names = [name for name in (params.text("order") or "").split(",") if name and not _SNAKE.fullmatch(name)]
        if any(name not in _NUMBERS for name in names):
            raise gamma_invalid("order fields are not valid")
        return cls(tuple(_NUMBERS[name] for name in names), -1 if params.flag("ascending") is False else 1)

    def position(self, row: MarketRow | EventRow) -> Position:
        """The place of a row; rows without a value come last."""
        values = [field(row) for field in self.fields]
        return (*(part for value in values for part in (value is None, self.sign * (value or 0))), *row.key)

    def sorted(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows in this order."""
        return iter(sorted(rows, key=self.position)) if self.fields else rows


class Gamma:
    """The handlers. Each takes the parameters, the path's values and the present instant, and returns the body of its answer."""

    def __init__(self, source: PolymarketSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._sorted: tuple[Any, list[MarketRow]] | None = None
        self._sorting = threading.Lock()

    def routes(self) -> list[Route]:
        """Routes relative to the base URL."""
        handlers: dict[str, Callable[[Params, dict[str, str], int], Any]] = {
            "/markets/keyset": self.markets_keyset,
            "/markets/{id}": self.market,
            "/events/keyset": self.events_keyset,
            "/events/{id}": self.event,
        }
        deprecated = {"/markets": self.markets, "/events": self.events}
        return [
            *(Route(path, self._endpoint(handler, {}), methods=["GET"]) for path, handler in handlers.items()),
            *(Route(path, self._endpoint(handler, _successor(path)), methods=["GET"]) for path, handler in deprecated.items()),
        ]

    def _endpoint(self, handler: Callable[[Params, dict[str, str], int], Any], headers: dict[str, str]) -> Callable[[Request], Any]:
        def answer(request: Request) -> Response:
            try:
                params = Params(request.query_params, lambda name: gamma_invalid(f"{name} is invalid"))
                found = handler(params, request.path_params, instant(self._clock.now()))
            except Refusal as refusal:
                return refusal.response()
            return Response(orjson.dumps(found), media_type="application/json", headers=headers)

        async def endpoint(request: Request) -> Response:
            return await run_in_threadpool(answer, request) if _SORTS in request.query_params else answer(request)

        return endpoint

    # --- markets -----------------------------------------------------------------------------------------------

    def markets_keyset(self, params: Params, path: dict[str, str], now: int) -> Any:
        """GET /markets/keyset."""
        asked, order = Filters.of(params), Order.of(params)
        limit, with_tags = _keyset_limit(params, MOST_MARKETS), params.flag("include_tag") is True
        after = _after(params, order)
        rows = self._markets(asked, order, after, now)
        page, cursor = _keyset_page(rows, order, after, limit)
        return {"markets": [_market_body(row, with_tags) for row in page], **cursor}

    def _markets(self, asked: Filters, order: Order, after: Position | None, now: int) -> Iterator[MarketRow]:
        """The markets that match, in their order; a listing that was sorted stays for the pages that follow at the same instant."""
        if not order.fields:
            return (row for row in self._source.markets(_from(asked.wanted, after, order), now) if asked.matches(row))
        this = asked, order, now
        with self._sorting:
            if self._sorted is None or self._sorted[0] != this:
                found = (row for row in self._source.markets(asked.wanted, now) if asked.matches(row))
                self._sorted = this, list(order.sorted(found))
            return iter(self._sorted[1])

    def markets(self, params: Params, path: dict[str, str], now: int) -> Any:
        """GET /markets: by offset, a bare array."""
        asked, order = Filters.of(params), Order.of(params)
        cut, with_tags = _cut(params, "/markets/keyset"), params.flag("include_tag") is True
        rows = (row for row in self._source.markets(asked.wanted, now) if asked.matches(row))
        return [_market_body(row, with_tags) for row in islice(order.sorted(rows), cut.start, cut.stop)]

    def market(self, params: Params, path: dict[str, str], now: int) -> Any:
        """GET /markets/{id}."""
        row = next(self._source.markets(Wanted(ids=frozenset((path["id"],))), now), None)
        if row is None:
            raise _not_found()
        return _market_body(row, params.flag("include_tag") is True)

    # --- events ------------------------------------------------------------------------------------------------

    def events_keyset(self, params: Params, path: dict[str, str], now: int) -> Any:
        """GET /events/keyset."""
        asked, order = Filters.of(params), Order.of(params)
        limit, after = _keyset_limit(params, MOST_EVENTS), _after(params, order)
        rows = (row for row in self._source.events(_from(asked.wanted, after, order), now) if asked.matches(row))
        page, cursor = _keyset_page(order.sorted(rows), order, after, limit)
        return {"events": [orjson.Fragment(row.body()) for row in page], **cursor}

    def events(self, params: Params, path: dict[str, str], now: int) -> Any:
        """GET /events: by offset, a bare array; only closed ones unless `closed` says otherwise."""
        asked, order = Filters.of(params, closed=True), Order.of(params)
        cut = _cut(params, "/events/keyset")
        rows = (row for row in self._source.events(asked.wanted, now) if asked.matches(row))
        return [orjson.Fragment(row.body()) for row in islice(order.sorted(rows), cut.start, cut.stop)]

    def event(self, params: Params, path: dict[str, str], now: int) -> Any:
        """GET /events/{id}."""
        row = next(self._source.events(Wanted(ids=frozenset((path["id"],))), now), None)
        if row is None:
            raise _not_found()
        return orjson.Fragment(row.body())


def _successor(path: str) -> dict[str, str]:
    """Headers of a deprecated endpoint."""
    return {**_DEPRECATED, "Link": f'<{path}/keyset>; rel="successor-version"'}


def _not_found() -> Refusal:
    return Refusal(404, {"type": "not found error", "error": "id not found"})


def _keyset_limit(params: Params, most: int) -> int:
    if params.text("offset") is not None:
        raise gamma_invalid("offset is not supported, use after_cursor")
    return params.integer("limit", 1, most) or _DEFAULT_LIMIT


def _cut(params: Params, successor: str) -> slice:
    """The part of a listing at an offset; a longer one is cut to the maximum."""
    offset, limit = params.integer("offset", 0) or 0, params.integer("limit", 0)
    if offset > LAST_OFFSET:
        raise gamma_invalid(f"offset exceeds the maximum of {LAST_OFFSET}, use {successor}")
    return slice(offset, offset + min(_DEFAULT_LIMIT if limit is None else limit, MOST_LISTED))


def _after(params: Params, order: Order) -> Position | None:
    """The position behind which the page begins."""
    position = params.position("after_cursor")
    if position is not None and len(position) <= 2 * len(order.fields):
        raise gamma_invalid("after_cursor is invalid")
    return position


def _from(wanted: Wanted, after: Position | None, order: Order) -> Wanted:
    """The rest of a listing behind a position in the world's own order."""
    if after is None or order.fields:
        return wanted
    return replace(wanted, after=tuple(map(int, after)))


def _keyset_page(ordered: Iterator[Row], order: Order, after: Position | None, limit: int) -> tuple[list[Row], dict[str, str]]:
    """The next of the ordered rows, and the cursor behind them; none when there are no more."""
    behind = (row for row in ordered if after is None or order.position(row) > after)
    page = list(islice(behind, limit))
    if next(behind, None) is None:
        return page, {}
    return page, {"next_cursor": position_after(order.position(page[-1]))}


def _market_body(row: MarketRow, with_tags: bool) -> orjson.Fragment:
    body = row.body()
    return orjson.Fragment(body[:-1] + b',"tags":' + orjson.dumps(row.tags()) + b"}" if with_tags else body)
