"""Fees of fills in micro-dollars, by plain integer arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

FREE, QUADRATIC = 0, 1
#: Kind -> (power of price × (1 − price), whether the fee is a share of the value).
POLYMARKET = {2: (1, False), 3: (2, False), 4: (1, True), 5: (2, True)}
DOLLAR = 10_000


@cache
def trade_fee(kind: int, num: int, den: int, unit: int, price: int, lots: int) -> int:
    """Return the fee before the account's rounding. price: $0.0001 of the side as booked."""
    if kind == FREE:
        return 0
    exact = exact_fee(kind, num, den, price, lots) / unit
    if kind == QUADRATIC:
        return math.ceil(exact) * unit
    return math.floor(exact + Fraction(1, 2)) * unit if exact >= 1 else 0


def exact_fee(kind: int, num: int, den: int, price: int, lots: int) -> Fraction:
    """Return micro-dollars before any rounding. num / den is the rate."""
    if kind == FREE:
        return Fraction(0)
    power, by_value = POLYMARKET.get(kind, (1, False))
    return Fraction(num * lots * (price if by_value else DOLLAR) * (price * (DOLLAR - price)) ** power, den * DOLLAR ** (2 * power))


def maker_terms(row: Sequence[int]) -> tuple[int, int, int]:
    """Return (kind, num, den) of a row of the tape's fees."""
    return row[3], row[4], row[5]


def taker_terms(row: Sequence[int]) -> tuple[int, int, int]:
    """Return (kind, num, den) of a row of the tape's fees."""
    return row[0], row[1], row[2]


def rounded(fee: int, revenue: int, accumulated: int, rules: Any) -> tuple[int, int]:
    """Return (fee, accumulator) after the account's rounding of one fill. `revenue`: its proceeds before fees."""
    unit = rules.balance_unit
    if unit == 0:
        return fee, accumulated
    change = revenue - fee
    rounding = change - change // unit * unit
    accumulated += rounding
    due = (accumulated - 1 if rules.rebate_above else accumulated) // rules.rebate_unit
    rebate = rules.rebate_unit * min(max(due, 0), (fee + rounding) // rules.rebate_unit)
    return fee + rounding - rebate, accumulated - rebate
