"""The visible state of one ticker, and own orders in its queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import floor, sqrt

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

    def join(self, order: Order) -> None:
        """Rest an order behind the display of its level."""
        queue = self.queues[order.bid_side]
        order.ahead = self.shown(order.bid_side, order.bid)
        queue.insert(sum(other.bid >= order.bid for other in queue), order)

    def level(self, side: int, price: int, lots: int, *, by_prints: bool, queue_model: str, place: int = 0) -> None:
        """Apply a change of a level to the book and to the queue positions of own orders. place: that of a sampled cancel."""
        before = self.recorded[side].get(price, 0)
        self.has_book = True
        self.raised = self.raised or (lots > 0 and price > self.best(side))
        put(self.recorded[side], price, lots)
        put(self.displayed[side], price, lots)
        for order in self.queues[side] if self.valid else ():
            if order.bid == price:
                order.ahead = ahead_after(queue_model, order.ahead, before, lots, by_prints=by_prints, place=place)

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


def ahead_after(model: str, ahead: int, before: int, lots: int, *, by_prints: bool, place: int = 0) -> int:
    """Return the lots ahead of an order once its level shows `lots` instead of `before`. place: first lot of a sampled cancel."""
    name, _, number = model.partition(":")
    if name == "trade_only":
        return ahead
    cut = 0 if by_prints else max(0, before - lots)
    behind = max(0, before - ahead)
    gone = 0
    if name == "optimistic":
        gone = cut
    elif name == "sampled":
        gone = len(range(place, min(place + cut, ahead)))
    elif name == "proportional" and ahead + behind:
        front, back = (ahead, behind) if number in ("", "1") else (power(ahead, behind, int(number)), power(behind, ahead, int(number)))
        gone = max(floor(Fraction(cut * front) / (front + back)), cut - behind)
    return min(max(0, ahead - gone), lots)


def sampled_place(history: int, side: int, event: int, lots: int) -> int:
    """Return the place of a cancel in a sampled queue history that leaves `lots` at its level. side: 2 x market + side."""
    word = mix(mix((history * 0x9E3779B97F4A7C15 + side) % 2**64) ^ event)
    u = (word >> 11) / 2**53
    for _ in range(abs(history % 5 - 2)):
        u = sqrt(u) if history % 5 < 2 else u * u
    return min(floor(u * (lots + 1)), lots)


def mix(word: int) -> int:
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def power(lots: int, others: int, exponent: int) -> Fraction:
    """Return (lots / the larger of both)^exponent, with the quotient and each product cut to 24 binary digits."""
    quotient = cut_to(Fraction(lots, max(lots, others)), 24)
    result = Fraction(1)
    for _ in range(exponent):
        result = cut_to(result * quotient, 24)
    return result


def cut_to(value: Fraction, digits: int) -> Fraction:
    return Fraction(floor(value * 2**digits), 2**digits)
