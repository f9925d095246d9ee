"""Validation of agents' arguments: prices, sizes, words, times and ids become integers, or raise `OrderError` with their value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from operator import index
from typing import Any, SupportsIndex

import numpy as np

from bellwether.replay.agents.interface import LONGEST_TAG, REQUEST_COLUMNS
from bellwether.replay.agents.limits import OrderError
from bellwether.replay.engine.codes import Tif
from bellwether.replay.units import BUY, NO, SELL, YES
from bellwether.units import CentiCents, Lots

SIDES = {"yes": YES, "no": NO}
ACTIONS = {"buy": BUY, "sell": SELL}
TIFS = {tif.name.lower(): int(tif) for tif in Tif}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GTC = int(Tif.GTC)
_LARGEST = 2**62


def requests(ticker: Any, side: Any, action: Any, price: Any, lots: Any, tif: Any = _GTC, expires: Any = 0) -> np.ndarray:  # noqa: PLR0917
    """Requests for `AgentContext.place_many`, int64[n, 7], of integers and integer arrays of one length. Raises `OrderError` for other types."""
    values = (ticker, side, action, price, lots, tif, expires)
    lengths = {len(value) for value in values if isinstance(value, np.ndarray)}
    if len(lengths) > 1:
        raise OrderError(
            f"placing orders: the columns have {' and '.join(map(str, sorted(lengths)))} rows; they have the same number, or are one value"
        )
    rows = np.empty((lengths.pop() if lengths else 1, len(values)), np.int64)
    for column, (name, value) in enumerate(zip(REQUEST_COLUMNS, values, strict=True)):
        if isinstance(value, np.ndarray) and value.dtype.kind not in "iu":
            raise OrderError(f"placing orders: {name} is {value.dtype}; it is an integer")
        rows[:, column] = value if isinstance(value, np.ndarray) else integer(value, name)
    return rows


def integer(value: Any, name: str) -> int:
    """A whole number below 2^62 in absolute value."""
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


def price_of(value: Any) -> CentiCents:
    """A limit, not 0."""
    price: Any = integer(value, "price")
    if price == 0:
        raise OrderError("price is 0; a market order has the price None")
    return price


def lots_of(value: Any) -> Lots:
    """A size in lots, 1 or more."""
    lots: Any = integer(value, "lots")
    if lots < 1:
        raise OrderError(f"lots is {lots}; it is 1 or more")
    return lots


def tag_of(value: Any) -> str:
    """A tag: at most `LONGEST_TAG` printable characters."""
    if type(value) is not str or len(value) > LONGEST_TAG or not value.isprintable():
        raise OrderError(f"tag is {value!r:.80}; it is a text of at most {LONGEST_TAG} printable characters")
    return value


def choice(value: int | str, words: Mapping[str, int], name: str) -> int:
    """The code that a word or a code names."""
    if type(value) is int and 0 <= value < len(words):
        return value
    if isinstance(value, str) and (found := words.get(value.lower())) is not None:
        return found
    if not isinstance(value, str | bool) and hasattr(value, "__index__") and 0 <= index(value) < len(words):
        return index(value)
    raise OrderError(f"{name} is {value!r:.60}; it is one of {', '.join(word.upper() for word in words)}")


def instant(time: int | datetime | None, name: str) -> int:
    """A time as ns UTC, 0 for None."""
    if time is None:
        return 0
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise OrderError(f"{name} is {time}, which has no zone; give an aware time or ns UTC")
        since = time - EPOCH
        return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
    return integer(time, name)


def ids_of(orders: np.ndarray | Iterable[SupportsIndex]) -> np.ndarray:
    """int64[n]: ids of orders."""
    if isinstance(orders, np.ndarray):
        if orders.dtype != np.int64 or orders.ndim != 1:
            raise OrderError(f"cancelling orders: found {orders.dtype}{list(orders.shape)}; ids are int64[n]")
        return np.ascontiguousarray(orders)
    return np.array([integer(order, "order") for order in orders], np.int64)
