"""Reading of book and trade frames, with prices in $0.0001 and sizes in lots. Values that cannot be stored exactly are errors.

A *body* is the content (`msg`) of a frame's message, a *delta* the change of one level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from bellwether.errors import SchemaError
from bellwether.recordings.books import SIDE_FORMS, MalformedFrame, parse_price, parse_size, scale_decimal
from bellwether.recordings.exchange_times import SECOND, parse_time, read_exchange_time
from bellwether.replay.units import CENT, DOLLAR, MAX_LOTS
from bellwether.units import CentiCents, Lots
from bellwether.venues.kalshi.stream.frame import Frame
from bellwether.venues.wire.times import END_SECOND

#: Number of millionths of a dollar, the unit of recorded prices, in $0.0001.
_UNIT = 100
SIDES = ("yes", "no")
_OUTCOMES = {"yes": 0, "no": 1, "bid": 0, "ask": 1}

#: A book: lots by price ($0.0001), of YES and of NO.
Levels = tuple[dict[int, int], dict[int, int]]


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
        for suffix, _ in SIDE_FORMS:
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
            price = _convert_dollars(value) if "dollars" in field else _convert_cents(value)
        except MalformedFrame as error:
            raise self.build_error(frame, field, value, f"a price is dollars in whole hundredths of a cent ({error})") from None
        if not 0 < price < DOLLAR:
            raise self.build_error(frame, field, value, "a price is above 0 and below a dollar")
        return price

    def _read_size(self, frame: Frame, field: str, value: Any) -> Lots:
        try:
            lots = parse_size(value)
        except MalformedFrame as error:
            raise self.build_error(frame, field, value, f"a size is contracts in whole hundredths ({error})") from None
        if abs(lots) > MAX_LOTS:
            raise self.build_error(frame, field, value, f"the maximum at a level is {MAX_LOTS} hundredths of a contract")
        return lots


def _convert_cents(value: Any) -> CentiCents:
    return CentiCents(scale_decimal(value, 0) * CENT)


def _convert_dollars(value: Any) -> CentiCents:
    if type(value) is not str:
        raise MalformedFrame(f"{value!r} is not text")
    return _convert_price(value)


@lru_cache(maxsize=4096)
def _convert_price(text: str) -> CentiCents:
    price, rest = divmod(parse_price(text), _UNIT)
    if rest:
        raise MalformedFrame("it is finer")
    return CentiCents(price)


def read_last_price(body: dict[str, Any]) -> CentiCents | None:
    """Read the YES price of the last trade from a ticker message's body. None if the market never traded or the price is invalid."""
    with suppress(MalformedFrame):
        price = _convert_dollars(body["price_dollars"]) if "price_dollars" in body else _convert_cents(body.get("price"))
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


def to_nanoseconds(value: Any) -> int | None:
    """Convert whole seconds since 1970 to nanoseconds. None if invalid."""
    return value * SECOND if type(value) is int and 0 < value < END_SECOND else None


def parse_moment(value: Any) -> int | None:
    """Parse a time to nanoseconds since 1970. None if invalid."""
    return parse_time(value) if type(value) is str else None
