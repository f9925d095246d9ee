"""Tracker of a recording's frames in order of arrival, which collects the content of episodes in columns."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from bellwether.recordings.book_validation import BookValidator
from bellwether.recordings.books import convert_no_prices
from bellwether.recordings.exchange_times import MILLISECOND, read_exchange_time
from bellwether.recordings.recorder_frames import WATCHED
from bellwether.replay.episode_builder.books import Books
from bellwether.replay.episode_builder.columns import TRADES, Rows, Texts
from bellwether.replay.episode_builder.gaps import BookLoss
from bellwether.replay.episode_builder.messages import Reader, UnusableFrame, last_trade, rest_trades
from bellwether.replay.episode_builder.subscriptions import Market
from bellwether.replay.episode_builder.times import Times
from bellwether.venues.kalshi.stream.frame import (
    LIFECYCLE,
    REFERENCE,
    REST_BOOKS,
    REST_TRADES,
    TICKER,
    TRADE,
    Frame,
    parse_message,
    read_body,
    read_ticker,
)
from bellwether.venues.wire.times import END_SECOND


@dataclass(slots=True)
class _Series:
    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))


class Tracker:
    """Collector of the content of episodes from frames. Its memory grows by a few dozen bytes per frame of any size.

    recording: its name, for errors. tickers: of the markets to build; others are ignored. partial: gaps in the sequence numbers are
    expected. yes_prices: NO levels of books are in prices of YES. Raises `SchemaError` for an unreadable trade or price message.
    """

    def __init__(self, recording: str, tickers: Collection[str], *, partial: bool = False, yes_prices: bool = False) -> None:
        self.yes_prices = yes_prices
        self.trades, self.trade_ids, self.times = Rows(TRADES), Texts(), Times()
        self.series: dict[str, _Series] = {}
        self.watch = BookValidator(partial=partial)
        self.frames = 0
        self.trades_off_book = 0
        self._reader = Reader(recording)
        self._books = Books(tickers, self.times, self._reader, self.watch)
        self.markets: dict[str, Market] = self._books.markets

    @property
    def book(self) -> Rows:
        """Rows of books, as if they were always valid."""
        return self._books.rows

    @property
    def lost(self) -> list[BookLoss]:
        """Losses of books, during which their rows are invalid."""
        return self._books.lost

    @property
    def counts(self) -> Counter[str]:
        """Frames of books and findings by kind."""
        return self._books.counts

    @property
    def unusable(self) -> UnusableFrame | None:
        """Error of the first unreadable frame of a book."""
        return self._books.unusable

    @property
    def trades_lost(self) -> int:
        """Number of messages missing on subscriptions of trades."""
        return sum(numbers.missing for numbers in self.watch.numbers.values() if numbers.kinds[TRADE])

    def take(self, frame: Frame) -> None:
        """Process a frame."""
        found = parse_message(frame.data)
        kind, body = found.get("type"), read_body(found)
        self.frames += 1
        understood = self.watch.take(frame, found)
        for ended in self.watch.pop_ended():
            self._books.end(ended)
        if understood is not None:
            self._books.take(frame, convert_no_prices(body) if self.yes_prices else body, understood)
        elif kind == TRADE:
            self._take_trade(frame, body)
        elif kind == REST_BOOKS:
            self._books.take_polled(frame, found, body)
        elif kind == REST_TRADES:
            for trade in rest_trades(body):
                self._take_trade(frame, trade)
        elif kind == LIFECYCLE and (market := self.markets.get(read_ticker(body) or "")) is not None:
            market.lifecycle.take(body, self._beside(frame, found))
        elif kind == WATCHED and (market := self.markets.get(read_ticker(body) or "")) is not None:
            market.lifecycle.watched(body)
        elif kind == TICKER and (market := self.markets.get(read_ticker(body) or "")) is not None:
            market.last_price = last_trade(body) or market.last_price
        elif kind == REFERENCE:
            self._take_reference(frame, body)

    def finish(self) -> None:
        """Process the end of the recording."""
        self.watch.finish()
        for ended in self.watch.pop_ended():
            self._books.end(ended)
        self._books.finish()

    def _beside(self, frame: Frame, found: dict[str, Any]) -> int:
        sent = found.get("sending_ts_ms")
        at = read_exchange_time(read_body(found)) or (sent * MILLISECOND if type(sent) is int and 0 < sent < END_SECOND * 1000 else None)
        return self.times.hear(at, frame.received_at, beside=True, ordinal=frame.ordinal)

    def _take_trade(self, frame: Frame, body: dict[str, Any]) -> None:
        trade = self._reader.trade(frame, body)
        if trade is None:
            self.trades_off_book += 1
            return
        market = self.markets.get(trade.ticker)
        if market is None:
            return
        place = self.times.hear(trade.at, frame.received_at, ordinal=frame.ordinal)
        self.trades.add((place, frame.ordinal, market.code, trade.side, trade.price, trade.lots))
        self.trade_ids.add(trade.trade_id)
        market.last_trade = max(market.last_trade or 0, trade.at or 0) or None
        market.last_price = trade.price

    def _take_reference(self, frame: Frame, body: dict[str, Any]) -> None:
        name, text = body.get("name"), body.get("value")
        try:
            value = float(text) if type(text) is str else math.nan
        except ValueError:
            value = math.nan
        if type(name) is not str or not name or not math.isfinite(value):
            raise self._reader.refuse(frame, "value", text, "a reference price has a name, and a finite number as text")
        series = self.series.setdefault(name, _Series())
        series.times.append(self.times.hear(read_exchange_time(body), frame.received_at, beside=True, ordinal=frame.ordinal))
        series.values.append(value)
