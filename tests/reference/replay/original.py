"""PredictionMarketBench's simulator, reimplemented a second time from its description: whole books, cents, contracts, fees in floats, and all defects."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, sqrt
from typing import NamedTuple

SECOND = 1_000_000_000
OTHER = {"yes": "no", "no": "yes"}
Levels = list[tuple[int, int]]


class Row(NamedTuple):
    """A whole book: bids of both sides as (cents, contracts)."""

    ts: int
    ticker: str
    yes: Levels
    no: Levels


class Trade(NamedTuple):
    """A print. The price is in cents of the taker's side."""

    ts: int
    ticker: str
    taker: str
    price: int
    count: int  # type: ignore[assignment]  # the name that the simulator has


class Settled(NamedTuple):
    ts: int
    ticker: str
    result: str


class Fill(NamedTuple):
    ts: int
    ticker: str
    side: str
    action: str
    price: int
    count: int  # type: ignore[assignment]
    fee: int
    role: str


@dataclass
class Waiting:
    """An order in a queue."""

    number: int
    side: str
    action: str
    count: int
    left: int


@dataclass
class Queue:
    env_ahead: int = 0
    orders: list[Waiting] = field(default_factory=list)


def fee(rate: float, count: int, price: int) -> int:
    return ceil(rate * count * (price / 100.0) * (1 - price / 100.0) * 100)


