"""Validation of the arguments of `AgentContext`: prices, sizes, times, order ids, and names such as buy become integers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from operator import index
from typing import Any

import numpy as np

from bellwether.errors import OrderError
from bellwether.recordings.exchange_times import to_nanoseconds
from bellwether.replay.engine.codes import Tif
from bellwether.replay.units import BUY, NO, SELL, YES
from bellwether.units import CentiCents, Lots

SIDES = {"yes": YES, "no": NO}
ACTIONS = {"buy": BUY, "sell": SELL}
TIFS = {tif.name.lower(): int(tif) for tif in Tif}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Maximum length of an order's tag, characters.
LONGEST_TAG = 64
_LARGEST = 2**62


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
