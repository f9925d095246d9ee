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
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import orjson

from bellwether.errors import LakeError
from bellwether.files import open_bytes
from bellwether.recordings.books import DOLLAR
from bellwether.recordings.exchange_times import to_nanoseconds
from bellwether.recordings.recording import CapturedMessage
from bellwether.venues.kalshi.stream.frame import DELTA, REFERENCE, SNAPSHOT, TRADE
from bellwether.venues.wire.times import parse_instant

#: Instrument whose rows are prices of the underlying, and its name in the output.
UNDERLYING, UNDERLYING_NAME = "0", "SPX"
_COLUMNS = ("Time", "Operation", "OrderId", "Instrument", "Side", "Volume", "Price")
_SIDES = {"B": "yes", "A": "no"}
_BOOKS, _TRADES = 1, 2
#: Minimum of levels at one instant that are a snapshot; two changes may share a microsecond.
_SNAPSHOT_ROWS = 3


class _Order(NamedTuple):
    """Row of a list about an order: its id, side of the bid, its price in $0.0001, and lots (hundredths of a contract)."""

    is_insert: bool
    order: str
    side: str
    price: int
    lots: int


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
    builder = _MessageBuilder(name)
    for (at, instrument), rows in groupby(_read_rows(path), key=itemgetter(0, 1)):
        content = [row for _, _, row in rows]
        yield from builder.underlying(at, content) if instrument == UNDERLYING else builder.take(at, instrument, content)


def _read_rows(path: Path) -> Iterator[tuple[int, str, Any]]:
    """Yield time (ns UTC), instrument, and the order or the price of the underlying of each row."""
    try:
        with _open_text(path) as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                if any(row.values()):
                    yield _parse_row(path, number, row)
    except (EOFError, gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
        raise LakeError(f"importing {path}: the file is truncated or damaged ({error}); copy it again") from None


def _parse_row(path: Path, number: int, row: dict[str, Any]) -> tuple[int, str, Any]:
    def refuse(column: str, wanted: str) -> LakeError:
        return LakeError(f"importing {path}: row {number} has {column} {row.get(column)!r}; {wanted}")

    moment, price, contracts = parse_instant(row["Time"]), _parse_number(row["Price"]), _parse_number(row["Volume"])
    if moment is None:
        raise refuse("Time", "give an ISO time with its zone")
    at = to_nanoseconds(moment)
    if price is None:
        raise refuse("Price", "give a number")
    if row["Instrument"] == UNDERLYING:
        return at, UNDERLYING, price
    if row["Operation"] not in ("Insert", "Cancel"):
        raise refuse("Operation", "only Insert and Cancel are supported")
    if row["Side"] not in _SIDES:
        raise refuse("Side", "give A or B")
    if price != int(price):
        raise refuse("Price", "give whole hundredths of a cent")
    if contracts is None or contracts < 0 or 100 * contracts != int(100 * contracts):
        raise refuse("Volume", "give contracts in whole hundredths")
    side = _SIDES[row["Side"]]
    bid = int(price) if side == "yes" else DOLLAR - int(price)
    return at, row["Instrument"], _Order(row["Operation"] == "Insert", row["OrderId"], side, bid, int(100 * contracts))


def _parse_number(text: str | None) -> Decimal | None:
    try:
        number = Decimal(text or "")
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


class _MessageBuilder:
    """Builder of numbered messages, which tracks the displayed books, {(side, price): lots}, to distinguish fills from new orders."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._connection = 1
        self._seqs = {_BOOKS: 0, _TRADES: 0}
        self._books: dict[str, dict[tuple[str, int], int]] = {}

    def underlying(self, at: int, prices: list[Decimal]) -> Iterator[CapturedMessage]:
        """Yield the messages for prices of the underlying at one instant."""
        for price in prices:
            body = {"name": UNDERLYING_NAME, "value": f"{price:f}"}
            yield CapturedMessage(at, self._connection, orjson.dumps({"type": REFERENCE, "msg": body}))

    def take(self, at: int, instrument: str, orders: list[_Order]) -> Iterator[CapturedMessage]:
        """Yield the messages for one instrument's orders of one instant."""
        ticker, is_first = f"{self._name}-{instrument}", instrument not in self._books
        book = self._books.setdefault(instrument, {})
        if _is_snapshot(orders, least=2 if is_first else _SNAPSHOT_ROWS):
            if not is_first:
                # The subscription restarted, and the messages in between are unknown.
                self._connection += 1
                self._seqs = {_BOOKS: 0, _TRADES: 0}
            book.clear()
            book.update({(order.side, order.price): order.lots for order in orders})
            yield self._snapshot(at, ticker, book)
            return
        if is_first:
            yield self._snapshot(at, ticker, {})
        for order in orders:
            passive = "no" if order.side == "yes" else "yes", DOLLAR - order.price
            if order.is_insert and book.get(passive, 0) >= order.lots > 0:
                yield self._delta(at, ticker, book, passive, -order.lots)
                yield self._trade(at, ticker, order)
            else:
                yield self._delta(at, ticker, book, (order.side, order.price), order.lots if order.is_insert else -order.lots)

    def _snapshot(self, at: int, ticker: str, book: dict[tuple[str, int], int]) -> CapturedMessage:
        levels = {
            f"{side}_dollars_fp": [[_dollars(price), _contracts(lots)] for (_, price), lots in own]
            for side in ("yes", "no")
            if (own := sorted(level for level in book.items() if level[0][0] == side))
        }
        return self._message(at, SNAPSHOT, _BOOKS, {"market_ticker": ticker, **levels})

    def _delta(self, at: int, ticker: str, book: dict[tuple[str, int], int], level: tuple[str, int], by: int) -> CapturedMessage:
        book[level] = max(0, book.get(level, 0) + by)
        body = {"market_ticker": ticker, "price_dollars": _dollars(level[1]), "delta_fp": _contracts(by), "side": level[0]}
        return self._message(at, DELTA, _BOOKS, body)

    def _trade(self, at: int, ticker: str, order: _Order) -> CapturedMessage:
        yes = order.price if order.side == "yes" else DOLLAR - order.price
        body = {
            "trade_id": f"{ticker}-{order.order}",
            "market_ticker": ticker,
            "yes_price_dollars": _dollars(yes),
            "no_price_dollars": _dollars(DOLLAR - yes),
            "count_fp": _contracts(order.lots),
            "taker_side": order.side,
        }
        return self._message(at, TRADE, _TRADES, body)

    def _message(self, at: int, kind: str, sid: int, body: dict[str, Any]) -> CapturedMessage:
        self._seqs[sid] += 1
        return CapturedMessage(at, self._connection, orjson.dumps({"type": kind, "sid": sid, "seq": self._seqs[sid], "msg": body}))


def _is_snapshot(orders: list[_Order], *, least: int) -> bool:
    """Return True if the orders of one instant are a snapshot: at least so many inserts at different levels."""
    levels = {(order.side, order.price) for order in orders}
    return all(order.is_insert for order in orders) and len(levels) == len(orders) >= least


def _dollars(price: int) -> str:
    return f"{price / DOLLAR:.4f}"


def _contracts(lots: int) -> str:
    return f"{lots / 100:.2f}"
