"""What a fill costs, in micro-dollars, as plain integer arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

FREE, QUADRATIC, FLOAT = 0, 1, 2
#: Kind -> (power of price x (1 - price), power of the price).
POLYMARKET = {3: (1, 0), 4: (2, 0), 5: (1, 1), 6: (2, 1)}


@cache
def trade_fee(kind: int, num: int, den: int, unit: int, price: int, lots: int) -> int:
    """Before the account's rounding. price: mills of the side as booked."""
    if kind == FREE:
        return 0
    if kind == FLOAT:
        cents = price / 10
        return math.ceil(num / den * (lots / 100) * (cents / 100.0) * (1 - cents / 100.0) * 100) * 10_000
    w = price * (1000 - price)
    if kind == QUADRATIC:
        return -(-num * lots * w // (den * unit)) * unit
    power, by_price = POLYMARKET[kind]
    value = num * lots * w**power * price**by_price
    if value < unit * den:
        return 0
    return (2 * value + unit * den) // (2 * unit * den) * unit


def maker_terms(row: Sequence[int]) -> tuple[int, int, int]:
    """(kind, num, den) of a row of the tape's fees."""
    return row[3], row[4], row[5]


def taker_terms(row: Sequence[int]) -> tuple[int, int, int]:
    """(kind, num, den) of a row of the tape's fees."""
    return row[0], row[1], row[2]


def rounded(fee: int, revenue: int, accumulated: int, rules: Any) -> tuple[int, int]:
    """(fee, accumulator) after the account's rounding of one fill, whose revenue is what it brings before fees."""
    unit = rules.balance_unit
    if unit == 0:
        return fee, accumulated
    change = revenue - fee
    rounding = change - change // unit * unit
    accumulated += rounding
    due = (accumulated - 1 if rules.rebate_above else accumulated) // rules.rebate_unit
    rebate = rules.rebate_unit * min(max(due, 0), (fee + rounding) // rules.rebate_unit)
    return fee + rounding - rebate, accumulated - rebate
