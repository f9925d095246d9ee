"""Captures that are lists of order events, made for programs that simulate matching; converted back to the messages of the recorded stream.

A row inserts or cancels an order, or states a price of the underlying (instrument 0). Prices are hundredths of a cent of YES. Side B bids
for YES; side A offers YES, which is a bid for NO. The lists were derived from a stream by these rules, which are inverted here:

* The rows of one instant are the levels of a snapshot: a message has one time of receipt.
* An Insert at a price displayed on the other side is a fill of that level by a taker's order that never rested. It becomes the level's change
  and a trade. The level need not be the best: fills were distinguished from cancellations by comparing sizes with the trades.
* Any other Insert adds to its level, and a Cancel reduces it. Order ids only count rows: no Cancel names an Insert.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from io import TextIOWrapper
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import orjson

from bellwether.errors import LakeError
from bellwether.files import open_bytes
from bellwether.recordings.exchange_times import SECOND
from bellwether.recordings.framing import CapturedMessage
from bellwether.venues.kalshi.stream.frame import DELTA, REFERENCE, SNAPSHOT, TRADE
from bellwether.venues.wire.times import parse_instant

#: Instrument whose rows are prices of the underlying, and its name in the output.
UNDERLYING, UNDERLYING_NAME = "0", "SPX"
_COLUMNS = ("Time", "Operation", "OrderId", "Instrument", "Side", "Volume", "Price")
_SIDES = {"B": "yes", "A": "no"}
_BOOKS, _TRADES = 1, 2
#: Minimum of levels at one instant that are a snapshot; two changes may share a microsecond.
_SNAPSHOT_ROWS = 3
_DOLLAR = Decimal(1)


class _OrderEvent(NamedTuple):
    """Row of a list: time (ns UTC), instrument, operation, order id, side of the bid, its price in dollars, and contracts."""

    at: int
    instrument: str
    operation: str
    order: str
    side: str
    price: Decimal
    size: Decimal


def _open_text(path: Path) -> TextIO:
    return TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")


def is_order_events(path: Path) -> bool:
    """Return True if a CSV file has the columns of an order-event list."""
    try:
        with _open_text(path) as file:
            return set(_COLUMNS) <= set(next(csv.reader(file), []))
    except (UnicodeDecodeError, OSError, EOFError, csv.Error):
        return False


def read_messages(path: Path, name: str) -> Iterator[CapturedMessage]:
    """Yield the messages of the stream from which a list of order events was made. The market of instrument n has the ticker `<name>-<n>`.

    Raises `LakeError` naming file, row, column and value.
    """
    replay = _MessageBuilder(name)
    for _, group in groupby(_read_events(path), key=lambda event: (event.at, event.instrument)):
        yield from replay.take(list(group))


def _read_events(path: Path) -> Iterator[_OrderEvent]:
    try:
        with _open_text(path) as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                if any(row.values()):
                    yield _parse_event(path, number, row)
    except (EOFError, gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
        raise LakeError(f"importing {path}: the file is truncated or damaged ({error}); copy it again") from None


def _parse_event(path: Path, number: int, row: dict[str, Any]) -> _OrderEvent:
    def refuse(column: str, wanted: str) -> LakeError:
        return LakeError(f"importing {path}: row {number} has {column} {row.get(column)!r}; {wanted}")

    at = _parse_time(row["Time"])
    if at is None:
        raise refuse("Time", "give an ISO time with its zone")
    price = _parse_number(row["Price"])
    if price is None:
        raise refuse("Price", "give a number")
    if row["Instrument"] == UNDERLYING:
        return _OrderEvent(at, UNDERLYING, "", "", "", price, Decimal(0))
    if row["Operation"] not in ("Insert", "Cancel"):
        raise refuse("Operation", "only Insert and Cancel are supported")
    if row["Side"] not in _SIDES:
        raise refuse("Side", "give A or B")
    size = _parse_number(row["Volume"])
    if size is None or size < 0:
        raise refuse("Volume", "give a number of contracts")
    dollars = price / 10_000
    side = _SIDES[row["Side"]]
    return _OrderEvent(at, row["Instrument"], row["Operation"], row["OrderId"], side, dollars if side == "yes" else _DOLLAR - dollars, size)


def _parse_time(text: str | None) -> int | None:
    at = parse_instant(text)
    if at is None:
        return None
    return int(at.replace(microsecond=0).timestamp()) * SECOND + at.microsecond * 1000


def _parse_number(text: str | None) -> Decimal | None:
    try:
        number = Decimal(text or "")
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


class _MessageBuilder:
    """Builder of numbered messages, which tracks the displayed books to distinguish fills from new orders."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._connection = 1
        self._seqs = {_BOOKS: 0, _TRADES: 0}
        self._books: dict[str, dict[tuple[str, Decimal], Decimal]] = {}

    def take(self, events: list[_OrderEvent]) -> Iterator[CapturedMessage]:
        """Yield the messages for one instrument's rows of one instant."""
        instrument = events[0].instrument
        if instrument == UNDERLYING:
            for event in events:
                body = {"name": UNDERLYING_NAME, "value": f"{event.price:f}"}
                yield CapturedMessage(event.at, self._connection, orjson.dumps({"type": REFERENCE, "msg": body}))
            return
        book = self._books.get(instrument)
        if _is_snapshot(events, first=book is None):
            if book is not None:
                # The subscription restarted, and the messages in between are unknown.
                self._connection += 1
                self._seqs = {_BOOKS: 0, _TRADES: 0}
            yield self._snapshot(events, events[0].at, instrument)
            return
        if book is None:
            yield self._snapshot([], events[0].at, instrument)
        for event in events:
            yield from self._change(event)

    def _snapshot(self, events: list[_OrderEvent], at: int, instrument: str) -> CapturedMessage:
        self._books[instrument] = {(event.side, event.price): event.size for event in events}
        levels = {
            f"{side}_dollars_fp": [[_dollars(event.price), _contracts(event.size)] for event in of_side]
            for side in ("yes", "no")
            if (of_side := sorted((event for event in events if event.side == side), key=lambda event: event.price))
        }
        return self._message(at, SNAPSHOT, _BOOKS, {"market_ticker": self._ticker(instrument), **levels})

    def _change(self, event: _OrderEvent) -> Iterator[CapturedMessage]:
        book = self._books[event.instrument]
        passive = ("no" if event.side == "yes" else "yes", _DOLLAR - event.price)
        if event.operation == "Insert" and book.get(passive, 0) >= event.size > 0:
            yield self._delta(event, *passive, -event.size)
            yield self._trade(event)
        else:
            yield self._delta(event, event.side, event.price, event.size if event.operation == "Insert" else -event.size)

    def _delta(self, event: _OrderEvent, side: str, price: Decimal, by: Decimal) -> CapturedMessage:
        book = self._books[event.instrument]
        size = book.get((side, price), Decimal(0)) + by
        if size > 0:
            book[side, price] = size
        else:
            book.pop((side, price), None)
        body = {"market_ticker": self._ticker(event.instrument), "price_dollars": _dollars(price), "delta_fp": _contracts(by), "side": side}
        return self._message(event.at, DELTA, _BOOKS, body)

    def _trade(self, event: _OrderEvent) -> CapturedMessage:
        yes = event.price if event.side == "yes" else _DOLLAR - event.price
        body = {
            "trade_id": f"{self._ticker(event.instrument)}-{event.order}",
            "market_ticker": self._ticker(event.instrument),
            "yes_price_dollars": _dollars(yes),
            "no_price_dollars": _dollars(_DOLLAR - yes),
            "count_fp": _contracts(event.size),
            "taker_side": event.side,
        }
        return self._message(event.at, TRADE, _TRADES, body)

    def _message(self, at: int, kind: str, sid: int, body: dict[str, Any]) -> CapturedMessage:
        self._seqs[sid] += 1
        return CapturedMessage(at, self._connection, orjson.dumps({"type": kind, "sid": sid, "seq": self._seqs[sid], "msg": body}))

    def _ticker(self, instrument: str) -> str:
        return f"{self._name}-{instrument}"


def _is_snapshot(events: list[_OrderEvent], *, first: bool) -> bool:
    """Return True if the rows of one instant are a snapshot: several inserts at different levels. first: no book is known yet."""
    levels = {(event.side, event.price) for event in events}
    inserted = all(event.operation == "Insert" for event in events)
    return inserted and len(levels) == len(events) and len(events) >= (2 if first else _SNAPSHOT_ROWS)


def _dollars(price: Decimal) -> str:
    return f"{price:.4f}" if price == round(price, 4) else f"{price:f}"


def _contracts(size: Decimal) -> str:
    return f"{size:.2f}" if size == round(size, 2) else f"{size:f}"
