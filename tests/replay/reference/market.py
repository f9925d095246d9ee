"""What the world shows of one ticker, and our own orders in its queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import floor

from tests.replay.reference.orders import Order


@dataclass
class Market:
    """One ticker. recorded, displayed: [side], price -> lots; displayed is what was recorded less what we took since. resting: [bid side]."""

    recorded: list[dict[int, int]] = field(default_factory=lambda: [{}, {}])
    displayed: list[dict[int, int]] = field(default_factory=lambda: [{}, {}])
    resting: tuple[list[Order], list[Order]] = field(default_factory=lambda: ([], []))
    has_book: bool = False
    valid: bool = True
    halted: bool = False
    closed: bool = False
    settled: bool = False
    raised: bool = False

    def best(self, side: int) -> int:
        """The best displayed bid of a side in mills, 0 where there is none."""
        return max(self.displayed[side], default=0)

    def shown(self, side: int, price: int) -> int:
        return self.displayed[side].get(price, 0)

    def consume(self, side: int, price: int, lots: int) -> None:
        """We took `lots` of a level: it shows less until the recording says otherwise."""
        put(self.displayed[side], price, self.shown(side, price) - lots)

    def join(self, order: Order, *, behind_own: bool) -> None:
        """Rest an order behind what is displayed at its level, and behind our own orders there."""
        queue = self.resting[order.bid_side]
        here = [other for other in queue if other.bid == order.bid]
        order.ahead = here[0].ahead if here and behind_own else self.shown(order.bid_side, order.bid)
        place = sum(other.bid >= order.bid for other in queue)
        queue.insert(place, order)

    def leave(self, order: Order) -> int:
        """Take an order out of its queue; returns the place that it had."""
        queue = self.resting[order.bid_side]
        place = queue.index(order)
        del queue[place]
        return place

    def level(self, side: int, price: int, lots: int, *, by_prints: bool, queue_model: str, exponent: int = 3) -> None:
        """The recording says that a level now shows `lots`."""
        before = self.recorded[side].get(price, 0)
        self.has_book = True
        self.raised = self.raised or (lots > 0 and price > self.best(side))
        put(self.recorded[side], price, lots)
        put(self.displayed[side], price, lots)
        here = [order for order in self.resting[side] if order.bid == price] if self.valid else ()
        if not here:
            return
        of_power = {"exponent": exponent} if queue_model == "power" else {}
        for order in here:
            order.ahead = ahead_after(queue_model, order.ahead, before, lots, by_prints=by_prints, **of_power)

    def valid_again(self, *, queue_model: str) -> None:
        self.valid = self.raised = True
        if queue_model == "trade_only":
            return
        for side in (0, 1):
            for order in self.resting[side]:
                order.ahead = min(order.ahead, self.shown(side, order.bid))


def put(levels: dict[int, int], price: int, lots: int) -> None:
    """Set a level; an empty one is not kept."""
    if lots:
        levels[price] = lots
    else:
        levels.pop(price, None)


def ahead_after(model: str, ahead: int, before: int, lots: int, *, by_prints: bool, exponent: int = 3) -> int:
    """What is ahead of an order once its level shows `lots` instead of `before`."""
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
    """(lots / the larger of both)^exponent, with the quotient and each product cut to 24 binary digits."""
    if lots == others == 0:
        return Fraction(0)
    quotient = cut_to(Fraction(lots, max(lots, others)), 24)
    result = Fraction(1)
    for _ in range(exponent):
        result = cut_to(result * quotient, 24)
    return result


def log(lots: int) -> Fraction:
    """log2(1 + contracts)."""
    return log2(100 + lots) - log2(100)


@cache
def log2(number: int) -> Fraction:
    """16 binary digits of log2, each by squaring what is left, which is cut to 30 digits."""
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
