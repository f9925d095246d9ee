"""Simulator of PredictionMarketBench, version of January 2026, in plain Python: with its order of events, its queue and its accounting.

Its known defects are part of it: own fills do not consume the book, the remainder of a crossing order is dropped, a resting sale is booked at
the price of the equivalent bid, positions without a quote are worth 50 cents, and the last point of the curve contains only cash. See
docs/replay-rules.md. Unlike in the original, an error of the agent ends its trading, and P&L by market is not rounded.

A sale of YES at p rests as a bid for NO at a dollar less p. Prices are in $0.0001, sizes in lots of 0.01 contract, money in micro-dollars,
times in ns UTC.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, CompiledAgent, PhaseCaller, callbacks_of
from bellwether.replay.agents.limits import Failure
from bellwether.replay.agents.port import Conditions, rows_of, store_tag
from bellwether.replay.engine import ReplayOutcome, codes
from bellwether.replay.engine.codes import Reason, Role, Status, TickerStatus, Tif
from bellwether.replay.preparation import Prepared
from bellwether.replay.rules import PMB, PMB_RULES, fee_terms
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.layout import LEVEL, unpack
from bellwether.replay.units import BUY, CENT, CENT_MICROS, CONTRACT, DOLLAR, MICROS, YES, dollars
from bellwether.units import MicroDollars

QUEUES = ("trade_only", "reconciled")
_RATES = {Role.TAKER: 0.07, Role.MAKER: 0.0175}
_FIFTY = DOLLAR // 2
_ROW, _TRADE, _SETTLEMENT = range(3)


def fee(role: Role, lots: int, price: int) -> MicroDollars:
    """Compute the fee of a fill in floats, with the original's order of operations, rounded up to a cent."""
    share = price / DOLLAR
    return MicroDollars(CENT_MICROS * math.ceil(_RATES[role] * (lots / CONTRACT) * share * (1 - share) * 100))


@dataclass(slots=True, eq=False)
class _Order:
    """An order. The fields after the number are those of `codes.ORDER`."""

    number: int
    market: int
    side: int
    action: int
    price: int
    tif: int
    count: int
    sent: int
    #: Best bid plus best ask of the side at arrival; -1 without both.
    mid2: int
    taken: int = 0
    filled: int = 0
    status: int = Status.CANCELLED
    reason: int = Reason.REMAINDER
    ended: int = codes.NONE
    cost: int = 0
    fees: int = 0

    @property
    def bid(self) -> tuple[int, int, int]:
        """Ticker, side and price of the equivalent bid."""
        return (self.market, self.side, self.price) if self.action == BUY else (self.market, 1 - self.side, DOLLAR - self.price)


@dataclass(slots=True)
class _Queue:
    ahead: int = 0
    orders: list[_Order] = field(default_factory=list)


def check_agent(kind: type[Agent]) -> None:
    """Raise `ConfigError` for an agent class that these rules do not have."""
    if issubclass(kind, CompiledAgent) or callbacks_of(kind):
        reason = "is compiled" if issubclass(kind, CompiledAgent) else "has callbacks"
        raise ConfigError(f"replaying under {PMB}: the agent {kind.name} {reason}; these rules only call `act` of Python agents")


