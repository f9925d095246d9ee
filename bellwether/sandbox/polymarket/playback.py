"""Polymarket's recorded responses, as the source of the sandbox's routes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.polymarket.source import EventRow, ListingFilter, MarketRow, Object, Point, PriceTimes, TokenBook
from bellwether.sandbox.recorded_files import read_recordings
from bellwether.sandbox.recorded_objects import RecordedObject, RecordedObjects, is_gamma_event, is_gamma_market, read_time, select_newest
from bellwether.sandbox.timestamps import SECOND, to_datetime

Row = TypeVar("Row", MarketRow, EventRow)

_MILLISECOND = SECOND // 1000


def _milliseconds(value: Any) -> int | None:
    """Parse a text of milliseconds since 1970; return the instant, or None for other values."""
    return int(value) * _MILLISECOND if isinstance(value, str) and value.isascii() and value.isdecimal() else None


def _updated(body: Object) -> int | None:
    return read_time(body.get("updatedAt"))


def _book_time(body: Object) -> int | None:
    return _milliseconds(body.get("timestamp"))


def _list(value: Any) -> list[Any]:
    """Return a list, or the list in a JSON text; empty for other values."""
    try:
        value = orjson.loads(value) if isinstance(value, str) else value
    except orjson.JSONDecodeError:
        return []
    return value if isinstance(value, list) else []


def _objects(value: Any) -> list[Object]:
    """Return the objects in a list; empty for other values."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(body: Object, *names: str) -> float | None:
    """Return the value of the first of the fields `names` that is a number or numeric text; None if all are missing or other values."""
    for name in names:
        try:
            return float(body[name])
        except (KeyError, TypeError, ValueError):
            continue
    return None


def _tags(body: Object) -> list[Object]:
    return [tag for tag in _objects(body.get("tags")) if "id" in tag]


def _without(body: Object, *names: str) -> Object:
    return {name: value for name, value in body.items() if name not in names}


def _levels(levels: list[Any]) -> tuple[tuple[Decimal, Decimal], ...]:
    try:
        return tuple((Decimal(level["price"]), Decimal(level["size"])) for level in levels)
    except (KeyError, TypeError, InvalidOperation):
        return ()


def _book(body: Object) -> TokenBook:
    return TokenBook(body["market"], body["asset_id"], _levels(body["bids"]), _levels(body["asks"]), lambda: body)


def _select_rows(rows: list[Row], wanted: ListingFilter) -> Iterator[Row]:
    """Return the rows that pass the filters `ids` and `after` (sort key); the other filters are ignored here."""
    return (row for row in rows if (wanted.ids is None or row.id in wanted.ids) and (wanted.after is None or row.key > wanted.after))


