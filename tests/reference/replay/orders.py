"""Orders, fills and resting orders as plain objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.reference.replay import fees
from tests.reference.replay.account import BUY, Account

IOC, GTC, POST_ONLY, FOK, GTD = range(5)
DOLLAR = 10_000


@dataclass(eq=False)
class Order:
    """One order as sent, and its state."""

    number: int
    ticker: int
    side: int
    action: int
    price: int
    count: int
    tif: int
    expires: int
    sent: int
    status: str = "pending"
    reason: str = ""
    arrived: int = -1
    queued: int = -1
    ended: int = -1
    filled: int = 0
    ahead: int = 0
    accumulated: int = 0
    taken: int = 0
    cost: int = 0
    fees: int = 0
    mid2: int = -1

    def __post_init__(self) -> None:
        self.as_sent = ("pending", 0, self.price, self.count)
        #: The side whose bid this order is: a sale of one side is a bid for the other.
        self.bid_side = self.side if self.action == BUY else 1 - self.side
        self.reprice(self.price, self.count)

    def reprice(self, price: int, count: int) -> None:
        self.price, self.count = price, count
        self.bid = price if self.action == BUY else DOLLAR - price

    def own_price(self, bid: int) -> int:
        """Return the price, on the side as sent, of a fill at `bid` on the side whose bid this order is."""
        return bid if self.action == BUY else DOLLAR - bid

    @property
    def remaining(self) -> int:
        return self.count - self.filled

    def end(self, status: str, reason: str, at: int) -> None:
        self.status, self.reason, self.ended = status, reason, at


class Fill(NamedTuple):
    """A fill. The price is in $0.0001 of the side as sent."""

    order: int
    ticker: int
    side: int
    action: int
    price: int
    lots: int
    fee: int
    role: str
    ts: int
    wait: int


@dataclass(frozen=True)
class Update:
    """A reported state of an order."""

    ts: int
    order: int
    status: str
    reason: str
    price: int
    count: int
    filled: int


@dataclass(frozen=True)
class Known:
    """State of an account and its orders. orders: (status, filled, price, count) by number, of orders that have arrived."""

    cash: int
    reserved: int
    position: list[list[int]]
    basis: list[list[int]]
    resting: list[int]
    fills: int
    orders: dict[int, tuple[str, int, int, int]]


@dataclass(frozen=True)
class Walk:
    """Effects of an order on arrival: (price of the passive bid, lots) by level, own orders cancelled, and its end."""

    crosses: bool
    takes: tuple[tuple[int, int], ...]
    cancels: tuple[Order, ...]
    stopped: bool
    left: int


def walk(order: Order, lots: int, displayed: dict[int, int], own: list[Order], *, self_trade: str) -> Walk:
    """Walk an order over the bids of the other side.

    displayed: price -> lots there. own: own orders resting there, in priority. self_trade: "cancel_taker" or "cancel_maker".
    """
    worst = 1 if order.price == 0 else DOLLAR - order.bid
    own = [other for other in own if other.bid >= worst]
    prices = {price for price in displayed if price >= worst} | {other.bid for other in own}
    left, takes, cancels, stopped = lots, [], [], False
    for price in sorted(prices, reverse=True):
        if left == 0:
            break
        shown = displayed.get(price, 0)
        here = [other for other in own if other.bid == price]
        if here:
            before = min(left, shown, here[0].ahead)
            if before < left and self_trade == "cancel_taker":
                shown, stopped = before, True
            elif before < left:
                cancels += here
        lots_here = min(left, shown)
        if lots_here:
            takes.append((price, lots_here))
            left -= lots_here
        if stopped:
            break
    return Walk(bool(prices), tuple(takes), tuple(cancels), stopped, left)


def reserve(account: Account, ticker: int, resting: Sequence[list[Order]], terms: list[list[int]], rules: Any) -> int:
    """Return the maximum remaining cost of a ticker's orders. resting: by bid side, in priority."""
    held, maker = account.position[ticker], fees.maker_terms(terms[ticker])
    total = 0
    for bid_side in (0, 1):
        cover = held[1 - bid_side]
        for order in resting[bid_side]:
            lots = order.count - order.filled
            covered = min(cover, lots)
            fee = fees.trade_fee(*maker, rules.fee_unit, order.price, lots)
            if covered == 0:
                total += order.bid * lots + fee
                continue
            cover -= covered
            total += order.bid * (lots - covered)
            proceeds = (DOLLAR - order.bid) * covered
            if fee > proceeds:
                total += fee - proceeds
    return total
