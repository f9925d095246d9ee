"""A small venue with a few markets, live and archived, that pages, can be killed at any request, and keeps count."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import httpx

from tests.unit.venues.venue import answer
from tests.unit.venues.wire_objects import candle, market

DAY = date(2026, 3, 14)
HOUR = 3600


class Killed(BaseException):
    """The process was killed."""


def seconds(text: str) -> int:
    """Convert a time in the venue's format to seconds since 1970."""
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def closing(ticker: str, close: str, **changes: Any) -> dict[str, Any]:
    """Return a settled market of the event EV-<first letter of the ticker> that closed at `close`."""
    return market(ticker, **{"event_ticker": f"EV-{ticker[0]}", "close_time": close} | changes)


@dataclass
class World:
    """Data of the venue, and the requests received."""

    live: list[dict[str, Any]] = field(default_factory=list)
    archive: list[dict[str, Any]] = field(default_factory=list)
    events: set[str] | None = None
    cutoff: str = "2025-12-20T00:00:00Z"
    page_size: int = 2
    kill_at: int | None = None
    date: str = "Fri, 20 Mar 2026 08:30:00 GMT"
    asked: list[str] = field(default_factory=list)
    candles_missing: frozenset[str] = frozenset()
    #: Answers without markets to requests for markets by ticker.
    unnamed: int = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.raw_path.decode().removeprefix("/trade-api/v2"))
        if self.kill_at is not None and len(self.asked) >= self.kill_at:
            raise Killed
        path = request.url.raw_path.decode().split("?")[0].removeprefix("/trade-api/v2")
        response = self._answer(path, request.url.params)
        response.headers["Date"] = self.date
        return response

    def _answer(self, path: str, query: httpx.QueryParams) -> httpx.Response:
        if path == "/historical/cutoff":
            return answer({"market_settled_ts": self.cutoff, "trades_created_ts": self.cutoff, "orders_updated_ts": self.cutoff})
        if path == "/series":
            return answer({"series": [{"ticker": f"S{number}", "title": "Series", "fee_multiplier": 1} for number in range(3)]})
        if path == "/markets" and "tickers" in query:
            wanted = query["tickers"].split(",") if self.unnamed == 0 else []
            self.unnamed = max(0, self.unnamed - 1)
            return self._page("markets", [item for item in self.live if item.get("ticker") in wanted], query)
        if path == "/markets":
            after, before = int(query["min_close_ts"]), int(query["max_close_ts"])
            return self._page("markets", [item for item in self.live if self._closes_within(item, after, before)], query)
        if path == "/historical/markets":
            return self._page("markets", self.archive, query)
        if path == "/events":
            return self._page("events", [self._event(ticker) for ticker in query["tickers"].split(",") if self._knows(ticker)], query)
        if path == "/markets/candlesticks":
            groups = [{"market_ticker": ticker, "candlesticks": self._candles(query)} for ticker in query["market_tickers"].split(",")]
            return answer({"markets": groups})
        ticker = unquote(path.split("/")[3])
        if ticker in self.candles_missing:
            return answer({"error": {"code": "not_found", "message": "not found"}}, status=404)
        return answer({"ticker": ticker, "candlesticks": self._candles(query)})

    def _closes_within(self, item: dict[str, Any], after: int, before: int) -> bool:
        try:
            return after < seconds(item["close_time"]) < before
        except (KeyError, ValueError, AttributeError):
            return True

    def _knows(self, ticker: str) -> bool:
        return self.events is None or ticker in self.events

    def _event(self, ticker: str) -> dict[str, Any]:
        return {
            "event_ticker": ticker,
            "series_ticker": "S0",
            "title": ticker,
            "category": "World",
            "mutually_exclusive": False,
        }

    def _page(self, key: str, items: list[Any], query: httpx.QueryParams) -> httpx.Response:
        start = int(query.get("cursor") or 0)
        end = start + self.page_size
        return answer({key: items[start:end], "cursor": str(end) if end < len(items) else ""})

    def _candles(self, query: httpx.QueryParams) -> list[dict[str, Any]]:
        start, end = int(query["start_ts"]), int(query["end_ts"])
        first = -(-start // HOUR) * HOUR
        return [candle(at) for at in range(first, end + 1, 24 * HOUR)]


def ordinary() -> World:
    """Five live markets of the day in three events, and markets of other days."""
    return World(
        live=[
            closing("A-1", "2026-03-14T00:00:00Z"),
            closing("A-2", "2026-03-14T12:00:00Z", result="no", settlement_value_dollars="0.0000"),
            closing("B-1", "2026-03-14T18:30:00Z"),
            closing("B-2", "2026-03-14T23:59:59Z"),
            closing("C-1", "2026-03-14T15:00:00Z"),
            closing("C-2", "2026-03-15T00:00:00Z"),
            closing("D-1", "2026-03-13T23:59:59Z"),
        ]
    )


def archived() -> World:
    """Markets of a day before the cutoff: two archived, one settled late and still live."""
    old = [closing("A-1", "2026-03-14T10:00:00Z"), closing("B/1", "2026-03-14T11:00:00Z"), closing("Z-1", "2026-02-01T11:00:00Z")]
    return World(live=[closing("C-1", "2026-03-14T12:00:00Z")], archive=old, cutoff="2026-03-18T00:00:00Z")


def after(day: date, days: int = 1) -> datetime:
    """Return midnight `days` after `day`."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=days)
