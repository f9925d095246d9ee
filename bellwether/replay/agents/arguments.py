"""Validation of the arguments of `AgentContext`: prices, sizes, times, order ids, and names such as buy become integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from operator import index
from typing import Any, SupportsIndex

import numpy as np

from bellwether.errors import OrderError
from bellwether.recordings.exchange_times import to_nanoseconds
from bellwether.replay.agents.port import REQUEST_COLUMNS
from bellwether.replay.engine.codes import Tif
from bellwether.replay.units import BUY, NO, SELL, YES
from bellwether.units import CentiCents, Lots

SIDES = {"yes": YES, "no": NO}
ACTIONS = {"buy": BUY, "sell": SELL}
TIFS = {tif.name.lower(): int(tif) for tif in Tif}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Maximum length of an order's tag, characters.
LONGEST_TAG = 64
_GTC = int(Tif.GTC)
_LARGEST = 2**62


def requests(ticker: Any, side: Any, action: Any, price: Any, lots: Any, tif: Any = _GTC, expires: Any = 0) -> np.ndarray:  # noqa: PLR0917
    """Build the array of orders for `AgentContext.place_many`, int64[n, 7], from integers or arrays of equal length.

    Args:
        ticker: Number of the market: its index in `AgentContext.tickers`.
        side: YES or NO.
        action: BUY or SELL.
        price: Limit price of `side`, $0.0001; 0 for a market order.
        lots: Size, lots of 0.01 contract.
        tif: Code of the time in force.
        expires: Expiry, ns UTC; 0 for never.

    Each argument is an integer or an integer array; all arrays have the same length.

    Raises:
        OrderError: An argument has another type, or the lengths differ.
    """
    values = (ticker, side, action, price, lots, tif, expires)
    lengths = {len(value) for value in values if isinstance(value, np.ndarray)}
    if len(lengths) > 1:
        raise OrderError(
            f"placing orders: the columns have {' and '.join(map(str, sorted(lengths)))} rows; give arrays of equal length, or single values"
        )
    rows = np.empty((lengths.pop() if lengths else 1, len(values)), np.int64)
    for column, (name, value) in enumerate(zip(REQUEST_COLUMNS, values, strict=True)):
        if isinstance(value, np.ndarray) and value.dtype.kind not in "iu":
            raise OrderError(f"placing orders: {name} is {value.dtype}; give integers")
        rows[:, column] = value if isinstance(value, np.ndarray) else to_integer(value, name)
    return rows


def check_codes(requests: np.ndarray) -> None:
    """Check that side, action and time in force of orders (int64[n, 7], from `requests`) are valid codes. Raises `OrderError` naming the
    first invalid order, the field and the value.
    """
    for name, words in (("side", SIDES), ("action", ACTIONS), ("tif", TIFS)):
        values = requests[:, REQUEST_COLUMNS.index(name)]
        wrong = np.flatnonzero((values < 0) | (values >= len(words)))
        if len(wrong):
            codes = ", ".join(f"{word.upper()} ({code})" for word, code in words.items())
            raise OrderError(f"placing orders: {name} of order {wrong[0]} is {values[wrong[0]]}; it is one of {codes}")


def to_integer(value: Any, name: str) -> int:
    """Convert an integer of any type to int. Raises `OrderError` for other types and for absolute values of 2^62 or more. name: of the
    argument, for the error.
    """
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return value
    if isinstance(value, bool | np.bool_):
        raise OrderError(f"{name} is {value!r}; it is an integer")
    try:
        whole = index(value)
    except TypeError:
        raise OrderError(
            f"{name} is {value!r:.60}; it is an integer: prices in $0.0001 (45 * CENT), sizes in lots (10 * CONTRACT)"
        ) from None
    if not -_LARGEST < whole < _LARGEST:
        raise OrderError(f"{name} is {str(whole)[:20]}…; that is too large")
    return whole


def to_price(value: Any) -> CentiCents:
    """Check that a limit price is an integer other than 0, and return it as int. Raises `OrderError` if not."""
    price: Any = to_integer(value, "price")
    if price == 0:
        raise OrderError("price is 0; give a price above 0, or None for a market order")
    return price


def to_lots(value: Any) -> Lots:
    """Check that a size in lots is an integer of at least 1, and return it as int. Raises `OrderError` if not."""
    lots: Any = to_integer(value, "lots")
    if lots < 1:
        raise OrderError(f"lots is {lots}; give 1 or more")
    return lots


def check_tag(value: Any) -> str:
    """Check that a tag (an agent's label for an order) has at most `LONGEST_TAG` printable characters, and return it. Raises `OrderError`
    if not.
    """
    if type(value) is not str or len(value) > LONGEST_TAG or not value.isprintable():
        raise OrderError(f"tag is {value!r:.80}; give a string of at most {LONGEST_TAG} printable characters")
    return value


def to_code(value: int | str, words: Mapping[str, int], name: str) -> int:
    """Convert a name such as buy to its integer code in `words`; a valid code is returned unchanged. Raises `OrderError` for other values.
    name: of the argument, for the error.
    """
    if type(value) is int and 0 <= value < len(words):
        return value
    if isinstance(value, str) and (code := words.get(value.lower())) is not None:
        return code
    if not isinstance(value, str | bool) and hasattr(value, "__index__") and 0 <= index(value) < len(words):
        return index(value)
    raise OrderError(f"{name} is {value!r:.60}; it is one of {', '.join(word.upper() for word in words)}")


def to_ns(time: int | datetime | None, name: str) -> int:
    """Convert a datetime to ns UTC, and None to 0; integers are returned unchanged. Raises `OrderError` for a datetime without a time zone."""
    if time is None:
        return 0
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise OrderError(f"{name} is {time}, without a time zone; give a timezone-aware datetime or ns UTC")
        return to_nanoseconds(time)
    return to_integer(time, name)


def to_ids(orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
    """Convert orders or order ids to an array of ids, int64[n]. Raises `OrderError` for values that are not integers, and for an array of
    another type.
    """
    if isinstance(orders, np.ndarray):
        if orders.dtype != np.int64 or orders.ndim != 1:
            raise OrderError(f"reading order ids: found {orders.dtype}{list(orders.shape)}; give int64[n]")
        return np.ascontiguousarray(orders)
    return np.array([to_integer(order, "order") for order in orders], np.int64)
