"""Order books of a recording in integers: parsed snapshots and deltas, books built from them, and conversion of NO prices.

Prices are millionths of a dollar, sizes hundredths of a contract. A *body* is the content (`msg`) of a message, a *delta* the change of one
level. Levels of NO are bids, which some recordings state in prices of YES: a dollar less the price of NO. Trades are never applied to a
book, because the stream also sends the change of the level as a delta.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from bellwether.units import Lots, MicroDollars
from bellwether.venues.kalshi.stream.frame import DELTA, SNAPSHOT, TRADE, Frame, parse_message, read_body, read_ticker

DOLLAR = 1_000_000
CENT = DOLLAR // 100
_PRICE_DIGITS, _SIZE_DIGITS = 6, 2
#: Amount of evidence at which the remaining frames are not read.
_ENOUGH = 5
_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.([0-9]+))?")


class MalformedFrame(ValueError):
    """Error for a book frame without a valid price, size or side. Its message states the field and the value."""


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


def parse_price(text: Any) -> MicroDollars:
    """Convert dollars as text to millionths of a dollar. Raises `MalformedFrame`."""
    price: Any = scale_decimal(text, _PRICE_DIGITS)
    return price


def parse_size(text: Any) -> Lots:
    """Convert contracts, as text or integer, to hundredths of a contract. Raises `MalformedFrame`."""
    size: Any = scale_decimal(text, _SIZE_DIGITS)
    return size


def _cents(value: Any) -> MicroDollars:
    """Convert whole cents to millionths of a dollar. Raises `MalformedFrame`."""
    return MicroDollars(scale_decimal(value, 0) * CENT)


#: Suffixes of the price fields of snapshots and deltas, the current ones first, with the parser of their prices.
SIDE_FORMS: tuple[tuple[str, Callable[[Any], MicroDollars]], ...] = (("_dollars_fp", parse_price), ("_dollars", parse_price), ("", _cents))


def parse_snapshot_side(body: dict[str, Any], side: str) -> dict[int, int]:
    """Return one side (yes or no) of a snapshot's body as {price of that side: size}; empty if the side is absent or null."""
    for suffix, price in SIDE_FORMS:
        levels = body.get(side + suffix)
        if levels is not None:
            return {price(level[0]): parse_size(level[1]) for level in levels}
    return {}


def parse_delta(body: dict[str, Any]) -> tuple[str, MicroDollars, Lots]:
    """Return side, price and change of size from a delta's body. Raises `MalformedFrame`."""
    side = body.get("side")
    if side not in ("yes", "no"):
        raise MalformedFrame(f"side is {side!r}")
    price = parse_price(body["price_dollars"]) if "price_dollars" in body else _cents(body.get("price"))
    return side, price, parse_size(body["delta_fp"] if "delta_fp" in body else body.get("delta"))


def convert_no_prices(body: dict[str, Any]) -> dict[str, Any]:
    """Convert NO levels in a snapshot's or delta's body from prices of YES to prices of NO. Invalid prices stay unchanged."""
    converted = dict(body)
    for suffix, _ in SIDE_FORMS:
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


class RecordedBook:
    """Book of one market: the bids of both sides, each in prices of its own side."""

    __slots__ = ("no", "yes")

    def __init__(self, yes: dict[int, int], no: dict[int, int]) -> None:
        self.yes = BookSide(yes)
        self.no = BookSide(no)

    @classmethod
    def of(cls, body: dict[str, Any]) -> RecordedBook:
        """Build a book from a snapshot's body. Raises `MalformedFrame`."""
        try:
            return cls(parse_snapshot_side(body, "yes"), parse_snapshot_side(body, "no"))
        except (TypeError, IndexError, KeyError) as error:
            raise MalformedFrame(f"levels are not pairs of price and size ({error})") from None

    def apply(self, body: dict[str, Any]) -> int:
        """Apply a delta's body and return the new size of its level. Raises `MalformedFrame`."""
        side, price, by = parse_delta(body)
        return (self.yes if side == "yes" else self.no).change(price, by)


# --- the form of NO prices --------------------------------------------------------------------------------------------


class _PriceEvidence:
    """Evidence that a recording states NO levels in prices of YES: number of books and trades that show it, less those that refute it."""

    def __init__(self) -> None:
        self.books = self.trades = 0
        self._books: dict[tuple[int, str], RecordedBook] = {}

    def take(self, frame: Frame) -> None:
        """Count what a frame shows about the prices of NO levels; unreadable frames are ignored."""
        message = parse_message(frame.data)
        kind, body = message.get("type"), read_body(message)
        key = (frame.connection, read_ticker(body) or "")
        try:
            if kind == SNAPSHOT:
                self._books[key] = RecordedBook.of(body)
            elif kind == DELTA and key in self._books:
                self._books[key].apply(body)
            elif kind == TRADE:
                self.trades += sum(_trade_evidence(book, body) for (_, ticker), book in self._books.items() if ticker == key[1])
                return
        except MalformedFrame:
            return
        if kind in (SNAPSHOT, DELTA) and key in self._books:
            self.books += _book_evidence(self._books[key])


def _book_evidence(book: RecordedBook) -> int:
    """Return 1 if only reading the NO levels as prices of YES leaves the book uncrossed, -1 if only reading them as prices of NO does, otherwise 0.

    `book` is read as if they were in prices of NO.
    """
    yes, no = book.yes.best, book.no.best
    if not yes or not no:
        return 0
    return int(yes + no >= DOLLAR) - int(min(book.no.levels) <= yes)


def _trade_evidence(book: RecordedBook, body: dict[str, Any]) -> int:
    """Return 1 if a trade shows that a book's NO levels are in prices of YES, -1 if in prices of NO, 0 if neither or both.

    A taker who bought YES hit a level of NO, so the book must have a level at the price of the trade.
    """
    taker = next((side for name in ("taker_outcome_side", "taker_side", "taker_book_side") if (side := body.get(name))), None)
    price = parse_price(body["yes_price_dollars"]) if "yes_price_dollars" in body else None
    if taker not in ("yes", "bid") or price is None:
        return 0
    return int(price in book.no.levels) - int(DOLLAR - price in book.no.levels)


def has_yes_prices(frames: Iterable[Frame], *, flag: bool | None = None) -> bool:
    """Return True if the NO levels of a recording's books are in prices of YES.

    In the wrong form a book is crossed, or has no level at the price of a trade (https://docs.kalshi.com/getting_started/order_direction).

    Args:
        frames: frames of the recording in order of arrival.
        flag: `use_yes_price` of the subscription, if known. The books take precedence, because the venue will ignore the flag.
    """
    evidence = _PriceEvidence()
    for frame in frames:
        evidence.take(frame)
        if abs(evidence.books) >= _ENOUGH:
            break
    return (evidence.books or evidence.trades or (1 if flag else -1)) > 0