class Simulation:
    """One run, and the port through which its agent reads and trades (`agents.port`).

    steps: decisions so far. tags: labels of orders by number. settings: with the defaults of the episode. Raises `ConfigError` for settings
    that these rules do not have.
    """

    def __init__(self, prepared: Prepared, settings: BacktestSettings) -> None:
        assert prepared.content is not None and settings.bankroll is not None
        if settings.queue not in QUEUES:
            raise ConfigError(f"replaying under {PMB}: queue is {settings.queue}; choose one of {', '.join(QUEUES)}")
        for name in ("order_latency", "data_latency", "queues"):
            if getattr(settings, name):
                raise ConfigError(
                    f"replaying under {PMB}: {name} is {getattr(settings, name)}, which these rules do not have; leave it out"
                )
        self._prepared, self._settings, self._content = prepared, settings, prepared.content
        self._count = len(prepared.info.markets)
        self.steps, self.tags = 0, dict[int, str]()
        self._now = prepared.info.start_ns
        self._cash: int = settings.bankroll
        self._seen_cash = self._seen_equity = MicroDollars(self._cash)
        self._refused = 0
        self._books: list[list[dict[int, int]] | None] = [None] * self._count
        self._positions, self._basis = np.zeros((2, self._count, 2), np.int64)
        #: Realised P&L and fees by ticker.
        self._results = np.zeros((self._count, 2), np.int64)
        self._settled = np.zeros(self._count, np.int64)
        self._queues: defaultdict[tuple[int, int, int], _Queue] = defaultdict(_Queue)
        self._orders: list[_Order] = []
        #: Orders that have rested and were not cancelled, also when they are filled, and their numbers as of the step's start.
        self._listed: dict[int, _Order] = {}
        self._seen_listed: list[int] = []
        self._quotes: dict[tuple[int, int], int] = {}
        self._fills: list[tuple[int, ...]] = []
        self._trades_seen = 0
        #: Fills and trades at the start of the previous step and of this one.
        self._marks = (0, 0), (0, 0)
        self._samples: list[tuple[int, ...]] = []
        self._requested = self._slippage = self._slipped = 0
        # Cash, equity and the list of resting orders are as of the start of the step.
        self._calls: dict[str, Callable[..., Any]] = {
            "now": lambda: self._now,
            "sent": lambda: len(self._orders),
            "cash": lambda: self._seen_cash,
            "available": lambda: self._seen_cash,
            "equity": lambda: self._seen_equity,
            "status": lambda: np.array([TickerStatus.NO_BOOK if book is None else 0 for book in self._books], np.int64),
            "bids": lambda: self._tops()[:, :, 0],
            "sizes": lambda: self._tops()[:, :, 1],
            "positions": self._positions.copy,
            "order": self._order,
            "refusal": lambda: int(Reason.ORDER_LIMIT if len(self._orders) >= settings.max_orders else Reason.NO_BOOK),
            "book": self._levels,
            "resting": self._resting,
            "trades": self._trades,
            "fills": self._own_fills,
            "ledger": self._ledger,
            "conditions": self._conditions,
            "place": self._place,
            "cancel": self._cancel,
            "cancel_all": self._cancel_all,
            "amend": lambda *_: int(Reason.BAD_REQUEST),
            "quote": self._quote,
            "quote_many": self._quote_many,
            "timer": lambda _: "these rules call agents at book rows only",
        }

    def finish(self, failed: Failure) -> Failure | None:
        """Replay the episode without an agent, whose creation failed, and return the failure."""
        return self.run(lambda phase, step, news: failed, ())

    def run(self, call: PhaseCaller, callbacks: Sequence[str]) -> Failure | None:
        """Replay the episode. Returns the failure that ended the agent's trading early. callbacks: none under these rules."""
        book, trades, settled = self._content.book, self._content.trades, self._content.settlements
        rows = zip(book.ts.tolist(), book.ticker.tolist(), (book.end - book.counts).tolist(), book.end.tolist(), strict=True)
        side, price = trades.passive
        prints = zip(trades.ts.tolist(), trades.ticker.tolist(), side.tolist(), price.tolist(), trades.lots.tolist(), strict=True)
        ends = sorted((s.at, code) for code, s in enumerate(settled) if s.is_known and s.at is not None)
        failed = call("start", -1, None)
        called, sampled = None, self._now
        for ts, kind, row in heapq.merge(
            _events(rows, _ROW), _events(prints, _TRADE), _events(ends, _SETTLEMENT), key=lambda event: event[:2]
        ):
            self._now = ts
            if kind == _ROW:
                self._show(*row)
                if called is None or ts - called >= self._settings.cadence:
                    called, self.steps = ts, self.steps + 1
                    if failed is None:
                        failed = self._step(call)
            elif kind == _TRADE:
                self._print(*row)
            else:
                self._settle(*row)
            if ts - sampled >= self._settings.sample_every:
                sampled = ts
                self._samples.append((ts, self._cash, self._mark(), self._mark(mid=True)))
        self._samples.append((self._now, self._cash, self._cash, self._cash))
        return failed or call("end", self.steps, None)

    def _step(self, call: PhaseCaller) -> Failure | None:
        self._seen_cash, self._seen_equity, self._seen_listed = MicroDollars(self._cash), self._mark(), list(self._listed)
        self._marks = self._marks[1], (len(self._fills), self._trades_seen)
        failed = call("act", self.steps - 1, None)
        if failed is not None:
            self._cancel_all(-1)
        return failed

    # Events.

    def _show(self, ticker: int, first: int, last: int) -> None:
        """Apply a book row: words `first` to `last`."""
        book = self._books[ticker] = self._books[ticker] or [{}, {}]
        for word in self._content.book.words[first:last].tolist():
            kind, _, side, price, lots = unpack(word)
            if kind == LEVEL and lots:
                book[side][price] = lots
            elif kind == LEVEL:
                book[side].pop(price, None)
        if self._settings.queue == "reconciled":
            for (market, side, price), queue in self._queues.items():
                if market == ticker:
                    queue.ahead = min(queue.ahead, book[side].get(price, 0))

    def _print(self, ticker: int, side: int, price: int, lots: int) -> None:
        """Fill orders at exactly the price of a trade against the bids of `side`."""
        self._trades_seen += 1
        queue = self._queues.get((ticker, side, price))
        if queue is None:
            return
        ahead = min(queue.ahead, lots)
        queue.ahead -= ahead
        lots -= ahead
        for order in queue.orders:
            part = min(lots, order.count - order.filled)
            if part:
                self._requested += order.count
                self._book(order, price, part, Role.MAKER)
            lots -= part
        queue.orders = [order for order in queue.orders if order.filled < order.count]

    def _settle(self, ticker: int) -> None:
        """Cancel a ticker's resting orders and pay the positions."""
        for order in self._orders:
            if order.market == ticker and order.status == Status.RESTING:
                self._end(order, Reason.SETTLED)
        value = self._content.settlements[ticker].value
        for side in range(2):
            payout = 0 if value is None else value if side == YES else MICROS - value
            basis = int(self._basis[ticker, side])
            pay = basis if value is None else payout * int(self._positions[ticker, side]) // CONTRACT
            self._cash += pay
            self._results[ticker, 0] += pay - basis
            self._settled[ticker] += pay - basis
            self._positions[ticker, side] = self._basis[ticker, side] = 0

    # Orders and account.

    def _place(  # noqa: PLR0917
        self, ticker: int, side: int, action: int, price: int, lots: int, tif: int, expires: int, tag: str
    ) -> int:
        book = self._books[ticker]
        if book is None or len(self._orders) >= self._settings.max_orders:
            self._refused += book is not None
            return -1
        bid, ask = self._best(ticker, side)
        order = _Order(len(self._orders), ticker, side, action, price, tif, lots, self._now, bid + ask if bid and ask else -1)
        self._orders.append(order)
        store_tag(self.tags, order.number, tag)
        levels = [(DOLLAR - p, size) for p, size in book[1 - side].items()] if action == BUY else list(book[side].items())
        sign = 1 if action == BUY else -1
        reached = sorted((sign * p, size) for p, size in levels if not price or sign * p <= sign * price)
        if tif == Tif.FOK:
            order.status, order.reason = Status.REJECTED, Reason.BAD_REQUEST
        elif reached and tif == Tif.POST_ONLY:
            order.status, order.reason = Status.REJECTED, Reason.WOULD_CROSS
        elif reached:
            self._take(order, [(sign * p, size) for p, size in reached])
        elif price and self._settings.execution == "taker_only":
            order.status, order.reason = Status.REJECTED, Reason.WOULD_NOT_CROSS
        elif price and tif in (Tif.GTC, Tif.POST_ONLY):
            order.status, order.reason = Status.RESTING, Reason.NONE
            queue = self._queues[order.bid]
            if not queue.orders:
                queue.ahead = book[order.bid[1]].get(order.bid[2], 0)
            queue.orders.append(order)
            self._listed[order.number] = order
        if order.status != Status.RESTING:
            order.ended = self._now
        return order.number

    def _take(self, order: _Order, levels: list[tuple[int, int]]) -> None:
        """Fill an order at the levels of the book, best first, and drop the remainder. The book does not change."""
        for price, size in levels:
            lots = min(order.count - order.filled, size)
            if lots:
                self._book(order, price, lots, Role.TAKER)
        order.taken = order.filled
        self._requested += order.count
        if order.mid2 >= 0:
            # The value at mid is truncated to a cent.
            at_mid = order.mid2 * order.taken // (2 * CENT_MICROS) * CENT_MICROS
            self._slippage += order.cost - at_mid if order.action == BUY else at_mid - order.cost
            self._slipped += order.taken

    def _book(self, order: _Order, price: int, lots: int, role: Role) -> None:
        """Book a fill at `price`. That of a resting sale is the price of the equivalent bid."""
        charge = fee(role, lots, price)
        sign = 1 if order.action == BUY else -1
        self._cash -= sign * price * lots + charge
        held, basis = int(self._positions[order.market, order.side]), int(self._basis[order.market, order.side])
        closed = min(lots, abs(held)) if held * sign < 0 else 0
        removed = abs(basis) * closed // abs(held) if closed else 0
        self._results[order.market] += -sign * (price * closed - removed), charge
        self._basis[order.market, order.side] += sign * (removed + price * (lots - closed))
        self._positions[order.market, order.side] += sign * lots
        wait = self._now - order.sent if role == Role.MAKER else 0
        self._fills.append((order.number, order.market, order.side, order.action, price, lots, charge, int(role), self._now, wait))
        order.filled += lots
        order.cost += price * lots
        order.fees += charge
        if order.filled == order.count:
            order.status, order.reason, order.ended = Status.FILLED, Reason.NONE, self._now

    def _end(self, order: _Order, reason: Reason) -> None:
        """Remove an order from the list of resting orders and, unless it is filled, from its queue."""
        del self._listed[order.number]
        if order.status == Status.RESTING:
            self._queues[order.bid].orders.remove(order)
            order.status, order.reason, order.ended = Status.CANCELLED, reason, self._now

    def _best(self, ticker: int, side: int) -> tuple[int, int]:
        """Return the best bid and ask of a side; 0 for none."""
        book: Sequence[dict[int, int]] = self._books[ticker] or ({}, {})
        return max(book[side], default=0), DOLLAR - max(book[1 - side], default=DOLLAR)

    def _value(self, ticker: int, side: int, *, mid: bool = False) -> int:
        """Return the value of a position: a long at the bid, a short at the ask, or at mid; 50 cents without a quote."""
        lots, (bid, ask) = int(self._positions[ticker, side]), self._best(ticker, side)
        if mid:
            return lots * (bid + ask if bid and ask else DOLLAR) // 2
        return lots * ((bid if lots > 0 else ask) or _FIFTY)

    def _mark(self, *, mid: bool = False) -> MicroDollars:
        """Return the equity."""
        held = np.argwhere(self._positions).tolist()
        return MicroDollars(self._cash + sum(self._value(ticker, side, mid=mid) for ticker, side in held))

    # Results.

    def outcome(self) -> ReplayOutcome:
        """Return the final account, orders, fills and samples."""
        orders = np.zeros(len(self._orders), codes.ORDER)
        for name in _Order.__slots__[1:]:
            orders[name] = [getattr(order, name) for order in self._orders]
        orders["arrived"] = orders["sent"]
        held = [[self._value(ticker, side) for side in range(2)] for ticker in range(self._count)]
        return ReplayOutcome(
            bankroll=MicroDollars(self._settings.bankroll or 0),
            cash=MicroDollars(self._cash),
            realised=MicroDollars(int(self._results[:, 0].sum())),
            fees=MicroDollars(int(self._results[:, 1].sum())),
            equity=self._mark(),
            mid_equity=self._mark(mid=True),
            positions=self._positions,
            basis=self._basis,
            unrealised=(np.array(held, np.int64).reshape(-1, 2) - self._basis).sum(axis=1),
            earned=self._results[:, 0].copy(),
            settled=self._settled,
            steps=self.steps,
            refused=self._refused,
            orders=orders,
            fills=np.array(self._fills, codes.FILL),
            samples=np.array(self._samples, codes.SAMPLE),
        )

    def metrics(self) -> dict[str, Any]:
        """Return the metrics that the original defines differently."""
        slipped, filled = self._slipped, sum(order.filled for order in self._orders)
        return {
            "fill_ratio": filled / self._requested if self._requested else 1.0,
            "slippage": dollars(MicroDollars(self._slippage)) if slipped else None,
            "slippage_per_contract": self._slippage * CONTRACT / (slipped * MICROS) if slipped else None,
        }

    # Port.

    def read(self, name: str, *arguments: Any) -> Any:
        """Return an observation."""
        return self._calls[name](*arguments)

    send = read

    def _order(self, number: int) -> tuple[int, ...] | None:
        if not 0 <= number < len(self._orders):
            return None
        order = self._orders[number]
        return tuple(int(getattr(order, name)) for name in codes.SHOWN)

    def _tops(self) -> np.ndarray:
        """Return price and lots of the best bids by ticker and side, int64[T, 2, 2]; 0 for none."""
        books: list[Any] = [book or ({}, {}) for book in self._books]
        return np.array([[max(side.items(), default=(0, 0)) for side in book] for book in books], np.int64)

    def _levels(self, ticker: int, depth: int) -> tuple[tuple[tuple[int, int], ...], ...]:
        depths = [levels for levels in (depth, self._prepared.info.observation_depth) if levels >= 0]
        sides = (sorted(side.items(), reverse=True) for side in self._books[ticker] or ({}, {}))
        return tuple(tuple(side[: min(depths)] if depths else side) for side in sides)

    def _resting(self, ticker: int) -> list[int]:
        return [number for number in self._seen_listed if ticker in (-1, self._orders[number].market)]

    def _trades(self, ticker: int) -> np.ndarray:
        trades = self._prepared.trades[self._marks[0][1] : self._trades_seen]
        return rows_of(trades, trades[:, 1], ticker)

    def _own_fills(self, ticker: int, whole: int) -> np.ndarray:
        fills = np.array(self._fills[0 if whole else self._marks[0][0] :], codes.FILL)
        return rows_of(fills, fills["market"], ticker)

    def _ledger(self, ticker: int) -> list[list[int]]:
        rows = []
        for code in range(self._count) if ticker < 0 else (ticker,):
            money = self._basis[code].tolist() + self._results[code].tolist()
            rows.append([*self._positions[code].tolist(), *money, self._value(code, 0) + self._value(code, 1) - money[0] - money[1]])
        return rows

    def _conditions(self) -> Conditions:
        fees, cents = np.tile(fee_terms(PMB_RULES, None), (self._count, 1)), np.arange(CENT, DOLLAR, CENT)
        return Conditions(PMB_RULES, self._settings, fees, (cents,) * self._count, tape_digest=self._prepared.tape.digest)

    def _cancel(self, number: int) -> bool:
        if is_listed := number in self._listed:
            self._end(self._listed[number], Reason.AGENT)
        return is_listed

    def _cancel_all(self, ticker: int) -> int:
        chosen = [n for n, order in self._listed.items() if ticker in (-1, order.market) and order.status == Status.RESTING]
        return sum(map(self._cancel, chosen))

    def _quote(self, ticker: int, yes_price: int, no_price: int, lots: int, tag: str) -> tuple[int, int]:
        for side, price in enumerate((yes_price, no_price)):
            number = self._quotes.get((ticker, side), -1)
            is_resting = number >= 0 and self._orders[number].status == Status.RESTING
            if price < 0 or (is_resting and self._orders[number].price == price):
                continue
            if is_resting:
                self._cancel(number)
            self._quotes[ticker, side] = self._place(ticker, side, BUY, price, lots, Tif.POST_ONLY, 0, tag) if price else -1
        return self._quotes.get((ticker, 0), -1), self._quotes.get((ticker, 1), -1)

    def _quote_many(self, prices: np.ndarray, lots: int, tag: str) -> np.ndarray:
        return np.array([self._quote(ticker, yes, no, lots, tag) for ticker, (yes, no) in enumerate(prices.tolist())], np.int64)


def _events(rows: Iterable[tuple[int, ...]], kind: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Yield rows that begin with their time as (time, kind, rest of the row)."""
    return ((row[0], kind, row[1:]) for row in rows)
