"""Exchange over captures, files of recorded WebSocket messages, whose bodies are served unchanged."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property, lru_cache
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Any

import orjson

from bellwether.sandbox.exchange.captures import (
    CHANNEL_OF,
    CaptureContents,
    CapturedMessage,
    read_capture,
    read_exchange_time,
    scan_contents,
)
from bellwether.sandbox.exchange.exchange import BOOKS, TRADES, ExchangeBook, Interest, StreamMessage, TradeFilter, TradeRow
from bellwether.sandbox.exchange.wire import build_snapshot, build_uuid
from bellwether.sandbox.timestamps import format_time

_CURSORS = 16
_CENT = Decimal("0.01")
_ORDER = attrgetter("at", "number")


class _Cursor:
    """Reading position in captured messages, which moves only forward. passed: instant of the last message before this position."""

    def __init__(self, captures: Iterator[CapturedMessage]) -> None:
        self._captures = captures
        self._next = next(captures, None)
        self.passed = -1

    def within(self, start: int, end: int) -> Iterator[CapturedMessage]:
        """Yield the messages in [start, end) and skip earlier ones. If the caller stops early, the next call yields the last message
        again.
        """
        while self._next is not None and self._next.at < end:
            if self._next.at >= start:
                yield self._next
            self.passed = self._next.at
            self._next = next(self._captures, None)


class _Replay:
    """Order book rebuilt from captured messages up to an instant."""

    def __init__(self, cursor: _Cursor) -> None:
        self._cursor = cursor
        self._sides: dict[str, dict[Decimal, Decimal]] = {"yes": {}, "no": {}}
        self.at = -1
        self.market_id = ""
        self.clock = 0

    def advance(self, now: int) -> None:
        """Apply the messages received up to `now`."""
        for message in self._cursor.within(self.at + 1, now + 1):
            body = message.body
            self.market_id = body.get("market_id", self.market_id)
            self.clock = body.get("clock", self.clock)
            if message.kind == "orderbook_snapshot":
                self._sides = {side: _levels(body, side) for side in ("yes", "no")}
            else:
                self._change(body)
        self.at = now

    def _change(self, body: dict[str, Any]) -> None:
        """Apply a message about a changed level."""
        side = self._sides[body["side"]]
        price = _price(body.get("price_dollars"), body.get("price"))
        size = side.pop(price, Decimal(0)) + Decimal(str(body.get("delta_fp", body.get("delta"))))
        if size > 0:
            side[price] = size

    def book(self, ticker: str) -> ExchangeBook:
        """Return the book in the venue's current format."""
        yes, no = (tuple((f"{price:.4f}", f"{size:.2f}") for price, size in sorted(self._sides[side].items())) for side in ("yes", "no"))
        return ExchangeBook(ticker, yes, no, self.clock)


def _price(dollars: str | None, cents: int | None) -> Decimal:
    """Convert a price to dollars; current formats have `dollars`, older ones only `cents`."""
    return Decimal(dollars) if dollars is not None else Decimal(cents or 0) * _CENT


def _levels(body: dict[str, Any], side: str) -> dict[Decimal, Decimal]:
    """Return the size by price (dollars) of one side of a captured book, in any of the venue's formats."""
    for name, unit in ((f"{side}_dollars_fp", Decimal(1)), (f"{side}_dollars", Decimal(1)), (side, _CENT)):
        if body.get(name):
            return {Decimal(str(price)) * unit: Decimal(str(size)) for price, size in body[name]}
    return {}


