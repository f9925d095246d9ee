"""Routes of Polymarket's Gamma and CLOB over the generated world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.sandbox.params import Handler, Params, VenueRefusal, build_cursor, build_routes, respond, take_page
from bellwether.sandbox.polymarket.listing import GeneratedPolymarket
from bellwether.sandbox.polymarket.model import ListedEvent, ListedMarket
from bellwether.sandbox.polymarket.wire import build_book, build_clob_market, build_event, build_market, build_prices, build_tags
from bellwether.sandbox.timestamps import MINUTE, SECOND, Clock, to_instant

#: Maximum rows of a page.
MOST_MARKETS, MOST_EVENTS = 100, 500
MOST_TOKENS = 500

_DEFAULT_LIMIT = 20

Pair = tuple[ListedEvent, ListedMarket]


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a listing: its sort key, and a function that builds its JSON."""

    key: tuple[int, ...]
    body: Callable[[], orjson.Fragment]


def _invalid(error: str) -> VenueRefusal:
    """Build Gamma's HTTP 422."""
    return VenueRefusal(422, {"type": "validation error", "error": error})


def _clob_error(status: int, error: str) -> VenueRefusal:
    """Build an error response of the CLOB."""
    return VenueRefusal(status, {"error": error})


@dataclass(frozen=True, slots=True)
class _Filters:
    """Filters of a listing: by ids, by closed state, and by the announced end (inclusive)."""

    ids: tuple[str, ...] | None
    closed: bool | None
    ends: tuple[int | None, int | None]

    @classmethod
    def of(cls, params: Params) -> _Filters:
        """Parse the filters in a query. Raises `VenueRefusal` for an invalid one."""
        ids = params.get_all("id")
        if ids is not None and not all(map(str.isdecimal, ids)):
            raise _invalid("id is invalid")
        return cls(ids, params.flag("closed"), (params.instant("end_date_min"), params.instant("end_date_max")))

    def matches(self, closed: bool, ends: int | None) -> bool:
        """Return True if a row passes the filters by closed state and by end."""
        low, high = self.ends
        if self.closed is not None and closed != self.closed:
            return False
        return (low is None or (ends is not None and ends >= low)) and (high is None or (ends is not None and ends <= high))