class RecordedPolymarket:
    """Recorded objects of Polymarket, from JSON and JSON lines (plain or gzipped).

    Objects are served unchanged in the order of their files, the last updated one per id, at any time of the clock; only paging and filters
    are simulated. A market's tags are served with `include_tag`; an event contains its recorded markets. Prices are the mid prices of the
    recorded books.

    Raises `ConfigError` for a missing folder, `BellwetherError` for a broken file.
    """

    def __init__(self, folder: str | Path | RecordedObjects) -> None:
        findings = folder if isinstance(folder, RecordedObjects) else read_recordings(folder)
        self._markets = select_newest(findings.gamma_markets, "id", _updated)
        self._events = select_newest(findings.gamma_events, "id", _updated)
        self._nested = self._nesting(findings)
        self._conditions = select_newest(findings.clob_markets, "condition_id", lambda body: None)
        self._books = {token: _book(body) for token, body in select_newest(findings.clob_books, "asset_id", _book_time).items()}
        self._prices = self._price_points(findings.clob_books)
        self._market_rows = [self._market_row(place, body) for place, body in enumerate(self._markets.values())]
        self._event_rows = [self._event_row(place, body) for place, body in enumerate(self._events.values())]
        #: Instant of the latest capture or update; 0 for an empty source.
        self.latest = self._latest_time(findings)

    def _nesting(self, findings: RecordedObjects) -> dict[str, list[str]]:
        """Return the ids of the recorded markets by event. A market belongs to an event if either object refers to the other."""
        nested: dict[str, dict[str, None]] = {event: {} for event in self._events}
        pairs = [(event, market.body) for market in findings.gamma_markets for event in _objects(market.body.get("events"))]
        pairs += [(event.body, market) for event in findings.gamma_events for market in _objects(event.body.get("markets"))]
        for event, market in pairs:
            if is_gamma_event(event) and is_gamma_market(market):
                nested[event["id"]][market["id"]] = None
        return {event: list(markets) for event, markets in nested.items()}

    @staticmethod
    def _price_points(books: list[RecordedObject]) -> dict[str, list[Point]]:
        """Return the mid prices of the recorded books as points (time, price) by token, in order of time."""
        points: dict[str, dict[int, float]] = {}
        for at, book in sorted(((_book_time(item.body) or 0, item.body) for item in books), key=lambda pair: pair[0]):
            middle = _book(book).middle
            if middle is not None:
                points.setdefault(book["asset_id"], {})[at // SECOND] = float(middle)
        return {token: list(prices.items()) for token, prices in points.items()}

    def _latest_time(self, findings: RecordedObjects) -> int:
        objects = (*findings.gamma_markets, *findings.gamma_events, *findings.clob_markets, *findings.clob_books)
        times = [time for item in objects for time in (item.captured, _updated(item.body), _book_time(item.body)) if time is not None]
        return max(times, default=0)

    def _market_tags(self, body: Object) -> list[Object]:
        """Return a market's own tags, else those of its events."""
        events = (self._events.get(str(event.get("id")), event) for event in _objects(body.get("events")))
        return _tags(body) or [tag for event in events for tag in _tags(event)]

    def _market_row(self, place: int, body: Object) -> MarketRow:
        return MarketRow(
            key=(place,),
            id=body["id"],
            condition_id=body["conditionId"],
            tokens=tuple(_trading_ids(body)),
            active=body.get("active") is True,
            closed=body.get("closed") is True,
            ends=read_time(body.get("endDate") or body.get("endDateIso")),
            closed_at=read_time(body.get("closedTime")),
            uma_status=body.get("umaResolutionStatus"),
            tags=partial(self._market_tags, body),
            volume=partial(_number, body, "volumeNum", "volume"),
            body=lambda: orjson.dumps(_without(body, "tags")),
        )

    def _event_body(self, body: Object) -> bytes:
        markets = [_without(self._markets[market], "events") for market in self._nested[body["id"]]]
        return orjson.dumps({**body, "markets": markets})

    def _event_row(self, place: int, body: Object) -> EventRow:
        active, closed = (body.get(name) is True for name in ("active", "closed"))
        return EventRow((place,), body["id"], active, closed, read_time(body.get("endDate")), partial(self._event_body, body))

    def default_clock(self) -> Clock:
        """Create a clock fixed at the latest capture or update; without objects, the real clock."""
        return Clock(to_datetime(self.latest)) if self.latest else Clock()

    def markets(self, wanted: ListingFilter, now: int) -> Iterator[MarketRow]:
        return _select_rows(self._market_rows, wanted)

    def events(self, wanted: ListingFilter, now: int) -> Iterator[EventRow]:
        return _select_rows(self._event_rows, wanted)

    def clob_market(self, condition_id: str, now: int) -> Object | None:
        return self._conditions.get(condition_id)

    def book(self, token: str, now: int) -> TokenBook | None:
        return self._books.get(token)

    def prices(self, token: str, ticks: PriceTimes, now: int) -> list[Point]:
        """Return the mid prices of the recorded books, the last one of each step."""
        points = self._prices.get(token, [])
        first = bisect_left(points, ticks.first, key=lambda point: point[0] * SECOND)
        last = bisect_right(points, ticks.last, key=lambda point: point[0] * SECOND)
        return list({seconds * SECOND // ticks.step: (seconds, price) for seconds, price in points[first:last]}.values())


def _trading_ids(body: Object) -> list[str]:
    """Return the ids under which the outcomes of a market trade, by its protocol version."""
    return list(map(str, _list(body.get("positionIds" if body.get("version") == "v2" else "clobTokenIds"))))
