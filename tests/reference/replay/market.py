"""The visible state of one ticker, and own orders in its queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import floor

from tests.reference.replay.orders import Order


@dataclass
class Market:
    """One ticker. recorded, displayed: [side], price -> lots. `displayed` is the recording less the main account's own consumption.

    queues: [bid side], own orders in price-time priority.
    """

    recorded: list[dict[int, int]] = field(default_factory=lambda: [{}, {}])
    displayed: list[dict[int, int]] = field(default_factory=lambda: [{}, {}])
    queues: tuple[list[Order], list[Order]] = field(default_factory=lambda: ([], []))
    has_book: bool = False
    valid: bool = True
    halted: bool = False
    closed: bool = False
    settled: bool = False
    raised: bool = False

    def best(self, side: int) -> int:
        """Return the best displayed bid of a side, or 0."""
        return max(self.displayed[side], default=0)

    def shown(self, side: int, price: int) -> int:
        return self.displayed[side].get(price, 0)

    def consume(self, side: int, price: int, lots: int) -> None:
        """Reduce the display of a level until the recording changes it."""
        put(self.displayed[side], price, self.shown(side, price) - lots)

    def join(self, order: Order, *, behind_own: bool) -> None:
        """Rest an order behind the display of its level, and behind own orders there."""
        queue = self.queues[order.bid_side]
        here = [other for other in queue if other.bid == order.bid]
        order.ahead = here[0].ahead if here and behind_own else self.shown(order.bid_side, order.bid)
        queue.insert(sum(other.bid >= order.bid for other in queue), order)

    def level(self, side: int, price: int, lots: int, *, by_prints: bool, queue_model: str, exponent: int = 3) -> None:
        """Apply a change of a level to the book and to the queue positions of own orders."""
        before = self.recorded[side].get(price, 0)
        self.has_book = True
        self.raised = self.raised or (lots > 0 and price > self.best(side))
        put(self.recorded[side], price, lots)
        put(self.displayed[side], price, lots)
        here = [order for order in self.queues[side] if order.bid == price] if self.valid else ()
        for order in here:
            order.ahead = ahead_after(queue_model, order.ahead, before, lots, by_prints=by_prints, exponent=exponent)

    def valid_again(self, *, queue_model: str) -> None:
        self.valid = self.raised = True
        if queue_model == "trade_only":
            return
        for side in (0, 1):
            for order in self.queues[side]:
                order.ahead = min(order.ahead, self.shown(side, order.bid))


def put(levels: dict[int, int], price: int, lots: int) -> None:
    """Set a level, or remove it if it is empty."""
    if lots:
        levels[price] = lots
    else:
        levels.pop(price, None)


def ahead_after(model: str, ahead: int, before: int, lots: int, *, by_prints: bool, exponent: int = 3) -> int:
    """Return the lots ahead of an order once its level shows `lots` instead of `before`."""
    if model == "trade_only":
        return ahead
    if by_prints or model == "reconciled":
        return min(ahead, lots)
    cut = max(0, before - lots)
    if model == "optimistic":
        return max(0, min(ahead - cut, lots))
    behind = max(0, before - ahead)
    if model in ("power", "log"):
        front, back = (power(ahead, behind, exponent), power(behind, ahead, exponent)) if model == "power" else (log(ahead), log(behind))
        leaves = floor(cut * front / (front + back)) if front + back > 0 else 0
        return min(ahead - min(ahead, max(leaves, cut - behind)), lots)
    assert model == "proportional"
    credit = cut * ahead // (ahead + behind) if ahead + behind > 0 else 0
    return min(ahead - credit, lots)


def power(lots: int, others: int, exponent: int) -> Fraction:
    """Return (lots / the larger of both)^exponent, with the quotient and each product cut to 24 binary digits."""
    if lots == others == 0:
        return Fraction(0)
    quotient = cut_to(Fraction(lots, max(lots, others)), 24)
    result = Fraction(1)
    for _ in range(exponent):
        result = cut_to(result * quotient, 24)
    return result


def log(lots: int) -> Fraction:
    """Return log2(1 + contracts)."""
    return log2(100 + lots) - log2(100)


@cache
def log2(number: int) -> Fraction:
    """Return log2 to 16 binary digits, each by squaring the remainder, which is cut to 30 digits."""
    result = Fraction(number.bit_length() - 1)
    left = cut_to(number / Fraction(2) ** int(result), 30)
    for digit in range(1, 17):
        left = cut_to(left * left, 30)
        if left >= 2:
            result += Fraction(1, 2**digit)
            left = cut_to(left / 2, 30)
    return result


def cut_to(value: Fraction, digits: int) -> Fraction:
    return Fraction(floor(value * 2**digits), 2**digits)