class Gamma:
    """Handlers of Gamma's markets and events."""

    def __init__(self, polymarket: GeneratedPolymarket, clock: Clock) -> None:
        self._polymarket = polymarket
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes, relative to the base URL."""
        handlers: dict[str, Handler] = {
            "/markets/keyset": lambda params, path, now: self._keyset("markets", MOST_MARKETS, self._markets(params, now), params),
            "/events/keyset": lambda params, path, now: self._keyset("events", MOST_EVENTS, self._events(params, now), params),
        }
        return build_routes(handlers, self._clock, lambda name: _invalid(f"{name} is invalid"))

    def _keyset(self, name: str, most: int, rows: Iterator[Row], params: Params) -> Any:
        """Build a page of a listing: the rows after the cursor, and a cursor if there are more."""
        after, limit = params.cursor("after_cursor"), params.integer("limit", 1, most) or _DEFAULT_LIMIT
        page, more = take_page((row for row in rows if after is None or row.key > after), limit)
        cursor = {"next_cursor": build_cursor(page[-1].key)} if more else {}
        return {name: [row.body() for row in page], **cursor}

    def _markets(self, params: Params, now: int) -> Iterator[Row]:
        """Yield the markets that match the query, in its order."""
        filters, order = _Filters.of(params), params.choice("order", "volumeNum", "closedTime", "endDate")
        pairs: Iterable[Pair]
        if filters.ids is not None:
            named = [pair for name in set(filters.ids) if (pair := self._polymarket.find_pair(name))]
            pairs = sorted(named, key=lambda pair: pair[1].key)
        else:
            # Sorted by another field, a listing has no place after which the world could begin.
            after = params.cursor("after_cursor") if order is None else None
            events = self._polymarket.events(now, closed=filters.closed, ends=filters.ends, after=after)
            pairs = ((event, market) for event in events for market in event.markets)
        tagged, sign = bool(params.flag("include_tag")), -1 if params.flag("ascending") is False else 1

        def key(market: ListedMarket) -> tuple[int, ...]:
            if order is None:
                return market.key
            if order == "volumeNum":
                value = market.turnover(now)
            elif order == "closedTime":
                value = market.closes if market.closed(now) else 0
            else:
                value = market.ends or 0
            return sign * value, *market.key

        rows = (
            Row(key(market), partial(_market_body, event, market, tagged, min(now, event.final)))
            for event, market in pairs
            if market.created <= now and filters.matches(market.closed(now), market.ends)
        )
        return rows if order is None else iter(sorted(rows, key=attrgetter("key")))

    def _events(self, params: Params, now: int) -> Iterator[Row]:
        """Yield the events that match the query."""
        filters, after = _Filters.of(params), params.cursor("after_cursor")
        events: Iterable[ListedEvent]
        if filters.ids is not None:
            named = [event for name in set(filters.ids) if (event := self._polymarket.find_event(name))]
            events = sorted(named, key=attrgetter("key"))
        else:
            events = self._polymarket.events(now, closed=filters.closed, ends=filters.ends, after=after)
        for event in events:
            if event.created <= now and filters.matches(now >= event.closes, event.ends):
                yield Row(event.key, partial(_event_body, event, min(now, event.final)))


@lru_cache(maxsize=4096)
def _market_body(event: ListedEvent, market: ListedMarket, tagged: bool, at: int) -> orjson.Fragment:
    """Return the JSON of a market with its event."""
    tags = {"tags": build_tags(event)} if tagged else {}
    return orjson.Fragment(orjson.dumps({**build_market(market, event, at), "events": [build_event(event, at)], **tags}))


@lru_cache(maxsize=1024)
def _event_body(event: ListedEvent, at: int) -> orjson.Fragment:
    """Return the JSON of an event with its markets."""
    markets = [build_market(market, event, at) for market in event.markets]
    return orjson.Fragment(orjson.dumps({**build_event(event, at), "markets": markets, "tags": build_tags(event)}))


class Clob:
    """Handlers of the CLOB's books, prices and markets."""

    def __init__(self, polymarket: GeneratedPolymarket, clock: Clock) -> None:
        self._polymarket = polymarket
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes, relative to the base URL."""
        handlers: dict[str, Handler] = {
            "/time": lambda params, path, now: now // SECOND,
            "/prices-history": self._prices,
            "/markets/{condition_id}": self._market,
        }
        routes = build_routes(handlers, self._clock, lambda name: _clob_error(400, f"invalid {name}"))
        return [*routes, Route("/books", self._books, methods=["POST"])]

    def _listed(self, name: str, now: int) -> Pair | None:
        """Return the event and the market with a condition id or token id, if they are listed at `now`."""
        pair = self._polymarket.find_pair(name)
        return pair if pair and pair[1].created <= now else None

    async def _books(self, request: Request) -> Response:
        """Serve POST /books; tokens without a book are left out."""
        now = to_instant(self._clock())
        try:
            tokens = dict.fromkeys(str(item["token_id"]) for item in orjson.loads(await request.body()))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return _clob_error(400, "Invalid payload").response()
        if len(tokens) > MOST_TOKENS:
            return _clob_error(400, "Payload exceeds the limit").response()
        books = (self._book(token, now) for token in tokens)
        return respond([book for book in books if book is not None])

    def _book(self, token: str, now: int) -> Any:
        """Return the book of a token; None if it has none."""
        pair = self._listed(token, now)
        if pair is None or token not in pair[1].tokens:
            return None
        event, market = pair
        return build_book(market, event, market.tokens.index(token), now)

    def _prices(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /prices-history; the history of an unknown token is empty."""
        token, start, end = params.text("market"), params.seconds("startTs"), params.seconds("endTs")
        if token is None or start is None:
            raise _clob_error(400, "invalid filters: 'market' and 'startTs' are required")
        pair, step = self._listed(token, now), (params.integer("fidelity", 1) or 1) * MINUTE
        if pair is None or token not in pair[1].tokens:
            return {"history": []}
        market = pair[1]
        return {"history": build_prices(market, market.tokens.index(token), start, now if end is None else min(end, now), step)}

    def _market(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /markets/{condition_id}."""
        pair = self._listed(path["condition_id"], now)
        if pair is None:
            raise _clob_error(404, "market not found")
        return build_clob_market(pair[1], pair[0], now)