class RecordedExchange:
    """Exchange over all captured WebSocket messages under a folder.

    A subscription begins with the first captured message of its markets. Messages before the clock are sent at once, later ones when the
    clock reaches them, in captured order. Only the numbers of the subscription are new. Files are read on first use. All markets count as
    live: nothing is archived.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder).expanduser()
        self._cursors: OrderedDict[int, tuple[Interest, _Cursor]] = OrderedDict()
        self._replays: OrderedDict[str, _Replay] = OrderedDict()
        self._file_trades = lru_cache(maxsize=32)(_trades_of)

    @cached_property
    def _files(self) -> dict[Path, CaptureContents]:
        """Tickers and channels of each capture by path."""
        contents = ((path, scan_contents(path)) for path in sorted(self._folder.rglob("*")))
        return {path: inside for path, inside in contents if inside.tickers}

    def tickers(self) -> frozenset[str]:
        """Return the tickers of all markets and events with captured messages."""
        return frozenset().union(*(inside.tickers for inside in self._files.values()))

    def cutoff(self, now: int) -> int:
        return 0

    def is_listed(self, ticker: str, now: int) -> bool:
        return any(ticker in inside.tickers for inside in self._files.values())

    def is_archived(self, ticker: str, now: int) -> bool:
        return False

    def _play(self, interest: Interest) -> Iterator[CapturedMessage]:
        """Yield the captured messages of the subscribed channels from all files, in order of time."""
        chosen = interest.tickers.keys()
        channels = interest.everywhere.union(*interest.tickers.values())
        paths = [
            path
            for path, inside in self._files.items()
            if inside.channels & channels and (interest.everywhere or not inside.tickers.isdisjoint(chosen))
        ]

        def wanted(message: CapturedMessage) -> bool:
            channel = CHANNEL_OF[message.kind]
            return channel in interest.everywhere or channel in interest.tickers.get(message.ticker, ())

        return merge(*(filter(wanted, read_capture(path)) for path in paths), key=_ORDER)

    def _cursor(self, interest: Interest, start: int) -> _Cursor:
        """Return a reading position in the messages of the subscribed channels that is before `start`: a cached one if possible, else a new
        one.
        """
        for number, (other, cursor) in self._cursors.items():
            if other == interest and cursor.passed < start:
                del self._cursors[number]
                return cursor
        return _Cursor(self._play(interest))

    def _keep(self, interest: Interest, cursor: _Cursor) -> None:
        """Cache a reading position; the oldest one is dropped if there are too many."""
        self._cursors[id(cursor)] = (interest, cursor)
        if len(self._cursors) > _CURSORS:
            self._cursors.popitem(last=False)

    def opening(self, interest: Interest, now: int) -> Iterator[StreamMessage]:
        return self.messages(interest, 0, now + 1)

    def messages(self, interest: Interest, start: int, end: int) -> Iterator[StreamMessage]:
        if not (interest.tickers or interest.everywhere):
            return
        cursor = self._cursor(interest, start)
        try:
            for message in cursor.within(start, end):
                yield StreamMessage(message.at, CHANNEL_OF[message.kind], message.kind, message.ticker, message.body)
        finally:
            self._keep(interest, cursor)

    def _replay(self, ticker: str, now: int) -> _Replay | None:
        """Return the book of a market as rebuilt up to `now`; None without captured messages."""
        if not self.is_listed(ticker, now):
            return None
        replay = self._replays.pop(ticker, None)
        if replay is None or replay.at > now:
            replay = _Replay(_Cursor(self._play(Interest({ticker: frozenset({BOOKS})}))))
        replay.advance(now)
        self._replays[ticker] = replay
        if len(self._replays) > _CURSORS:
            self._replays.popitem(last=False)
        return replay

    def book(self, ticker: str, now: int) -> ExchangeBook | None:
        replay = self._replay(ticker, now)
        return replay.book(ticker) if replay else None

    def snapshot(self, ticker: str, now: int) -> StreamMessage | None:
        replay = self._replay(ticker, now)
        if replay is None:
            return None
        return build_snapshot(replay.book(ticker), replay.market_id or build_uuid("market", ticker), now)

    def trades(self, wanted: TradeFilter) -> Iterator[TradeRow]:
        traded = [(number, path) for number, (path, inside) in enumerate(self._files.items()) if TRADES in inside.channels]

        def rows(number: int, path: Path) -> Iterator[TradeRow]:
            for at, ordinal, line in self._file_trades(path):
                key = (-at, number, -ordinal)
                if not wanted.low <= at <= wanted.high or (wanted.after is not None and key <= wanted.after):
                    continue
                body = orjson.loads(line)
                if wanted.ticker in (None, body["market_ticker"]):
                    yield TradeRow(key, _convert_trade(body, at))

        paths = [(number, path) for number, path in traded if wanted.ticker is None or wanted.ticker in self._files[path].tickers]
        return merge(*(rows(number, path) for number, path in paths), key=attrgetter("key"))


def _trades_of(path: Path) -> list[tuple[int, int, bytes]]:
    """Return (instant, ordinal, body) of the trades in a capture, newest first."""
    messages = enumerate(message for message in read_capture(path) if message.kind == "trade")
    trades = [(read_exchange_time(message.body) or message.at, ordinal, orjson.dumps(message.body)) for ordinal, message in messages]
    return sorted(trades, key=lambda trade: trade[:2], reverse=True)


def _convert_trade(body: dict[str, Any], at: int) -> dict[str, Any]:
    """Convert a captured trade to the current format of GET /markets/trades."""
    yes = _price(body.get("yes_price_dollars"), body.get("yes_price"))
    side = body.get("taker_outcome_side") or body.get("taker_side")
    return {
        "trade_id": body["trade_id"],
        "ticker": body["market_ticker"],
        "count_fp": f"{Decimal(str(body.get('count_fp', body.get('count')))):.2f}",
        "yes_price_dollars": f"{yes:.4f}",
        "no_price_dollars": f"{1 - yes:.4f}",
        "taker_side": side,
        "taker_outcome_side": side,
        "taker_book_side": "bid" if side == "yes" else "ask",
        "is_block_trade": bool(body.get("is_block_trade")),
        "created_time": format_time(at),
    }