class Original:
    """One run. `act` is called like the original's agents; attributes have the results."""

    def __init__(self, start: int, cadence: int, act: Callable[[Original], None], *, reconciled: bool, taker_only: bool) -> None:
        self.cadence, self.act, self.reconciled, self.taker_only = cadence, act, reconciled, taker_only
        self.now, self.cash, self.contracts, self.fees = start, 100_000, 0, 0
        self.requested = self.filled = 0
        self.books: dict[str, dict[str, Levels]] = {}
        self.positions: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.queues: defaultdict[tuple[str, str, int], Queue] = defaultdict(Queue)
        self.orders = 0
        self.fills: list[Fill] = []
        #: Orders that rested and were not cancelled, filled ones included, and the answers to cancels.
        self.known: dict[int, Waiting] = {}
        self.cancels: list[bool] = []
        self.slippage = 0
        #: Time, cash, equity and listed orders at each call.
        self.calls: list[tuple[int, int, int, list[int]]] = []
        self.curve = [(start, self.cash)]

    # Calls of agents

    def place(self, ticker: str, side: str, action: str, count: int, limit: int | None, tif: str) -> None:
        """Place an order. Limit None: a market order. tif: ioc, gtc, gtd or post_only."""
        if ticker not in self.books:
            return
        number, self.orders = self.orders, self.orders + 1
        book = self.books[ticker]
        levels = [(100 - price, size) for price, size in book[OTHER[side]]] if action == "buy" else book[side]
        reached = [(p, size) for p, size in levels if limit is None or (p <= limit if action == "buy" else p >= limit)]
        if reached and tif != "post_only":
            own, opposite = book[side], book[OTHER[side]]
            mid = (own[0][0] + 100 - opposite[0][0]) / 2 if own and opposite else None
            self._take(ticker, side, action, count, reached, mid)
        elif not reached and limit is not None and tif in ("gtc", "post_only") and not self.taker_only:
            bid, price = (side, limit) if action == "buy" else (OTHER[side], 100 - limit)
            queue = self.queues[ticker, bid, price]
            if not queue.orders:
                queue.env_ahead = dict(book[bid]).get(price, 0)
            self.known[number] = Waiting(number, side, action, count, count)
            queue.orders.append(self.known[number])

    def cancel(self, number: int) -> None:
        self.cancels.append(self.known.pop(number, None) is not None)
        for queue in self.queues.values():
            queue.orders = [order for order in queue.orders if order.number != number]

    # The run

    def run(self, rows: list[Row], trades: list[Trade], settled: list[Settled]) -> Original:
        events: list[Row | Trade | Settled] = [*rows, *trades, *settled]
        events.sort(key=lambda event: (event.ts, not isinstance(event, Row), isinstance(event, Settled)))
        called, sampled = None, self.now
        for event in events:
            self.now = event.ts
            if isinstance(event, Row):
                self._show(event)
                if called is None or event.ts - called >= self.cadence:
                    called = event.ts
                    self.calls.append((event.ts, self.cash, self.equity(), list(self.known)))
                    self.act(self)
            elif isinstance(event, Trade):
                self._print(event)
            else:
                self._settle(event)
            if event.ts - sampled >= 60 * SECOND:
                sampled = event.ts
                self.curve.append((event.ts, self.equity()))
        self.curve.append((events[-1].ts, self.cash))
        return self

    def equity(self) -> int:
        worth = 0
        for (ticker, side), count in self.positions.items():
            bids, others = self.books[ticker][side], self.books[ticker][OTHER[side]]
            bid, ask = (bids[0][0] if bids else 50), (100 - others[0][0] if others else 50)
            worth += count * (bid if count > 0 else ask)
        return self.cash + worth

    def drawdown(self) -> float:
        peak, worst = 0, 0.0
        for _, equity in self.curve:
            peak = max(peak, equity)
            worst = max(worst, (peak - equity) / peak)
        return worst

    def fill_ratio(self) -> float:
        return self.filled / self.requested if self.requested else 1.0

    def sharpe(self) -> float | None:
        sampled = self.curve[:1]
        for point in self.curve[1:]:
            if point[0] - sampled[-1][0] >= 60 * SECOND:
                sampled.append(point)
        returns = [(now - before) / before for (_, before), (_, now) in pairwise(sampled)]
        deviation = statistics.stdev(returns) if len(returns) >= 2 else 0
        return statistics.mean(returns) / deviation * sqrt(525_960) if deviation else None

    def _take(self, ticker: str, side: str, action: str, count: int, levels: Levels, mid: float | None) -> None:
        left, notional = count, 0
        for price, size in levels:
            lots = min(left, size)
            if lots:
                self._book(Fill(self.now, ticker, side, action, price, lots, fee(0.07, lots, price), "taker"))
            left -= lots
            notional += lots * price
        self.requested += count
        if mid is not None:
            at_mid = int(mid * (count - left))
            self.slippage += notional - at_mid if action == "buy" else at_mid - notional

    def _show(self, row: Row) -> None:
        self.books[row.ticker] = {"yes": sorted(row.yes, reverse=True), "no": sorted(row.no, reverse=True)}
        for (ticker, side, price), queue in self.queues.items():
            if self.reconciled and ticker == row.ticker:
                queue.env_ahead = min(queue.env_ahead, dict(self.books[ticker][side]).get(price, 0))

    def _print(self, trade: Trade) -> None:
        price, left = 100 - trade.price, trade.count
        queue = self.queues.get((trade.ticker, OTHER[trade.taker], price))
        if queue is None:
            return
        ahead = min(queue.env_ahead, left)
        queue.env_ahead -= ahead
        left -= ahead
        for order in queue.orders:
            count = min(left, order.left)
            if count:
                self.requested += order.count
                self._book(Fill(self.now, trade.ticker, order.side, order.action, price, count, fee(0.0175, count, price), "maker"))
            order.left -= count
            left -= count
        queue.orders = [order for order in queue.orders if order.left]

    def _book(self, fill: Fill) -> None:
        """Book a fill. A converted sale is booked at the price of the bid that replaced it."""
        sign = 1 if fill.action == "buy" else -1
        self.cash -= sign * fill.price * fill.count + fill.fee
        self.positions[fill.ticker, fill.side] += sign * fill.count
        self.fills.append(fill)
        self.filled += fill.count
        self.contracts += fill.count
        self.fees += fill.fee

    def _settle(self, settled: Settled) -> None:
        for key in self.queues:
            if key[0] == settled.ticker:
                for order in self.queues[key].orders:
                    del self.known[order.number]
                self.queues[key].orders = []
        for side in ("yes", "no"):
            self.cash += self.positions.pop((settled.ticker, side), 0) * (100 if side == settled.result.lower() else 0)
