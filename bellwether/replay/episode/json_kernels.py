"""Compiled reading of book levels written as plain JSON: `[{"price_cents": 45, "size": 100}, …]`."""

from __future__ import annotations

import numpy as np
from numba import njit

_PRICE, _PRICE_CENTS, _PRICE_MILLS, _SIZE, _LOTS = range(5)


@njit(cache=True, nogil=True)
def _skip(text: np.ndarray, at: int, end: int) -> int:
    while at < end and (text[at] == 32 or text[at] == 9 or text[at] == 10 or text[at] == 13):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _key(text: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """(key, position behind its colon) of `"key" :` at `at`; key -1 for one that is none of the known."""
    if at >= end or text[at] != 34:
        return -1, at
    start = at + 1
    at = start
    while at < end and text[at] != 34:
        at += 1
    length, key = at - start, -1
    if length == 4:
        key = _SIZE if text[start] == 115 and text[start + 1] == 105 and text[start + 2] == 122 and text[start + 3] == 101 else -1
        if text[start] == 108 and text[start + 1] == 111 and text[start + 2] == 116 and text[start + 3] == 115:
            key = _LOTS
    elif length in (5, 11) and text[start] == 112 and text[start + 1] == 114 and text[start + 2] == 105 and text[start + 4] == 101:
        key = _PRICE
        if length == 11:
            key = _PRICE_CENTS if text[start + 6] == 99 and text[start + 10] == 115 else -1
            if text[start + 6] == 109 and text[start + 10] == 115:
                key = _PRICE_MILLS
    at = _skip(text, at + 1, end)
    if at >= end or text[at] != 58:
        return -1, at
    return key, _skip(text, at + 1, end)


@njit(cache=True, nogil=True)
def _number(text: np.ndarray, at: int, end: int) -> tuple[bool, int, int, int]:
    """(fine, digits as one integer, digits behind the point or -1, position behind) of a plain number."""
    negative = at < end and text[at] == 45
    at += 1 if negative else 0
    first, value, decimals = at, 0, -1
    while at < end and (48 <= text[at] <= 57 or (text[at] == 46 and decimals < 0)):
        if text[at] == 46:
            decimals = 0
        else:
            value = 10 * value + text[at] - 48
            decimals += 1 if decimals >= 0 else 0
        at += 1
    fine = at > first and at - first <= 17 and not (at < end and (text[at] == 101 or text[at] == 69))
    return fine, -value if negative else value, decimals, at


@njit(cache=True, nogil=True)
def _mills(key: int, value: int, decimals: int) -> tuple[bool, int]:
    """A price in mills; a decimal fraction below 1 is dollars, rounded to cents as the original does."""
    if decimals < 0:
        return True, value * (1 if key == _PRICE_MILLS else 10)
    number = value / 10.0**decimals
    if key == _PRICE and number < 1:
        return True, int(np.round(100 * number)) * 10
    return number == np.floor(number), int(number) * (1 if key == _PRICE_MILLS else 10)


@njit(cache=True, nogil=True)
def _lots(key: int, value: int, decimals: int) -> tuple[bool, int]:
    unit = 1 if key == _LOTS else 100
    scale = 10 ** max(decimals, 0)
    return value * unit % scale == 0, value * unit // scale


@njit(cache=True, nogil=True)
def scan(text: np.ndarray, starts: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """(offsets, mills, lots, rows read) of rows of plain JSON; it stops at the first row that it cannot read."""
    n = len(starts) - 1
    offsets, prices, sizes = np.zeros(n + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    size = 0
    for row in range(n):
        at, end = _skip(text, starts[row], starts[row + 1]), starts[row + 1]
        if at >= end or text[at] != 91:
            return offsets, prices, sizes, row
        at = _skip(text, at + 1, end)
        while at < end and text[at] == 123:
            found, price, number = 0, 0, 0
            at = _skip(text, at + 1, end)
            while True:
                key, at = _key(text, at, end)
                fine, value, decimals, at = _number(text, at, end)
                if key < 0 or not fine:
                    return offsets, prices, sizes, row
                if key <= _PRICE_MILLS:
                    fine, price = _mills(key, value, decimals)
                    found += 1
                else:
                    fine, number = _lots(key, value, decimals)
                    found += 10
                at = _skip(text, at, end)
                if not fine or at >= end:
                    return offsets, prices, sizes, row
                if text[at] != 44:
                    break
                at = _skip(text, at + 1, end)
            if found != 11 or text[at] != 125:
                return offsets, prices, sizes, row
            prices[size], sizes[size] = price, number
            size += 1
            at = _skip(text, at + 1, end)
            if at < end and text[at] == 44:
                at = _skip(text, at + 1, end)
                if at >= end or text[at] != 123:
                    return offsets, prices, sizes, row
        if at >= end or text[at] != 93 or _skip(text, at + 1, end) != end:
            return offsets, prices, sizes, row
        offsets[row + 1] = size
    return offsets, prices[:size], sizes[:size], n
