"""Reading of book and trade frames of a recording, with prices in $0.0001 and sizes in lots, and the form of its NO prices.

A *body* is the content (`msg`) of a frame's message, a *delta* the change of one level. Values that cannot be stored exactly are errors.
Levels of NO are bids, which some recordings state in prices of YES: a dollar less the price of NO. Trades are never applied to a book,
because the stream also sends the change of the level as a delta.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, NamedTuple

from bellwether.errors import SchemaError
from bellwether.recordings.exchange_times import parse_time, read_exchange_time
from bellwether.units import CentiCents, Lots
from bellwether.venues.kalshi.stream.frame import DELTA, SNAPSHOT, TRADE, Frame, parse_message, read_body, read_envelope, read_ticker

#: A dollar and a cent in $0.0001, and the maximum size of a level in lots.
DOLLAR, CENT, MAX_LOTS = 10_000, 100, 2**31 - 1
SIDES = ("yes", "no")
_OUTCOMES = {"yes": 0, "no": 1, "bid": 0, "ask": 1}
#: Suffixes of the fields of a snapshot's sides, the current one first.
_SUFFIXES = ("_dollars_fp", "_dollars", "")
#: Amount of evidence at which the remaining frames are not read.
_ENOUGH = 5
_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.([0-9]+))?")

#: A book: lots by price ($0.0001), of YES and of NO.
Levels = tuple[dict[int, int], dict[int, int]]


class MalformedFrame(ValueError):
    """Error for a number in a frame that is invalid or too fine. Its message states the value."""


def scale_decimal(value: Any, digits: int) -> int:
    """Convert a decimal text or an integer to units of 10**-digits, exactly. Raises `MalformedFrame` for any other value."""
    if type(value) not in (str, int):
        raise MalformedFrame(f"{value!r} is not a decimal number")
    return _scale_text(str(value), digits)


@lru_cache(maxsize=1 << 16)
def _scale_text(text: str, digits: int) -> int:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise MalformedFrame(f"{text!r} is not a decimal number")
    whole, fraction = match[1], (match[2] or "").rstrip("0")
    if len(fraction) > digits:
        raise MalformedFrame(f"{text!r} is finer than {digits} decimals")
    return int(whole + fraction.ljust(digits, "0"))


class Trade(NamedTuple):
    """Trade of a recording.

    side: outcome that the taker bought, 0 yes, 1 no. price: price of YES. at: time in ns UTC, if the frame contains it.
    """

    trade_id: str
    ticker: str
    side: int
    price: CentiCents
    lots: Lots
    at: int | None


class UnusableFrame(SchemaError):
    """Error for a frame that cannot be read or stored exactly. problem: the frame, its field and value, and the valid values."""

    def __init__(self, recording: str, problem: str) -> None:
        self.problem = problem
        super().__init__(f"building an episode from {recording}: {problem}")


class FrameReader:
    """Reader of the frames of one recording. Raises `UnusableFrame`, which names the recording, for an invalid value."""

    def __init__(self, recording: str) -> None:
        self._recording = recording

    def build_error(self, frame: Frame, field: str, value: object, wanted: str) -> UnusableFrame:
        """Build the error for an invalid field of a frame. wanted: description of the valid values."""
        return UnusableFrame(self._recording, f"frame {frame.ordinal} has {field} {value!r:.80}; {wanted}")

    def read_levels(self, frame: Frame, body: dict[str, Any]) -> Levels:
        """Read both sides' levels, {price: lots}, from the body of a snapshot or of a polled book. Levels without contracts are omitted."""
        return self._read_side(frame, body, "yes"), self._read_side(frame, body, "no")

    def _read_side(self, frame: Frame, body: dict[str, Any], side: str) -> dict[int, int]:
        for suffix in _SUFFIXES:
            field = side + suffix
            rows = body.get(field)
            if rows is None:
                continue
            if not isinstance(rows, list):
                raise self.build_error(frame, field, rows, "it is a list of price levels")
            levels: dict[int, int] = {}
            for level in rows:
                if not isinstance(level, list) or len(level) != 2:
                    raise self.build_error(frame, field, level, "a level is a price and a size")
                price = self._read_price(frame, field, level[0])
                lots = self._read_size(frame, field, level[1])
                if lots < 0 or price in levels:
                    raise self.build_error(frame, field, level, "a size is not negative, and each price appears once")
                if lots:
                    levels[price] = lots
            return levels
        return {}

    def read_change(self, frame: Frame, body: dict[str, Any]) -> tuple[int, CentiCents, Lots]:
        """Read the body of a delta. Returns side (0 yes, 1 no), price and change of size."""
        side = body.get("side")
        if side not in SIDES:
            raise self.build_error(frame, "side", side, "it is yes or no")
        field = "price_dollars" if "price_dollars" in body else "price"
        price = self._read_price(frame, field, body.get(field))
        field = "delta_fp" if "delta_fp" in body else "delta"
        return SIDES.index(side), price, self._read_size(frame, field, body.get(field))

    def read_trade(self, frame: Frame, body: dict[str, Any]) -> Trade | None:
        """Read a trade. None for a block trade or a trade without a taker, neither of which trades with the book."""
        ticker = body.get("market_ticker", body.get("ticker"))
        if type(ticker) is not str:
            raise self.build_error(frame, "market_ticker", ticker, "a trade names its market")
        if body.get("is_block_trade") is True:
            return None
        side = next((taker for name in ("taker_outcome_side", "taker_side", "taker_book_side") if (taker := body.get(name))), None)
        if side is None:
            return None
        if type(side) is not str or side not in _OUTCOMES:
            raise self.build_error(frame, "taker_side", side, "it is yes or no")
        price = self._read_yes_price(frame, body)
        field = "count_fp" if "count_fp" in body else "count"
        lots = self._read_size(frame, field, body.get(field))
        if lots <= 0:
            raise self.build_error(frame, field, body.get(field), "the size of a trade is above 0")
        created = body.get("created_time")
        at = parse_time(created) if type(created) is str else read_exchange_time(body)
        return Trade(str(body.get("trade_id", f"frame {frame.ordinal}")), ticker, _OUTCOMES[side], price, lots, at)

    def _read_yes_price(self, frame: Frame, body: dict[str, Any]) -> CentiCents:
        for field in ("yes_price_dollars", "yes_price", "no_price_dollars", "no_price"):
            if body.get(field) is not None:
                price = self._read_price(frame, field, body[field])
                return price if field.startswith("yes") else CentiCents(DOLLAR - price)
        raise self.build_error(frame, "yes_price_dollars", None, "a trade has a price")

    def _read_price(self, frame: Frame, field: str, value: Any) -> CentiCents:
        try:
            price = _convert_price(field, value)
        except MalformedFrame as error:
            raise self.build_error(frame, field, value, f"a price is dollars in whole hundredths of a cent ({error})") from None
        if not 0 < price < DOLLAR:
            raise self.build_error(frame, field, value, "a price is above 0 and below a dollar")
        return price

    def _read_size(self, frame: Frame, field: str, value: Any) -> Lots:
        try:
            lots = Lots(scale_decimal(value, 2))
        except MalformedFrame as error:
            raise self.build_error(frame, field, value, f"a size is contracts in whole hundredths ({error})") from None
        if abs(lots) > MAX_LOTS:
            raise self.build_error(frame, field, value, f"the maximum at a level is {MAX_LOTS} hundredths of a contract")
        return lots


