"""Fees of fills in exact integers; `rules.fees` has the same formulas in plain arithmetic.

`market` is a row of the markets with its fee terms, `price` in $0.0001 of the side as booked, `lots` a size. Results are in micro-dollars.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from bellwether.replay.engine.codes import Role
from bellwether.replay.engine.compilation import compiled
from bellwether.replay.rules.fees import (
    BY_SHARES_0,
    BY_SHARES_2,
    BY_SHARES_HALF,
    BY_VALUE,
    BY_VALUE_0,
    BY_VALUE_2,
    BY_VALUE_HALF,
    FREE,
    QUADRATIC,
)
from bellwether.replay.tape.layout import MAKER_KIND, TAKER_KIND, WAIVER_UNTIL
from bellwether.replay.units import DOLLAR

_TAKER, _MAKER = np.int64(Role.TAKER), np.int64(Role.MAKER)
_DIGIT, _MASK = 2**31 - 1, 2**62 - 1
#: Below this, a value times a numerator below 1024 stays below 2^62, with room for a step.
_SMALL = 2**51


@compiled
def trade_fee(market, role, price, lots):
    """Compute the trade fee of a fill, before waivers and before rounding of the account's balance."""
    at = TAKER_KIND if role == _TAKER else MAKER_KIND
    kind, num, den, unit = market.fees[at], market.fees[at + 1], market.fees[at + 2], market.fee_unit
    if kind == FREE:
        return 0
    if kind == QUADRATIC:
        value, step = lots * price * (DOLLAR - price), den * DOLLAR * unit
        if value < _SMALL and num < 1024:
            return (value * num + step - 1) // step * unit
        return (value // step * num + (value % step * num + step - 1) // step) * unit
    return _curve_units(kind, num * lots, den * unit, price) * unit


@compiled
def fill_fee(market, role, action, price, lots, ts, rounding):
    """Compute a fill's whole fee, with waivers and rounding of the balance. Returns the fee and the order's new `rounding`.

    rounding: charges for rounding the order's payments that are not rebated yet.
    """
    fee = 0 if ts < market.fees[WAIVER_UNTIL] else trade_fee(market, role, price, lots)
    unit = market.balance_unit
    if unit == 0:
        return fee, rounding
    change = (price * lots if action == 1 else -price * lots) - fee
    charged = fee + change % unit
    rounding += change % unit
    due = (rounding - 1 if market.rebate_above == 1 else rounding) // market.rebate_unit
    rebate = market.rebate_unit * min(max(due, 0), charged // market.rebate_unit)
    return charged - rebate, rounding - rebate


@compiled
def _curve_units(kind, amount, step, price):
    """Compute a fee on Polymarket's curve as a number of fee units: amount × worth × (w / 10^8)^e / step, rounded half up.

    w = price × (DOLLAR − price). worth: the price by value, DOLLAR by shares. Less than one unit is 0. A float estimate is corrected in
    exact integers.
    """
    w = price * (DOLLAR - price)
    worth = price if kind in (BY_VALUE, BY_VALUE_2, BY_VALUE_0, BY_VALUE_HALF) else DOLLAR
    if kind in (BY_SHARES_HALF, BY_VALUE_HALF):
        right = _product(2 * amount, 2 * amount, worth * worth * w)
        units = int(amount * worth * sqrt(w) / DOLLAR / step + 0.5)
        root, scale = True, DOLLAR * DOLLAR
    else:
        power = 0 if kind in (BY_SHARES_0, BY_VALUE_0) else 2 if kind in (BY_SHARES_2, BY_VALUE_2) else 1
        right = _product(2 * amount, worth, w**power)
        units = int(amount * (worth * (w / (DOLLAR * DOLLAR)) ** power) / step + 0.5)
        root, scale = False, (DOLLAR * DOLLAR) ** power
    if not _covers(right, 2 * step, scale, root):
        return 0
    while not _covers(right, (2 * units - 1) * step, scale, root):
        units -= 1
    while _covers(right, (2 * units + 1) * step, scale, root):
        units += 1
    return units


@compiled
def _covers(right, left, scale, root):
    """Return True if left × scale <= right, or left² × scale <= right if `root`. right: three digits as `_product` returns them."""
    return _product(left, left if root else 1, scale) <= right


@compiled
def _product(a, b, c):
    """Multiply three factors from 0 to 2^62. Returns three digits of base 2^62, most significant first."""
    top, low = _pair(a, b)
    carry, last = _pair(low, c)
    first, second = _pair(top, c)
    second += carry
    return first + (second >> 62), second & _MASK, last


@compiled
def _pair(left, right):
    """Multiply two factors from 0 to 2^62. Returns (product // 2^62, product % 2^62)."""
    a, b, c, d = left >> 31, left & _DIGIT, right >> 31, right & _DIGIT
    low, first, second = b * d, a * d, b * c
    middle = (low >> 31) + (first & _DIGIT) + (second & _DIGIT)
    return a * c + (first >> 31) + (second >> 31) + (middle >> 31), (middle & _DIGIT) << 31 | low & _DIGIT
