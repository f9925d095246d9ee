"""Collection of books, trades and other content of episodes from a recording's frames."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from bellwether.recordings.books import FrameReader, convert_no_prices, read_last_price, read_polled_trades
from bellwether.recordings.exchange_times import MILLISECOND, read_exchange_time
from bellwether.recordings.framing import WATCHED
from bellwether.recordings.gaps import BookValidator
from bellwether.replay.episode_builder.books import Books
from bellwether.replay.episode_builder.rows import TRADES, Rows
from bellwether.replay.episode_builder.times import Times
from bellwether.venues.kalshi.stream.frame import (
    LIFECYCLES,
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


class Tracker:
    """Collector of the content of episodes, frame by frame. Memory grows by a few dozen bytes per frame of any size.

    recording: its name, for errors. tickers: markets to build; others are ignored. partial: gaps in the sequence numbers are expected.
    yes_prices: NO levels of books are in prices of YES. Raises `SchemaError` for an unreadable trade or reference price.
    """

    def __init__(self, recording: str, tickers: Collection[str], *, partial: bool = False, yes_prices: bool = False) -> None:
        self.yes_prices = yes_prices
        self.trades, self.times = Rows(TRADES), Times()
        self.trade_ids: list[str] = []
        #: Place and value of each reference price, by name of the series.
        self.series: dict[str, list[tuple[int, float]]] = {}
        self.validator = BookValidator(partial=partial)
        self.frames = 0
        self.trades_off_book = 0
        self._reader = FrameReader(recording)
        self.books = Books(tickers, self.times, self._reader, partial=partial)

    @property
    def trades_lost(self) -> int:
        """Number of missing messages on subscriptions to trades."""
        return sum(numbers.missing for numbers in self.validator.numbers.values() if numbers.kinds[TRADE])

    def take(self, frame: Frame) -> None:
        """Process the next frame of the recording."""
        message = parse_message(frame.data)
        kind, body = message.get("type"), read_body(message)
        self.frames += 1
        effect = self.validator.take(frame, message)
        for ended in self.validator.pop_ended():
            self.books.end(ended)
        if effect is not None:
            self.books.take(frame, convert_no_prices(body) if self.yes_prices else body, effect)
        elif kind == TRADE:
            self._take_trade(frame, body)
        elif kind == REST_BOOKS:
            self.books.take_polled(frame, message, body)
        elif kind == REST_TRADES:
            for trade in read_polled_trades(body):
                self._take_trade(frame, trade)
        elif kind == REFERENCE:
            self._take_reference(frame, body)
        elif (market := self.books.markets.get(read_ticker(body) or "")) is not None:
            if kind in LIFECYCLES:
                market.lifecycle.take(body, self._add_aside(frame, message))
            elif kind == WATCHED:
                market.lifecycle.take_watched(body)
            elif kind == TICKER:
                market.last_price = read_last_price(body) or market.last_price

    def finish(self) -> None:
        """Process the end of the recording."""
        self.validator.finish()
        for ended in self.validator.pop_ended():
            self.books.end(ended)
        self.books.finish()

    def _add_aside(self, frame: Frame, message: dict[str, Any]) -> int:
        """Record the time of a frame that concerns neither books nor trades. Returns its place."""
        sent = message.get("sending_ts_ms")
        at = read_exchange_time(read_body(message)) or (sent * MILLISECOND if type(sent) is int and 0 < sent < END_SECOND * 1000 else None)
        return self.times.add(at, frame.received_at, aside=True, ordinal=frame.ordinal)

    def _take_trade(self, frame: Frame, body: dict[str, Any]) -> None:
        trade = self._reader.read_trade(frame, body)
        if trade is None:
            self.trades_off_book += 1
            return
        market = self.books.markets.get(trade.ticker)
        if market is None:
            return
        place = self.times.add(trade.at, frame.received_at, ordinal=frame.ordinal)
        self.trades.add((place, frame.ordinal, market.code, trade.side, trade.price, trade.lots))
        self.trade_ids.append(trade.trade_id)
        market.last_trade = max(market.last_trade or 0, trade.at or 0) or None
        market.last_price = trade.price

    def _take_reference(self, frame: Frame, body: dict[str, Any]) -> None:
        """Add a reference price to its series. Raises `UnusableFrame` for an invalid one."""
        name, text = body.get("name"), body.get("value")
        try:
            value = float(text) if type(text) is str else math.nan
        except ValueError:
            value = math.nan
        if type(name) is not str or not name or not math.isfinite(value):
            raise self._reader.build_error(frame, "value", text, "a reference price has a name, and a finite number as text")
        place = self.times.add(read_exchange_time(body), frame.received_at, aside=True, ordinal=frame.ordinal)
        self.series.setdefault(name, []).append((place, value))
