"""The plain engine, which processes the earliest due moment at each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.reference.replay.exchange import Exchange
from tests.reference.replay.market import sampled_place
from tests.reference.replay.orders import DOLLAR, Order

LEVEL, TRADED, PRINT, INVALID, VALID, HALT, OPEN, CLOSE, SETTLE, VOID, GRID = range(11)
#: Kinds of moments, in order of processing within one time.
EXPIRY, EVENT, ARRIVAL, DECISION, SAMPLE = range(5)


class Reference(Exchange):
    """One replay of a recording under rules and settings. `step` advances to the next decision, at which `place`, `cancel`, `amend`, `cancel_all` and
    `quote` may be called.
    """

    def __init__(self, tape: Any, rules: Any, settings: Any) -> None:
        super().__init__(tape, rules, settings)
        self.queue_model = settings.queue or "proportional"
        self.events = tape.events
        self.samples: list[tuple[int, int, int, int]] = []
        self.steps = 0
        self.end = self.events[-1][0]
        begins = tape.begins or (tape.start,) * len(self.markets)
        ends = [event for event in self.events if event[1] in (CLOSE, SETTLE, VOID)]
        last = [min((ts for ts, _, of, *_ in ends if of == ticker), default=self.end) for ticker in range(len(begins))]
        self.open = list(zip(begins, last, strict=True))
        self.next_event = self.next_decision = self.next_sample = 0
        self.last_close = max(end for _, end in self.open)
        self.on_grid = self._due_on_grid()
        self.running = self._run()

    def step(self) -> bool:
        """Advance to the next decision. Returns False at the end of the tape."""
        return next(self.running, False)

    # The clock

    def _run(self) -> Iterator[bool]:
        while (moment := self._next()) is not None:
            at, what = moment
            if self._ends_the_instant(at, what) and any(market.raised for market in self.markets):
                self._cross_all()
                continue  # an order that is about to expire may be gone
            if what != EVENT or at > self.clock:
                self._say(self.clock)
            if what == EXPIRY:
                self._expire(at)
                self._say(at)
            elif what == EVENT:
                self._events(at)
            elif what == ARRIVAL:
                self.coming.pop(0)[1](at)
                self._say(at)
            elif what == DECISION:
                self.now = self._decision()
                self.next_decision += 1
                self.on_grid = self._due_on_grid()
                self.steps += 1
                yield True
            else:
                self.next_sample += 1
                self.on_grid = self._due_on_grid()
                self._sample(at)
        self._cross_all()
        self._say(self.clock)
        self.over = True
        if not self.samples or self.samples[-1][0] != self.end:
            self._sample(self.end)

    def _next(self) -> tuple[int, int] | None:
        """Return (time, kind) of the earliest due moment, or None at the end of the tape."""
        due = [self.on_grid] if self.on_grid is not None else []
        if self.expiring:
            due.append((self.expiring[0][0], EXPIRY))
        if self.next_event < len(self.events):
            due.append((self.events[self.next_event][0], EVENT))
        if self.coming:
            due.append((self.coming[0][0], ARRIVAL))
        first = min(due, default=None)
        return first if first is not None and first[0] <= self.end else None

    def _due_on_grid(self) -> tuple[int, int] | None:
        """Return (time, kind) of the next decision or sample of a grid, whichever is earlier."""
        due = []
        while (at := self._decision()) <= self.last_close:
            if any(begin <= at <= end for begin, end in self.open):
                due.append((at - self.settings.data_latency, DECISION))
                break
            self.next_decision += 1
        due.append((self.start + self.next_sample * self.settings.sample_every, SAMPLE))
        return min(due)

    def _decision(self) -> int:
        return self.start + self.next_decision * self.settings.cadence

    def _ends_the_instant(self, at: int, what: int) -> bool:
        return what != EVENT or at > self.clock or self.events[self.next_event][1] >= HALT

    def _sample(self, at: int) -> None:
        self.samples.append((at, self.account.cash, self.equity(), self.mid_equity()))
        marks = [(market.best(0), DOLLAR - market.best(1)) for market in self.markets]
        self._record("sample", marks, {order.number: order.filled for order in self.orders if order.filled})

    # Events of the recording

    def _expire(self, at: int) -> None:
        order = self.orders[self.expiring[0][1]]
        self._leave(order, "expired", "expired", at)

    def _events(self, at: int) -> None:
        """Process the next event, and those at its time that must follow it directly."""
        while True:
            self._event()
            if self.next_event == len(self.events):
                return
            ts, kind, *_ = self.events[self.next_event]
            if ts > at or kind >= HALT:
                return

    def _event(self) -> None:
        at, kind, ticker, side, price, value = self.events[self.next_event]
        self.clock = at
        self.next_event += 1
        market = self.markets[ticker]
        if kind in (LEVEL, TRADED):
            self._record("level", ticker, side, price, value, kind == TRADED)
            name, _, number = self.queue_model.partition(":")
            place = sampled_place(int(number), 2 * ticker + side, self.next_event - 1, value) if name == "sampled" else 0
            market.level(side, price, value, by_prints=kind == TRADED, queue_model=self.queue_model, place=place)
        elif kind == PRINT:
            self._print(ticker, side, price, value)
        elif kind == INVALID:
            market.valid = False
            self._record("invalid", ticker)
        elif kind == VALID:
            market.valid_again(queue_model=self.queue_model)
            self._record("valid", ticker)
        elif kind == HALT:
            market.halted = True
        elif kind == OPEN:
            market.halted, market.raised = False, True
        elif kind == GRID:
            self.grid[ticker] = self.grids[value]
        elif kind == CLOSE:
            self._close(ticker)
        elif kind in (SETTLE, VOID):
            self._settle(ticker, value if kind == SETTLE else None)

    def _close(self, ticker: int) -> None:
        market = self.markets[ticker]
        market.closed = True
        self._record("close", ticker)
        for order in [*market.queues[0], *market.queues[1]]:
            self._leave(order, "cancelled", "closed", self.clock)

    def _settle(self, ticker: int, value: int | None) -> None:
        market = self.markets[ticker]
        if market.settled:
            return
        self._close(ticker)
        market.settled = True
        self.reserves.pop(ticker, None)
        if value is None:
            self.account.void(ticker)
        else:
            self.account.settle(ticker, value)
        self._record("settle", ticker, value)

    def _print(self, ticker: int, side: int, price: int, lots: int) -> None:
        market = self.markets[ticker]
        self._record("print", ticker, side, price, lots)
        if not market.queues[side]:
            return
        self._print_in_queue(list(market.queues[side]), price, lots)
        self._let_go_of_filled(ticker, side)

    def _print_in_queue(self, queue: list[Order], price: int, lots: int) -> None:
        left = lots
        for order in [order for order in queue if order.bid > price]:
            if left:
                left -= self._make(order, min(left, order.remaining))
            order.ahead = 0
        here = [order for order in queue if order.bid == price]
        eaten = 0
        for order in here:
            others = min(left, max(0, order.ahead - eaten))
            eaten += others
            left -= others
            if left == 0:
                break
            left -= self._make(order, min(left, order.remaining))
        for order in here:
            order.ahead = max(0, order.ahead - eaten)

    def _cross_all(self) -> None:
        for ticker, market in enumerate(self.markets):
            if market.raised and market.valid and not market.halted and not market.closed:
                for side in (0, 1):
                    self._cross(ticker, side)
            market.raised = False

    def _cross(self, ticker: int, side: int) -> None:
        """Fill resting orders that the book has reached, at their own prices, from the bids of the other side."""
        market = self.markets[ticker]
        best = market.best(side)
        if not market.queues[side] or market.best(1 - side) < DOLLAR - market.queues[side][0].bid:
            return
        self._record("cross", ticker, side, best)
        left = dict(sorted(market.displayed[1 - side].items(), reverse=True))
        for order in list(market.queues[side]):
            for price, shown in list(left.items()):
                if price < DOLLAR - order.bid or order.status != "resting":
                    break
                if best + price >= DOLLAR or shown == 0:
                    continue
                lots = self._make(order, min(shown, order.remaining))
                left[price] -= lots
                market.consume(1 - side, price, lots)
        self._let_go_of_filled(ticker, side)
