"""Reading of book and trade frames of a recording, with prices in $0.0001 and sizes in lots, and the form of its NO prices.

A *body* is the content (`msg`) of a frame's message, a *delta* the change of one level. Values that cannot be stored exactly are errors.
Levels of NO are bids, which some recordings state in prices of YES: a dollar less the price of NO. Trades are never applied to a book,
because the stream also sends the change of the level as a delta.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from bellwether.errors import SchemaError
from bellwether.recordings.exchange_times import parse_time, read_exchange_time
from bellwether.units import CentiCents, Lots
from bellwether.venues.kalshi.stream.frame import DELTA, SNAPSHOT, TRADE, Frame, parse_message, read_body, read_ticker

#: A dollar and a cent in $0.0001, and the maximum size of a level in lots.
DOLLAR, CENT, MAX_LOTS = 10_000, 100, 2**31 - 1
SIDES = ("yes", "no")
_OUTCOMES = {"yes": 0, "no": 1, "bid": 0, "ask": 1}
#: Suffixes of the fields of a snapshot's sides, the current one first.
_SUFFIXES = ("_dollars_fp", "_dollars", "")
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
    """Reader of the frames of one recording. Raises `UnusableFrame`, which names the recording, for an invalid value.

    yes_prices: NO levels of streamed books are in prices of YES; those of polled books never are. Levels are returned in prices of their side.
    """

    def __init__(self, recording: str, *, yes_prices: bool = False) -> None:
        self._recording, self._yes_prices = recording, yes_prices

    def build_error(self, frame: Frame, field: str, value: object, wanted: str) -> UnusableFrame:
        """Build the error for an invalid field of a frame. wanted: description of the valid values."""
        return UnusableFrame(self._recording, f"frame {frame.ordinal} has {field} {value!r:.80}; {wanted}")

    def read_levels(self, frame: Frame, body: dict[str, Any]) -> Levels:
        """Read both sides' levels, {price: lots}, from the body of a snapshot. Levels without contracts are omitted."""
        yes, no = self.read_polled_levels(frame, body)
        return yes, {DOLLAR - price: lots for price, lots in no.items()} if self._yes_prices else no

    def read_polled_levels(self, frame: Frame, body: dict[str, Any]) -> Levels:
        """Read both sides' levels, {price: lots}, from the body of a polled book. Levels without contracts are omitted."""
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
        if side == "no" and self._yes_prices:
            price = CentiCents(DOLLAR - price)
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


def has_yes_prices(frames: Iterable[Frame], *, flag: bool | None = None) -> bool:
    """Return True if the NO levels of a recording's books are in prices of YES.

    The first snapshot decides that is crossed in one form only, else trades: a taker of YES hits a level of NO. See
    https://docs.kalshi.com/getting_started/order_direction.

    Args:
        frames: frames of the recording in order of arrival.
        flag: `use_yes_price` of the subscription, if known. It counts last, because the venue will ignore it.
    """
    reader = FrameReader("")
    #: Prices of NO levels by market, as stated.
    stated: dict[str, set[int]] = {}
    fitting = 0
    for frame in frames:
        message = parse_message(frame.data)
        kind, body = message.get("type"), read_body(message)
        ticker = read_ticker(body)
        if ticker is None or kind not in (SNAPSHOT, DELTA, TRADE):
            continue
        prices = stated.setdefault(ticker, set())
        with suppress(UnusableFrame):
            if kind == SNAPSHOT:
                yes, no = reader.read_levels(frame, body)
                is_crossed = bool(yes and no) and max(yes) + max(no) >= DOLLAR
                if is_crossed != (bool(yes and no) and max(yes) >= min(no)):
                    return is_crossed
                prices.update(no)
            elif kind == DELTA and body.get("side") == "no":
                prices.add(reader.read_change(frame, body)[1])
            elif kind == TRADE and (trade := reader.read_trade(frame, body)) is not None and not trade.side:
                fitting += (trade.price in prices) - (DOLLAR - trade.price in prices)
    return fitting > 0 if fitting else bool(flag)
