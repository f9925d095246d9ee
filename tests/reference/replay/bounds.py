"""Possible fills of orders over all queue histories that a recording allows, and the resulting P&L.

Histories differ from the main account only in the queue positions of own orders. Each order has two lanes: its slowest and its fastest history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from math import floor
from typing import Any

from tests.reference.replay import fees
from tests.reference.replay.market import Market
from tests.reference.replay.orders import DOLLAR, FAST, SLOW, Order

Band = tuple[Fraction, Fraction]


def take(order: Order, at: int, least: int, most: int, reach: int) -> tuple[int, int]:
    """Fill an order with the lots that reach it in the slowest and the fastest history. Returns the minimum and maximum that it takes.

    `reach`: lots that reach it with nothing ahead, for an order that histories joined at different times.
    """
    slow, fast = order.lanes
    interval = (
        (0, min(order.chain.largest, reach)) if order.loose and order.chain else (min(fast.remaining, least), min(slow.remaining, most))
    )
    for lane, lots in ((slow, min(slow.remaining, least)), (fast, min(fast.remaining, most))):
        lane.filled += lots
        if lots and not lane.remaining:
            lane.complete(at)
    order.possible += interval[1] > 0
    order.uncertain = order.uncertain or interval[0] != interval[1]
    return interval


def print_reaches(market: Market, side: int, price: int, lots: int, at: int, *, through: bool) -> None:
    """Apply a print of `lots` in both extreme histories: to orders at better prices first, then to those at its price in order of arrival."""
    least = most = 0  # taken by earlier own orders
    for order in list(market.queues[side]):
        slow, fast = order.lanes
        if order.bid < price or (order.bid > price and not through):
            continue
        if order.bid > price:
            slow.ahead = fast.ahead = 0
        left = max(0, lots - most), max(0, lots - least)
        takes = take(order, at, max(0, left[0] - slow.ahead), max(0, left[1] - fast.ahead), left[1])
        slow.ahead, fast.ahead = max(0, slow.ahead - left[0]), max(0, fast.ahead - left[1])
        least, most = least + takes[0], most + takes[1]


def cross(market: Market, side: int, best: int, at: int, *, consume: bool) -> None:
    """Fill own orders of a side from the bids of the other side that they cross, in both extreme histories."""
    levels = {price: list(market.shown_within(1 - side, price)) for price in sorted(market.recorded[1 - side], reverse=True)}
    for order in list(market.queues[side]):
        for price, left in levels.items():
            if price < DOLLAR - order.bid:
                break
            if best + price >= DOLLAR:
                continue
            least, most = take(order, at, left[0], left[1], left[1])
            left[:] = max(0, left[0] - most), max(0, left[1] - least)
            if consume:
                market.consume_within(1 - side, price, least, most)


class Uncertainty:
    """Lots by which histories can differ from the main account, by market, bid side, price and exact fee rates of the lower and the upper
    end.
    """

    def __init__(self, tickers: int) -> None:
        self._lots: list[dict[tuple[int, int, Fraction, Fraction], list[int]]] = [defaultdict(lambda: [0, 0]) for _ in range(tickers)]
        self._prices: list[set[int]] = [set() for _ in range(tickers)]
        self._settled: dict[int, Band] = {}

    def note(self, order: Order, price: int, rates: Band, slow: int = 0, main: int = 0, fast: int = 0) -> None:
        """Record the lots of a fill in the slowest history, the main account and the fastest history. `price`: of the bid."""
        self._prices[order.ticker].add(price if order.bid_side == 0 else DOLLAR - price)
        if slow != main or fast != main:
            lots = self._lots[order.ticker][order.bid_side, order.bid, *rates]
            lots[SLOW] += slow - main
            lots[FAST] += fast - main

    def at(self, ticker: int, mark: Fraction | int, held: int) -> Band:
        """Return the minimum and maximum value of a market at a mark of YES. `held`: the main position in YES less NO."""
        low = high = Fraction(mark) * held
        for (side, bid, dear, cheap), (fewest, most) in self._lots[ticker].items():
            gain = mark - bid if side == 0 else DOLLAR - bid - mark
            low += min(fewest * (gain - dear), most * (gain - dear))
            high += max(fewest * (gain - cheap), most * (gain - cheap))
        return low, high

    def _marks(self, ticker: int, least: int, most: int) -> list[int]:
        prices = {bid if side == 0 else DOLLAR - bid for side, bid, *_ in self._lots[ticker]}
        return [least, most, *(price for price in prices if least < price < most)]

    def now(self, ticker: int, bid: int, ask: int, held: int) -> Band:
        """Return the band of a market relative to its main value, marked at the touch at which each position could be closed."""
        if ticker in self._settled:
            return self._settled[ticker]
        ends = [self.at(ticker, mark, held) for mark in (bid, ask)]
        if bid <= ask:
            low = min(low for low, _ in ends)
            high = min(self.at(ticker, mark, held)[1] for mark in self._marks(ticker, bid, ask))
        else:
            low = max(self.at(ticker, mark, held)[0] for mark in self._marks(ticker, ask, bid))
            high = max(high for _, high in ends)
        main = held * (bid if held >= 0 else ask)
        return low - main, high - main

    def settle(self, ticker: int, value: int, held: int) -> None:
        """Fix the band of a market whose YES contract pays `value` micro-dollars. Payouts are rounded down."""
        mark = Fraction(value, 100)
        main = floor(mark * held)
        low, high = self.at(ticker, mark, held)
        self._settled[ticker] = Fraction(floor(low) - main), Fraction(floor(high) - main)

    def void(self, ticker: int, result: int, flows: Callable[[int], int]) -> None:
        """Fix the band of a voided market, which refunds the cost of a position like a mark at that cost.

        `result`: the main account's P&L. `flows`: its P&L at a mark without fees.
        """
        if not any(low != high or low for low, high in self._lots[ticker].values()):
            self._settled[ticker] = Fraction(0), Fraction(0)
            return
        ends = [
            tuple(end + flows(mark) - result for end in self.at(ticker, mark, 0))
            for mark in (min(self._prices[ticker]), max(self._prices[ticker]))
        ]
        self._settled[ticker] = min(low for low, _ in ends), max(high for _, high in ends)


def rounding(orders: Iterable[Order], terms: list[list[int]], rules: Any) -> Band:
    """Return the change of P&L by other roundings of fees: one unit for each possible fill of an order whose fills are uncertain."""
    low = high = Fraction(0)
    for order in orders:
        if order.uncertain:
            kind, unit = terms[order.ticker][3], rules[order.ticker]
            step = (unit.fee_unit if kind != fees.FREE else 0) + (unit.balance_unit if unit.balance_unit > 1 else 0)
            low += order.maker_fees - order.exact_fees[0] - order.possible * step
            high += order.maker_fees - order.exact_fees[1] + order.possible * step
    return low, high