def _convert_price(field: str, value: Any) -> CentiCents:
    """Convert a price as text in dollars, or in cents if the field does not name dollars. Raises `MalformedFrame`."""
    if "dollars" not in field:
        return CentiCents(scale_decimal(value, 0) * CENT)
    if type(value) is not str:
        raise MalformedFrame(f"{value!r} is not text")
    return CentiCents(scale_decimal(value, 4))


def read_last_price(body: dict[str, Any]) -> CentiCents | None:
    """Read the YES price of the last trade from a ticker message's body. None if the market never traded or the price is invalid."""
    with suppress(MalformedFrame):
        field = "price_dollars" if "price_dollars" in body else "price"
        price = _convert_price(field, body.get(field))
        return price if 0 < price < DOLLAR else None
    return None


def read_polled_books(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (ticker, body of the book) for each book in a polled page, in the newest form that the page contains."""
    books = body.get("orderbooks")
    for book in books if isinstance(books, list) else []:
        if not isinstance(book, dict) or type(book.get("ticker")) is not str:
            continue
        levels = book.get("orderbook_fp") or book.get("orderbook")
        if isinstance(levels, dict):
            yield book["ticker"], levels


def read_polled_trades(body: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Return the trades of a polled page, oldest first."""
    trades = body.get("trades")
    return [trade for trade in reversed(trades) if isinstance(trade, dict)] if isinstance(trades, list) else []


def convert_no_prices(body: dict[str, Any]) -> dict[str, Any]:
    """Convert NO levels in a snapshot's or delta's body from prices of YES to prices of NO. Invalid prices stay unchanged."""
    converted = dict(body)
    for suffix in _SUFFIXES:
        if isinstance(levels := body.get("no" + suffix), list):
            converted["no" + suffix] = [[_complement(row[0]), *row[1:]] if isinstance(row, list) and row else row for row in levels]
    if body.get("side") == "no":
        converted |= {name: _complement(body[name]) for name in ("price_dollars", "price") if name in body}
    return converted


def _complement(price: Any) -> Any:
    """Return a dollar less a price: text in dollars for a text in dollars, integer cents for integer cents."""
    if type(price) is int:
        return DOLLAR // CENT - price
    try:
        return format(1 - Decimal(price), "f") if type(price) is str else price
    except InvalidOperation:
        return price


class BookSide:
    """Bids of one side: size by price, and the best price (0 for an empty side)."""

    __slots__ = ("best", "levels")

    def __init__(self, levels: dict[int, int]) -> None:
        self.levels = levels
        self.best = max(levels, default=0)

    def change(self, price: int, by: int) -> int:
        """Add `by` to the size of a level and return the new size; a level of size 0 is removed."""
        size = self.levels.get(price, 0) + by
        if size:
            self.levels[price] = size
            self.best = max(self.best, price)
            return size
        self.levels.pop(price, None)
        if price == self.best:
            self.best = max(self.levels, default=0)
        return 0


# --- the form of NO prices --------------------------------------------------------------------------------------------


class _PriceEvidence:
    """Evidence that a recording states NO levels in prices of YES: number of books and trades that show it, less those that refute it.

    After a skipped number, the books of a subscription are no evidence until their next snapshots, because a lost change can leave a book
    crossed. In a partial recording, numbers are skipped anyway.
    """

    def __init__(self, *, partial: bool) -> None:
        self.books = self.trades = 0
        self._partial = partial
        self._reader = FrameReader("")
        #: Books by connection, subscription and market, and the last number by connection and subscription.
        self._books: dict[tuple[int, int | None, str], tuple[BookSide, BookSide]] = {}
        self._last: dict[tuple[int, int | None], int] = {}

    def take(self, frame: Frame) -> None:
        """Count what a frame shows about the prices of NO levels; unreadable frames are ignored."""
        message = parse_message(frame.data)
        kind, sid, seq = read_envelope(message)
        body = read_body(message)
        key = (frame.connection, sid, read_ticker(body) or "")
        if seq is not None and not self._partial:
            if seq != self._last.get(key[:2], seq - 1) + 1:
                self._books = {of: book for of, book in self._books.items() if of[:2] != key[:2]}
            self._last[key[:2]] = seq
        with suppress(UnusableFrame):
            if kind == SNAPSHOT:
                yes, no = self._reader.read_levels(frame, body)
                self._books[key] = BookSide(yes), BookSide(no)
            elif kind == DELTA and key in self._books:
                side, price, by = self._reader.read_change(frame, body)
                self._books[key][side].change(price, by)
            elif kind == TRADE and (trade := self._reader.read_trade(frame, body)) is not None and not trade.side:
                self.trades += sum(_trade_evidence(book, trade.price) for (*_, ticker), book in self._books.items() if ticker == key[2])
            if kind in (SNAPSHOT, DELTA) and key in self._books:
                self.books += _book_evidence(*self._books[key])


def _book_evidence(yes: BookSide, no: BookSide) -> int:
    """Return 1 if only reading the NO levels as prices of YES leaves a book uncrossed, -1 if only reading them as prices of NO does.

    Otherwise 0. yes, no: the sides as stated.
    """
    return int(yes.best + no.best >= DOLLAR) - int(min(no.levels) <= yes.best) if yes.best and no.best else 0


def _trade_evidence(book: tuple[BookSide, BookSide], price: int) -> int:
    """Return 1 if a trade shows that a book's NO levels are in prices of YES, -1 if in prices of NO, 0 if neither or both.

    price: that of YES, which a taker bought. Such a taker hit a level of NO, so the book must have a level at this price.
    """
    return int(price in book[1].levels) - int(DOLLAR - price in book[1].levels)


def has_yes_prices(frames: Iterable[Frame], *, flag: bool | None = None, partial: bool = False) -> bool:
    """Return True if the NO levels of a recording's books are in prices of YES.

    In the wrong form a book is crossed, or has no level at the price of a trade (https://docs.kalshi.com/getting_started/order_direction).

    Args:
        frames: frames of the recording in order of arrival.
        flag: `use_yes_price` of the subscription, if known. The books take precedence, because the venue will ignore the flag.
        partial: the recording lacks some of a subscription's markets.
    """
    evidence = _PriceEvidence(partial=partial)
    for frame in frames:
        evidence.take(frame)
        if abs(evidence.books) >= _ENOUGH:
            break
    return (evidence.books or evidence.trades or (1 if flag else -1)) > 0
