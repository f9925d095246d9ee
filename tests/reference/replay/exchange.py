"""Orders and money of the plain engine: arrival of orders, and costs of fills."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.reference.replay import fees
from tests.reference.replay.account import BUY, Account
from tests.reference.replay.market import Market
from tests.reference.replay.orders import (
    DOLLAR,
    FOK,
    GTC,
    GTD,
    IOC,
    POST_ONLY,
    Fill,
    Known,
    Order,
    Update,
    Walk,
    reserve,
    walk,
)

MAX_LOTS = 10**9


class Exchange:
    """Markets, an account and orders under rules and settings. `now` is the agent's time, `clock` that of the current instant."""

    def __init__(self, tape: Any, rules: Any, settings: Any) -> None:
        self.rules, self.settings = rules, settings
        self.market_rules = tape.market_rules or (rules,) * len(tape.tickers)
        self.grids = tape.grids
        self.grid = list(tape.grids[: len(tape.tickers)])  # allowed prices of orders
        self.terms = tape.fees
        self.markets = [Market() for _ in tape.tickers]
        self.account = Account.opened(len(tape.tickers), settings.bankroll)
        self.orders: list[Order] = []
        self.unended: list[Order] = []  # orders that may still change
        self.states: dict[int, tuple[str, int, int, int]] = {}  # state of arrived orders
        self.reserves: dict[int, int] = {}  # by ticker, until one of its orders or its position changes
        self.fills: list[Fill] = []
        self.now = self.clock = tape.start
        self.coming: list[tuple[int, Callable[[int], object]]] = []  # (arrival, action), in order of sending
        self.expiring: list[tuple[int, int]] = []  # (expiry, order) of resting orders
        self.start = tape.start
        self.tells = False  # whether updates are reported
        self.over = False
        self.updates: list[Update] = []
        self.said: dict[int, tuple[str, str, int, int, int]] = {}  # last reported state by order
        self.unsaid: list[Order] = []  # orders that may have further updates
        self.quotes: dict[tuple[int, int], int] = {}  # number of the current quote, by market and side
        self.amending: Counter[int] = Counter()  # amendments on their way, by order
        self.journal: list[tuple[Any, ...]] | None = None  # events that change queues and money, for the enumeration of histories

    def place(self, ticker: int, side: int, action: int, price: int, lots: int, tif: int = GTC, expires: int = 0) -> int:
        """Place an order. Returns its number, or -1 if it is not logged."""
        if len(self.orders) >= self.settings.max_orders:
            return -1
        order = Order(len(self.orders), ticker, side, action, price, lots, tif, expires, self.now)
        self.orders.append(order)
        self.said[order.number] = ("pending", "", price, lots, 0)
        self._send(lambda at: self._arrive(order, at))
        self.unended.append(order)
        self.unsaid.append(order)
        self._say_at_once()
        return order.number

    def cancel(self, number: int) -> bool:
        """Cancel an order. Returns False if there was none to cancel."""
        if not 0 <= number < len(self.orders):
            return False
        order = self.orders[number]
        self.quotes = {place: quote for place, quote in self.quotes.items() if quote != number}
        could = self._may_live(order)
        self._send(lambda at: self._cancel(order, at))
        self._say_at_once()
        return could

    def amend(self, number: int, price: int, lots: int) -> str:
        """Amend an order. Returns the reason of a refusal, or an empty text."""
        if not 0 <= number < len(self.orders):
            return "not_resting"
        order = self.orders[number]
        if self._immediate:
            reason = self._amend(order, price, lots, self.now)
            self._say_at_once()
            return reason
        could = self._may_live(order)
        self.amending[number] += could
        self._send(lambda at: self._amend_late(order, price, lots, at, could))
        return "" if could else "not_resting"

    def _amend_late(self, order: Order, price: int, lots: int, at: int, could: bool) -> None:
        self.amending[order.number] -= could
        self._amend(order, price, lots, at)

    def cancel_all(self, ticker: int = -1) -> int:
        count = len([number for number in self.known().resting if ticker < 0 or self.orders[number].ticker == ticker])
        self.quotes = {place: quote for place, quote in self.quotes.items() if 0 <= ticker != place[0]}
        self._send(lambda at: self._cancel_all(ticker, at))
        self._say_at_once()
        return count

    def quote(self, ticker: int, yes: int, no: int, lots: int) -> None:
        """Keep one post-only bid on each side. A price of 0 removes it, -1 leaves it unchanged."""
        for side, price in enumerate((yes, no)):
            number = self.quotes.get((ticker, side))
            if price < 0 or number is None:
                continue
            if price == self._price(number) and not self.amending[number] and self._may_live(self.orders[number]):
                continue
            if self._may_live(self.orders[number]):
                self._send(partial(self._cancel, self.orders[number]))
            del self.quotes[ticker, side]
        for side, price in enumerate((yes, no)):
            if price > 0 and (ticker, side) not in self.quotes:
                number = self.place(ticker, side, BUY, price, lots, POST_ONLY)
                if number >= 0:
                    self.quotes[ticker, side] = number
        self._say_at_once()

    def _price(self, number: int) -> int:
        return self.known().orders.get(number, self.orders[number].as_sent)[2]

    def resting(self, ticker: int = -1) -> list[int]:
        """Return the numbers of resting orders by ticker and side, in price-time priority."""
        markets = self.markets if ticker < 0 else [self.markets[ticker]]
        return [order.number for market in markets for queue in market.queues for order in queue]

    @property
    def _immediate(self) -> bool:
        return self.settings.order_latency == 0 and self.settings.data_latency == 0

    def _send(self, act: Callable[[int], object]) -> None:
        if self._immediate:
            act(self.now)
        else:
            self.coming.append((self.now + self.settings.order_latency, act))

    def known(self) -> Known:
        """Return the present state of the account and its orders."""
        account = self.account.copy()
        for order in self.unended:
            if order.status != "pending":
                self.states[order.number] = (order.status, order.filled, order.price, order.count)
        self.unended = [order for order in self.unended if order.status in ("pending", "resting")]
        return Known(account.cash, self.reserved, account.position, account.basis, self.resting(), len(self.fills), self.states)

    def _may_live(self, order: Order) -> bool:
        status, *_ = self.known().orders.get(order.number, ("pending",))
        return status in ("pending", "resting")

    def _say_at_once(self) -> None:
        if self._immediate:
            self._say(self.now)

    def _say(self, at: int) -> None:
        """Report every order whose state differs from the last report."""
        for order in self.unsaid if self.tells else ():
            after = (order.status, order.reason, order.price, order.count, order.filled)
            if self.said[order.number] != after:
                self.updates.append(Update(at, order.number, *after))
                self.said[order.number] = after
        if self.tells:
            self.unsaid = [order for order in self.unsaid if order.status in ("pending", "resting")]

    def _arrive(self, order: Order, at: int) -> None:
        order.arrived = at
        if 0 <= order.ticker < len(self.markets):
            market = self.markets[order.ticker]
            bid, opposite = market.best(order.side), market.best(1 - order.side)
            order.mid2 = bid + DOLLAR - opposite if bid and opposite else -1
        reason = self._enter(order, order.count, at)
        if reason:
            order.end("rejected", reason, at)

    def _cancel_all(self, ticker: int, at: int) -> None:
        for market in self.markets if ticker < 0 else [self.markets[ticker]]:
            for order in [*market.queues[0], *market.queues[1]]:
                self._cancel(order, at)

    def _cancel(self, order: Order, at: int) -> None:
        self._record("leave", order.number)
        if order.status == "resting":
            self._leave(order, "cancelled", "agent", at)

    def _remove(self, order: Order) -> None:
        self.markets[order.ticker].queues[order.bid_side].remove(order)
        if order.tif == GTD:
            self.expiring.remove((order.expires, order.number))

    def _record(self, *entry: Any) -> None:
        if self.journal is not None:
            self.journal.append((self.clock, *entry))

    def _amend(self, order: Order, price: int, lots: int, at: int) -> str:
        if order.status != "resting":
            self._record("leave", order.number)
            return "not_resting"
        if self._bad_size(order, lots):
            return "bad_size"
        if price == order.price and lots <= order.remaining:
            self.reserves.pop(order.ticker, None)
            order.count = order.filled + lots
            self._record("shrink", order.number, order.count)
            return ""
        queue = self.markets[order.ticker].queues[order.bid_side]
        place, before = queue.index(order), (order.price, order.count)
        self.reserves.pop(order.ticker, None)
        self._remove(order)
        order.end("pending", "", -1)
        order.reprice(price, order.filled + lots)
        reason = self._enter(order, lots, at)
        if reason:
            order.reprice(*before)
            order.status = "resting"
            self.reserves.pop(order.ticker, None)
            queue.insert(place, order)
            self._watch(order)
        return reason

    def _leave(self, order: Order, status: str, reason: str, at: int) -> None:
        self._record("leave", order.number)
        order.end(status, reason, at)
        self.reserves.pop(order.ticker, None)
        self._remove(order)

    def _watch(self, order: Order) -> None:
        if order.tif == GTD:
            insort(self.expiring, (order.expires, order.number))

    def _let_go_of_filled(self, ticker: int, side: int) -> None:
        for order in list(self.markets[ticker].queues[side]):
            if order.status == "filled":
                self._remove(order)

    # Arrival

    def _enter(self, order: Order, lots: int, at: int) -> str:
        """Check an order. Unless it is refused, let it trade and rest."""
        reason = self._malformed(order, lots, at) or self._barred(order.ticker)
        if reason:
            return reason
        market = self.markets[order.ticker]
        other = 1 - order.bid_side
        plan = walk(order, lots, market.displayed[other], market.queues[other], self_trade=self.settings.self_trade)
        rests = self._would_rest(order, plan)
        reason = self._unacceptable(order, plan, rests=rests, at=at)
        if not reason:
            self._execute(order, plan, rests=rests, at=at)
        return reason

    def _bad_size(self, order: Order, lots: int) -> bool:
        rules = self.market_rules[order.ticker]
        return not rules.min_lots <= lots <= MAX_LOTS or lots <= 0 or lots % rules.lot_step != 0

    def _malformed(self, order: Order, lots: int, at: int) -> str:
        if not 0 <= order.ticker < len(self.markets):
            return "bad_ticker"
        if self._bad_size(order, lots):
            return "bad_size"
        if order.price == 0:
            if order.tif not in (IOC, FOK):
                return "bad_price"
        elif not 1 <= order.price < DOLLAR or order.price not in self.grid[order.ticker]:
            return "bad_price"
        return "expired" if order.tif == GTD and order.expires <= at else ""

    def _barred(self, ticker: int) -> str:
        market = self.markets[ticker]
        if market.settled:
            return "settled"
        if market.closed:
            return "closed"
        if market.halted:
            return "halted"
        if not market.has_book:
            return "no_book"
        return "" if market.valid else "invalid_book"

    def _would_rest(self, order: Order, plan: Walk) -> bool:
        if order.tif not in (GTC, POST_ONLY, GTD) or self.settings.execution == "taker_only" or plan.left == 0 or plan.stopped:
            return False
        return not plan.crosses or order.tif != POST_ONLY

    def _unacceptable(self, order: Order, plan: Walk, *, rests: bool, at: int) -> str:
        if rests and len(self.markets[order.ticker].queues[order.bid_side]) >= self.settings.max_resting:
            return "resting_limit"
        if self.settings.execution == "taker_only" and order.price != 0 and not plan.crosses:
            return "would_not_cross"
        if order.tif == POST_ONLY and plan.crosses:
            return "would_cross"
        if self._left_after(order, plan, rests=rests, at=at) < 0:
            return "insufficient_cash"
        return "fok_unfilled" if order.tif == FOK and plan.left > 0 else ""

    def _left_after(self, order: Order, plan: Walk, *, rests: bool, at: int) -> int:
        """Return cash less reserve after the order's possible effects."""
        account, accumulated = self.account.copy(), order.accumulated
        for price, lots in plan.takes:
            own = order.own_price(DOLLAR - price)
            fee, accumulated = self._fee(order, accumulated, own, lots, taker=True, at=at)
            account.fill(order.ticker, order.side, order.action, own, lots, fee)
        ticker, market = order.ticker, self.markets[order.ticker]
        queues = tuple([other for other in queue if other not in plan.cancels] for queue in market.queues)
        if rests:
            queue = queues[order.bid_side]
            would = Order(-1, ticker, order.side, order.action, order.price, plan.left, order.tif, 0, 0)
            queue.insert(sum(other.bid >= order.bid for other in queue), would)
        total = reserve(account, ticker, queues, self.terms, self.market_rules[ticker])
        total += sum(self._reserved(other) for other in range(len(self.markets)) if other != ticker)
        return account.cash - total

    def _execute(self, order: Order, plan: Walk, *, rests: bool, at: int) -> None:
        market, other = self.markets[order.ticker], 1 - order.bid_side
        for price, lots in plan.takes:
            market.consume(other, price, lots)
            self._record("take", order.number, other, price, lots)
            for own in market.queues[other]:
                if own.bid == price:
                    own.ahead = max(0, own.ahead - lots)
            self._book(order, order.own_price(DOLLAR - price), lots, taker=True, at=at)
            order.taken += lots
        for own in plan.cancels:
            self._leave(own, "cancelled", "self_trade", at)
        if plan.left == 0:
            order.end("filled", "", at)
        elif rests:
            order.status, order.reason, order.queued = "resting", "", at
            self.reserves.pop(order.ticker, None)
            market.join(order)
            self._record("join", order.number, order.bid_side, order.bid, plan.left)
            self._watch(order)
        else:
            order.end("cancelled", "self_trade" if plan.stopped else "remainder", at)
        if order.status != "resting":
            self._record("leave", order.number)

    # Money

    def _make(self, order: Order, lots: int) -> int:
        """Fill a resting order. Returns the lots filled."""
        if lots == 0:
            return 0
        after = self.account.copy()
        fee, _ = self._fee(order, order.accumulated, order.price, lots, taker=False, at=self.clock)
        after.fill(order.ticker, order.side, order.action, order.price, lots, fee)
        if after.cash < 0:
            self._leave(order, "cancelled", "insufficient_cash", self.clock)
            return 0
        self._book(order, order.price, lots, taker=False, at=self.clock)
        if order.remaining == 0:
            order.end("filled", "", self.clock)
        return lots

    def _book(self, order: Order, price: int, lots: int, *, taker: bool, at: int) -> None:
        fee, order.accumulated = self._fee(order, order.accumulated, price, lots, taker=taker, at=at)
        self.account.fill(order.ticker, order.side, order.action, price, lots, fee)
        self.reserves.pop(order.ticker, None)
        order.filled += lots
        order.cost += price * lots
        order.fees += fee
        role, wait = ("taker", 0) if taker else ("maker", at - order.queued)
        self.fills.append(Fill(order.number, order.ticker, order.side, order.action, price, lots, fee, role, at, wait))

    def _fee(self, order: Order, accumulated: int, price: int, lots: int, *, taker: bool, at: int) -> tuple[int, int]:
        terms, rules = self.terms[order.ticker], self.market_rules[order.ticker]
        kind, num, den = fees.taker_terms(terms) if taker else fees.maker_terms(terms)
        fee = 0 if at < terms[6] else fees.trade_fee(kind, num, den, rules.fee_unit, price, lots)
        revenue = (-1 if order.action == BUY else 1) * price * lots
        return fees.rounded(fee, revenue, accumulated, rules)

    @property
    def reserved(self) -> int:
        return sum(map(self._reserved, range(len(self.markets))))

    def _reserved(self, ticker: int) -> int:
        if ticker not in self.reserves:
            market = self.markets[ticker]
            self.reserves[ticker] = reserve(self.account, ticker, market.queues, self.terms, self.market_rules[ticker])
        return self.reserves[ticker]

    def equity(self, account: Known | Account | None = None) -> int:
        """Return cash, and positions at the prices at which they could be closed."""
        account = account or self.account
        return account.cash + sum(
            market.best(side) * lots
            for market, held in zip(self.markets, account.position, strict=True)
            for side, lots in enumerate(held)
            if lots
        )

    def mid_equity(self, account: Known | Account | None = None) -> int:
        """Return cash, and positions at the midpoints."""
        account = account or self.account
        twice = sum(
            (market.best(side) + DOLLAR - market.best(1 - side)) * lots
            for market, held in zip(self.markets, account.position, strict=True)
            for side, lots in enumerate(held)
            if lots
        )
        return account.cash + twice // 2
