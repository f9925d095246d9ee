"""Follows the frames of a recording in order of arrival and keeps what episodes are made of, in columns."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from bellwether.recordings.books import Side
from bellwether.recordings.gaps import Effect, Watch
from bellwether.recordings.instants import MILLISECOND, exchange_time, instant
from bellwether.recordings.notes import WATCHED
from bellwether.replay.building.columns import BOOK, INVALID, LEVEL, SNAPSHOT_START, TRADES, Rows, Texts
from bellwether.replay.building.lives import Life
from bellwether.replay.building.messages import Levels, Reader, last_trade, rest_books, rest_trades
from bellwether.replay.building.times import Times
from bellwether.replay.units import DOLLAR
from bellwether.venues.kalshi.stream.frame import (
    LIFECYCLE,
    REFERENCE,
    REST_BOOKS,
    REST_TRADES,
    TICKER,
    TRADE,
    Frame,
    body_of,
    message,
    ticker_of,
)

_NONE = -1


@dataclass(slots=True)
class _Market:
    """One market so far.

    book: bids of both sides, None until the first snapshot and from the loss of it to the next. crossed: place and ordinal of the last frame, where it
    left the book crossed. is_hidden: an instant ended so, and rows are not written until it is mended. wiped: place and row where it was emptied.
    """

    code: int
    life: Life
    book: tuple[Side, Side] | None = None
    crossed: tuple[int, int] | None = None
    is_hidden: bool = False
    was_filled: bool = False
    wiped: tuple[int, int] | None = None
    last_trade: int | None = None
    last_price: int | None = None
    connection: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """A book was lost: market code, its row of kind invalid, places of the frames between which it could not be trusted (until -1: the end), and why."""

    code: int
    row: int
    since: int
    until: int
    cause: str


@dataclass(slots=True)
class _Series:
    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))


class Tracker:
    """Takes in frames one at a time. What it holds grows by some dozens of bytes a frame, whatever the frame's size.

    recording: its name, for errors. tickers: of the markets that matter; all others are not looked at. partial: holes in the numbers are expected.
    Raises `SchemaError` for a frame of theirs that cannot be read.
    """

    def __init__(self, recording: str, tickers: Collection[str], *, partial: bool = False) -> None:
        self.book, self.trades, self.trade_ids, self.times = Rows(BOOK), Rows(TRADES), Texts(), Times()
        self.markets = {ticker: _Market(code, Life(ticker)) for code, ticker in enumerate(sorted(tickers))}
        self.series: dict[str, _Series] = {}
        self.losses: list[Lost] = []
        self.counts: Counter[str] = Counter()
        self.frames = 0
        self._reader = Reader(recording)
        self._watch = Watch(partial=partial)
        self._lost: dict[int, Lost] = {}
        self._last_place = 0

    def take(self, frame: Frame) -> None:
        """Take in a frame."""
        found = message(frame.data)
        kind, body = found.get("type"), body_of(found)
        self.frames += 1
        effect = self._watch.heard(frame, found)
        for outage in self._watch.invalidated():
            if (market := self.markets.get(outage.market)) is not None:
                self._lose(frame, market, outage.cause)
        if effect is not None:
            self._take_book(frame, body, effect)
        elif kind == TRADE:
            self._take_trade(frame, body)
        elif kind == REST_BOOKS:
            self._take_polled_books(frame, found, body)
        elif kind == REST_TRADES:
            for trade in rest_trades(body):
                self._take_trade(frame, trade)
        elif kind == LIFECYCLE and (market := self.markets.get(ticker_of(body) or "")) is not None:
            market.life.heard(body, self._beside(frame, found))
        elif kind == WATCHED and (market := self.markets.get(ticker_of(body) or "")) is not None:
            market.life.watched(body)
        elif kind == TICKER and (market := self.markets.get(ticker_of(body) or "")) is not None:
            market.last_price = last_trade(body) or market.last_price
        elif kind == REFERENCE:
            self._take_reference(frame, body)

    def finish(self) -> None:
        """No more frames come: books that are lost still, stay so."""
        for market in self.markets.values():
            self._hide_if_left_crossed(market, None)
        self.losses += self._lost.values()
        self._lost = {}
        self.losses.sort(key=lambda lost: (lost.since, lost.code))

    # --- times ---------------------------------------------------------------------------------------------------------

    def _hear(self, frame: Frame, at: int | None) -> int:
        self._last_place = self.times.hear(at, frame.received_at)
        return self._last_place

    def _beside(self, frame: Frame, found: dict[str, Any]) -> int:
        sent = found.get("sending_ts_ms")
        at = exchange_time(body_of(found)) or (sent * MILLISECOND if type(sent) is int and sent > 0 else None)
        return self.times.hear(at, frame.received_at, beside=True)

    # --- books ---------------------------------------------------------------------------------------------------------

    def _take_book(self, frame: Frame, body: dict[str, Any], effect: Effect) -> None:
        market = self.markets.get(body["market_ticker"])
        if market is None:
            return
        place = self._hear(frame, exchange_time(body))
        if effect is Effect.IGNORED or (effect is Effect.CHANGED and market.book is None):
            self.counts["unapplied"] += 1
            return
        if effect is Effect.CHANGED:
            self._change(frame, market, body, place)
        else:
            self._set(frame, market, self._reader.levels(frame, body), place)

    def _take_polled_books(self, frame: Frame, found: dict[str, Any], body: dict[str, Any]) -> None:
        fetched = found.get("fetched_at")
        place: int | None = None
        for ticker, levels in rest_books(body):
            market = self.markets.get(ticker)
            if market is None:
                continue
            if market.book is not None and market.connection not in (0, frame.connection):
                self._lose(frame, market, "break")
            market.connection = frame.connection
            place = self._hear(frame, instant(fetched) if type(fetched) is str else None) if place is None else place
            self._set(frame, market, self._reader.levels(frame, levels), place)

    def _set(self, frame: Frame, market: _Market, levels: Levels, place: int) -> None:
        """A whole book: the changes of one that is valid, or all of it."""
        self._hide_if_left_crossed(market, place)
        before, market.book = market.book, (Side(levels[0]), Side(levels[1]))
        self._note_wipe(market, levels, place)
        if before is None or market.is_hidden:
            self._show(frame, market, place)
        else:
            for side, (was, now) in enumerate(zip(before, levels, strict=True)):
                for mills in sorted(was.levels.keys() | now.keys(), reverse=True):
                    if was.levels.get(mills, 0) != now.get(mills, 0):
                        self.book.add((place, frame.ordinal, market.code, LEVEL, side, mills, now.get(mills, 0)))
        self._note_crossing(frame, market, place)

    def _show(self, frame: Frame, market: _Market, place: int) -> None:
        """Write a book that is to be trusted from here on."""
        assert market.book is not None
        market.is_hidden = False
        lost = self._lost.pop(market.code, None)
        if lost is not None:
            self.losses.append(replace(lost, until=place))
        self.book.add((place, frame.ordinal, market.code, SNAPSHOT_START, _NONE, _NONE, _NONE))
        for side, held in enumerate(market.book):
            for mills in sorted(held.levels, reverse=True):
                self.book.add((place, frame.ordinal, market.code, LEVEL, side, mills, held.levels[mills]))

    def _note_wipe(self, market: _Market, levels: Levels, place: int) -> None:
        if levels[0] or levels[1]:
            market.was_filled, market.wiped = True, None
        elif market.was_filled and market.wiped is None:
            market.wiped = (place, len(self.book))

    def _change(self, frame: Frame, market: _Market, body: dict[str, Any], place: int) -> None:
        assert market.book is not None
        self._hide_if_left_crossed(market, place)
        side, mills, by = self._reader.change(frame, body)
        lots = market.book[side].change(mills, by)
        if lots < 0:
            self.counts["below_zero"] += 1
            self._lose(frame, market, f"level below zero at frame {frame.ordinal}")
            return
        if lots:
            market.was_filled, market.wiped = True, None
        if not market.is_hidden:
            self.book.add((place, frame.ordinal, market.code, LEVEL, side, mills, lots))
        elif not _is_crossed(market.book):
            self._show(frame, market, place)
        self._note_crossing(frame, market, place)

    def _note_crossing(self, frame: Frame, market: _Market, place: int) -> None:
        assert market.book is not None
        market.crossed = (place, frame.ordinal) if _is_crossed(market.book) else None

    def _hide_if_left_crossed(self, market: _Market, place: int | None) -> None:
        """Changes of one action come one by one, but an instant that ends with a crossed book shows that something is missing."""
        if market.crossed is None or market.is_hidden or (place is not None and self.times.are_one_instant(market.crossed[0], place)):
            return
        self.counts["crossed"] += 1
        market.is_hidden = True
        self._invalidate(market, *market.crossed, "crossed book")

    def _lose(self, frame: Frame, market: _Market, cause: str) -> None:
        """The book cannot be trusted behind the last frame that came."""
        if market.book is None:
            return
        if not market.is_hidden:
            self._invalidate(market, self._last_place, frame.ordinal, cause)
        market.book, market.crossed, market.is_hidden = None, None, False

    def _invalidate(self, market: _Market, place: int, ordinal: int, cause: str) -> None:
        self._lost[market.code] = Lost(market.code, len(self.book), place, _NONE, cause)
        self.book.add((place, ordinal, market.code, INVALID, _NONE, _NONE, _NONE))

    # --- trades and prices beside ------------------------------------------------------------------------------------------

    def _take_trade(self, frame: Frame, body: dict[str, Any]) -> None:
        trade = self._reader.trade(frame, body)
        if trade is None:
            self.counts["trades_off_book"] += 1
            return
        market = self.markets.get(trade.ticker)
        if market is None:
            return
        place = self._hear(frame, trade.at)
        self.trades.add((place, frame.ordinal, market.code, trade.side, trade.mills, trade.lots))
        self.trade_ids.add(trade.trade_id)
        market.last_trade = max(market.last_trade or 0, trade.at or 0) or None
        market.last_price = trade.mills

    def _take_reference(self, frame: Frame, body: dict[str, Any]) -> None:
        name, text = body.get("name"), body.get("value")
        try:
            value = float(text) if type(text) is str else math.nan
        except ValueError:
            value = math.nan
        if type(name) is not str or not name or not math.isfinite(value):
            raise self._reader.refuse(frame, "value", text, "a reference price has a name, and a finite number as text")
        series = self.series.setdefault(name, _Series())
        series.times.append(self.times.hear(exchange_time(body), frame.received_at, beside=True))
        series.values.append(value)


def _is_crossed(book: tuple[Side, Side]) -> bool:
    return book[0].best + book[1].best > DOLLAR and bool(book[0].best and book[1].best)
