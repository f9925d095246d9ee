"""Kalshi's recorded REST responses, as the source of the sandbox's routes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import orjson

from bellwether.errors import ConfigError
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.recorded_files import read_recordings
from bellwether.sandbox.recorded_objects import Object, RecordedObjects, read_time, select_newest
from bellwether.sandbox.source import Candle, EventRow, ListingFilter, MarketRow
from bellwether.sandbox.timestamps import SECOND, to_datetime

Row = TypeVar("Row", EventRow, MarketRow)

_COMBO_PREFIX = "KXMVE"
_UNOPENED = ("initialized", "unopened")


def _updated(body: Object) -> int | None:
    return read_time(body.get("updated_time"))


def _last_updated(body: Object) -> int | None:
    return read_time(body.get("last_updated_ts"))


def _select_rows(rows: dict[str, Row], tickers: Iterable[str]) -> list[Row]:
    """Return the rows with these tickers, in the order of the recordings."""
    return sorted((rows[ticker] for ticker in set(tickers) if ticker in rows), key=lambda row: row.key)


class Recordings:
    """Recorded objects of Kalshi's REST interface, from JSON, JSON lines (plain or gzipped) and Parquet.

    Objects are served unchanged in the order of their files, the last updated one per ticker; only paging and filters are simulated. All
    markets count as live: nothing is archived. A missing series is derived from its events and has only `ticker` and `category`. Candles do
    not depend on the clock.

    Attributes:
        folder: folder of the recordings, or the objects in it.
        required: raise an error for a folder without objects of Kalshi.

    Raises `ConfigError` for a missing folder or one without required objects, `BellwetherError` naming a broken file.
    """

    def __init__(self, folder: str | Path | RecordedObjects, *, required: bool = True) -> None:
        findings = folder if isinstance(folder, RecordedObjects) else read_recordings(folder)
        if required and not (findings.markets or findings.events or findings.series or findings.candles):
            raise ConfigError(f"read the recordings: nothing under {folder} is a body of Kalshi's REST interface; choose another folder")
        self._markets = select_newest(findings.markets, "ticker", _updated)
        self._events = select_newest(findings.events, "event_ticker", _last_updated)
        self._series = {**self._derived_series(), **select_newest(findings.series, "ticker", _last_updated)}
        self._series_of = findings.series_of
        self._candles = {key: [(end, candles[end].body) for end in sorted(candles)] for key, candles in findings.candles.items()}
        self._with_candles = {ticker for ticker, _ in findings.candles}
        self._rows = {ticker: self._market_row(index, body) for index, (ticker, body) in enumerate(self._markets.items())}
        self._by_event: dict[str, list[MarketRow]] = {}
        for row in self._rows.values():
            self._by_event.setdefault(row.event_ticker, []).append(row)
        self._event_rows = {ticker: self._event_row(index, body) for index, (ticker, body) in enumerate(self._events.items())}
        #: Instant of the latest capture or update; 0 for an empty source.
        self.latest = self._latest_time(findings)

    def _derived_series(self) -> dict[str, Object]:
        """Build series that were not recorded, from their events."""
        return {
            event["series_ticker"]: {"category": event.get("category") or "", "ticker": event["series_ticker"]}
            for event in self._events.values()
        }

    def _latest_time(self, findings: RecordedObjects) -> int:
        """Return the time for the clock: the latest capture or update in the recordings; without any, the latest opening of a market."""
        updates = (body.get("updated_time") for body in self._markets.values())
        changes = (body.get("last_updated_ts") for body in chain(self._events.values(), self._series.values()))
        times = [time for text in chain(updates, changes) if (time := read_time(text)) is not None]
        times += [candles[-1][0] * SECOND for candles in self._candles.values() if candles]
        times += [findings.captured] if findings.captured is not None else []
        opens = (body.get("open_time") for body in self._markets.values() if body["status"] not in _UNOPENED)
        opened = [time for text in opens if (time := read_time(text)) is not None]
        return max(times or opened, default=0)

    def _series_ticker(self, ticker: str, event_ticker: str) -> str:
        """Return the ticker of a market's series: as its event states, else as the recorder noted, else derived from the event ticker."""
        event = self._events.get(event_ticker)
        return event["series_ticker"] if event else self._series_of.get(ticker) or event_ticker.partition("-")[0]

    def _market_row(self, index: int, body: Object) -> MarketRow:
        ticker, event_ticker = body["ticker"], body["event_ticker"]
        return MarketRow(
            key=(index,),
            ticker=ticker,
            event_ticker=event_ticker,
            series_ticker=self._series_ticker(ticker, event_ticker),
            status=body["status"],
            is_combo=bool(body.get("mve_collection_ticker")) or ticker.startswith(_COMBO_PREFIX),
            closes=read_time(body.get("close_time")),
            settled=read_time(body.get("settlement_ts")),
            body=partial(orjson.dumps, body),
        )

    def _event_row(self, index: int, body: Object) -> EventRow:
        ticker = body["event_ticker"]
        return EventRow(
            key=(index,),
            ticker=ticker,
            series_ticker=body["series_ticker"],
            is_combo=ticker.startswith(_COMBO_PREFIX),
            body=lambda: body,
            markets=lambda: self._by_event.get(ticker, []),
        )

    def default_clock(self) -> Clock:
        """Create a clock fixed at the latest capture or update, so that statuses are as recorded."""
        return Clock(to_datetime(self.latest))

    def cutoff(self, now: int) -> int:
        return 0

    def series(self) -> Iterator[Object]:
        return iter(self._series.values())

    def events(self, wanted: ListingFilter, now: int) -> Iterator[EventRow]:
        candidates = self._event_rows.values() if wanted.tickers is None else _select_rows(self._event_rows, wanted.tickers)
        return (row for row in candidates if wanted.after is None or row.key > wanted.after)

    def markets(self, wanted: ListingFilter, now: int) -> Iterator[MarketRow]:
        candidates: Iterable[MarketRow] = self._rows.values()
        if wanted.tickers is not None:
            candidates = _select_rows(self._rows, wanted.tickers)
        elif wanted.event_ticker is not None:
            candidates = self._by_event.get(wanted.event_ticker, [])
        return (row for row in candidates if wanted.after is None or row.key > wanted.after)

    def candles(self, ticker: str, period: int, start: int, end: int, now: int) -> list[Candle] | None:
        if ticker not in self._rows and ticker not in self._with_candles:
            return None
        candles = self._candles.get((ticker, period), [])
        first = bisect_left(candles, start, key=lambda pair: pair[0] * SECOND)
        last = bisect_right(candles, end, key=lambda pair: pair[0] * SECOND)
        return [candle for _, candle in candles[first:last]]
