"""Orders and money of the plain engine: arrival of orders, and costs of fills."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import ceil, floor
from typing import Any

from tests.reference.replay import fees
from tests.reference.replay.account import BUY, Account
from tests.reference.replay.bounds import Uncertainty, rounding
from tests.reference.replay.market import Market
from tests.reference.replay.orders import (
    DOLLAR,
    FAST,
    FOK,
    GTC,
    GTD,
    IOC,
    POST_ONLY,
    SLOW,
    Chain,
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
        self.account = Account.opened(len(tape.tickers), settings.bankroll, net=rules.netting == "net")
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
        self.chains: dict[tuple[int, int], Chain] = {}  # current quotes, by market and side
        self.amending: Counter[int] = Counter()  # amendments on their way, by order
        self.doubts = Uncertainty(len(tape.tickers))
        self.journal: list[tuple[Any, ...]] | None = None  # events that change queues and money, for the enumeration of histories

    def place(
        self, ticker: int, side: int, action: int, price: int, lots: int, tif: int = GTC, expires: int = 0, chain: Chain | None = None
    ) -> int:
        """Place an order. Returns its number, or -1 if it is not logged.

        `chain`: chain of a quote. Histories in which the chain has no order join with this one.
        """
        if len(self.orders) >= self.settings.max_orders:
            return -1
        order = Order(len(self.orders), ticker, side, action, price, lots, tif, expires, self.now)
        self.orders.append(order)
        if chain is not None:
            order.chain, order.joins = chain, (self._gone(chain, 0), self._gone(chain, 1))
            chain.under_way = [under_way or joins for under_way, joins in zip(chain.under_way, order.joins, strict=True)]
            chain.current = order.number
        self.said[order.number] = ("pending", "", price, lots, 0)
        self._send(lambda at: self._arrive(order, at))
        if self._immediate and order.reason == "no_book" and self.rules.trade_after_settlement:
            self.orders.pop()
            return -1
        self.unended.append(order)
        self.unsaid.append(order)
        self._say_at_once()
        return order.number

    def cancel(self, number: int) -> bool:
        """Cancel an order. Returns False if there was none to cancel."""
        if not 0 <= number < len(self.orders):
            return False
        order = self.orders[number]
        self.chains = {place: chain for place, chain in self.chains.items() if chain.current != number}
        could = self._may_live(order) or (self.rules.observations == "frozen" and order.status == "filled" and order.queued >= 0)
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
        self.chains = {place: chain for place, chain in self.chains.items() if 0 <= ticker != place[0]}
        self._send(lambda at: self._cancel_all(ticker, at))
        self._say_at_once()
        return count

    def quote(self, ticker: int, yes: int, no: int, lots: int) -> None:
        """Keep one post-only bid on each side. A price of 0 removes it, -1 leaves it unchanged."""
        missing = []
        for side, price in enumerate((yes, no)):
            chain = self.chains.get((ticker, side))
            if price < 0:
                continue
            if chain is not None and (price != self._known_price(chain.current) or self.amending[chain.current]):
                self._send(partial(self._cancel, self.orders[chain.current]))
                chain = None
                del self.chains[ticker, side]
            if chain is not None:
                chain.ask(lots)
            if chain is not None and self._may_live(self.orders[chain.current]):
                self._requote(chain, self.orders[chain.current], lots)
            elif price > 0:
                missing.append((side, price, chain or Chain(lots, largest=lots)))
        for side, price, chain in missing:
            if self.place(ticker, side, BUY, price, lots, POST_ONLY, 0, chain) >= 0:
                self.chains[ticker, side] = chain
        self._say_at_once()

    def _known_price(self, number: int) -> int:
        return self.known().orders.get(number, self.orders[number].as_sent)[2]

    def _gone(self, chain: Chain, index: int) -> bool:
        """Return True if the agent knows, in an extreme history, that no order of a chain rests or is on its way."""
        order = chain.lives[index]
        if index == SLOW and chain.diverged and chain.varied:
            return False
        if chain.under_way[index] or order is None:
            return not chain.under_way[index]
        lane = order.lanes[index]
        return not lane.remaining

    def _requote(self, chain: Chain, order: Order, lots: int) -> None:
        """Keep the main account's quote. An extreme history with a completely filled quote sends another, which counts as this order."""
        self._record("requote", id(chain), order.bid_side, order.bid, lots, not self._refuses(order))
        for index in (0, 1):
            if self._gone(chain, index):
                chain.under_way[index] = True
                self._send(partial(self._rejoin, chain, order, index, lots))
        self._send(lambda at: chain.may_grow(lots))

    def _refuses(self, order: Order) -> bool:
        return bool(self._barred(order.ticker)) or self.markets[order.ticker].best(1 - order.bid_side) >= DOLLAR - order.bid

    def _rejoin(self, chain: Chain, order: Order, index: int, lots: int, at: int) -> None:
        chain.under_way[index] = False
        market = self.markets[order.ticker]
        behind = [one for one in market.queues[order.bid_side] if one.bid == order.bid]
        barred = index == 0 and order in behind and behind[-1] is not order
        if self._refuses(order) or barred or order.status not in ("resting", "filled"):
            return
        if order not in behind:
            market.queue(order)
        lane = order.lanes[index]
        lane.cap, lane.ahead = lane.filled + lots, market.shown_within(order.bid_side, order.bid)[1 - index]
        order.loose = True
        chain.lives[index] = order
        chain.diverged = chain.diverged or index == FAST

    def resting(self, ticker: int = -1) -> list[int]:
        """Return the numbers of resting orders by ticker and side, in price-time priority."""
        markets = self.markets if ticker < 0 else [self.markets[ticker]]
        return [order.number for market in markets for queue in market.resting for order in queue]

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
        if order.chain is not None:
            order.chain.under_way = [under_way and not joins for under_way, joins in zip(order.chain.under_way, order.joins, strict=True)]

    def _cancel_all(self, ticker: int, at: int) -> None:
        for market in self.markets if ticker < 0 else [self.markets[ticker]]:
            for order in [*market.queues[0], *market.queues[1]]:
                self._cancel(order, at)

    def _cancel(self, order: Order, at: int) -> None:
        """Cancel an order in the main account and in all histories, including those in which an earlier order of its chain rests."""
        lives = order.chain.lives if order.chain and order.chain.current == order.number else []
        self._record("leave", order.number, id(order.chain) if lives else 0)
        for one in [order, *(life for life in lives if life is not None)]:
            if one.status == "resting":
                self._leave(one, "cancelled", "agent", at)
            else:
                self._end_lanes(one, at)

    def _end_lanes(self, order: Order, at: int) -> None:
        """End an order in all histories, and remove it from its queue."""
        for lane in order.lanes:
            lane.end(at)
        if order in (queue := self.markets[order.ticker].queues[order.bid_side] if 0 <= order.ticker < len(self.markets) else []):
            queue.remove(order)
            if order.tif == GTD:
                self.expiring.remove((order.expires, order.number))

    def _record(self, *entry: Any) -> None:
        if self.journal is not None:
            self.journal.append((self.clock, *entry))

    def _amend(self, order: Order, price: int, lots: int, at: int) -> str:
        if order.status != "resting":
            self._record("leave", order.number, 0)
            self._end_lanes(order, at)
            return "not_resting"
        if self._bad_size(order, lots):
            return "bad_size"
        if price == order.price and lots <= order.remaining:
            self.reserves.pop(order.ticker, None)
            order.count = order.filled + lots
            self._record("shrink", order.number, order.count)
            for lane in order.lanes:
                if lane.filled + lane.remaining > order.count:
                    lane.cap = order.count
                    lane.over = lane.over if lane.remaining else at
            return ""
        queue = self.markets[order.ticker].queues[order.bid_side]
        place, before = queue.index(order), (order.price, order.count)
        self.reserves.pop(order.ticker, None)
        queue.remove(order)
        if order.tif == GTD:
            self.expiring.remove((order.expires, order.number))
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
        self._record("leave", order.number, 0)
        order.end(status, reason, at)
        self.reserves.pop(order.ticker, None)
        self._end_lanes(order, at)

    def _watch(self, order: Order) -> None:
        if order.tif == GTD:
            insort(self.expiring, (order.expires, order.number))

    def _let_go_of_filled(self, ticker: int, side: int) -> None:
        for order in list(self.markets[ticker].queues[side]):
            if order.status == "filled" and not any(lane.remaining for lane in order.lanes):
                self._end_lanes(order, order.ended)

    # Arrival

    def _enter(self, order: Order, lots: int, at: int) -> str:
        """Check an order. Unless it is refused, let it trade and rest."""
        reason = self._malformed(order, lots, at) or self._barred(order.ticker)
        if reason:
            return reason
        market = self.markets[order.ticker]
        other = 1 - order.bid_side
        plan = walk(order, lots, market.displayed[other], market.resting[other], self_trade=self._self_trade)
        rests = self._would_rest(order, plan)
        reason = self._unacceptable(order, plan, rests=rests, at=at)
        if not reason:
            self._execute(order, plan, rests=rests, at=at)
        return reason

    @property
    def _self_trade(self) -> str:
        return "allowed" if self.rules.self_trade_allowed else self.settings.self_trade

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
        elif not 1 <= order.price < DOLLAR or (
            order.price not in self.grid[order.ticker] if self.rules.grid == "market" else order.price % 10
        ):
            return "bad_price"
        return "expired" if order.tif == GTD and order.expires <= at else ""

    def _barred(self, ticker: int) -> str:
        market = self.markets[ticker]
        if market.settled and not self.rules.trade_after_settlement:
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
        if order.tif == GTD and not self.rules.gtd_rests:
            return False
        return not plan.crosses or (order.tif != POST_ONLY and self.rules.remainder_rests)

    def _unacceptable(self, order: Order, plan: Walk, *, rests: bool, at: int) -> str:
        if rests and len(self.markets[order.ticker].resting[order.bid_side]) >= self.settings.max_resting:
            return "resting_limit"
        if self.settings.execution == "taker_only" and order.price != 0 and not plan.crosses:
            return "would_not_cross"
        if order.tif == POST_ONLY and plan.crosses:
            return "would_cross"
        if self.rules.collateral and self._left_after(order, plan, rests=rests, at=at) < 0:
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
        queues = tuple([other for other in queue if other not in plan.cancels] for queue in market.resting)
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
            if self.rules.consume:
                market.consume(other, price, lots)
                market.consume_within(other, price, lots, lots)
            self._record("take", order.number, other, price, lots)
            if not self.rules.self_trade_allowed:
                for own in market.queues[other]:
                    if own.bid == price:
                        for place in (own, *own.lanes):
                            place.ahead = max(0, place.ahead - lots)
            self._book(order, order.own_price(DOLLAR - price), lots, taker=True, at=at)
            order.taken += lots
        for own in plan.cancels:
            self._leave(own, "cancelled", "self_trade", at)
        for lane in order.lanes:
            lane.filled += sum(lots for _, lots in plan.takes)
            lane.cap = lane.filled
        if plan.left == 0:
            order.end("filled", "", at)
            for lane in order.lanes:
                lane.complete(at)
        elif rests:
            order.status, order.reason, order.queued = "resting", "", at
            self.reserves.pop(order.ticker, None)
            market.join(order, behind_own=self.rules.join == "behind_own")
            self._enter_lanes(order, plan.left)
            self._watch(order)
        else:
            order.end("cancelled", "self_trade" if plan.stopped else "remainder", at)
        if order.status != "resting":
            self._record("leave", order.number, 0)

    def _enter_lanes(self, order: Order, lots: int) -> None:
        chain = order.chain
        self._record("join", order.number, order.bid_side, order.bid, lots, id(chain) if chain else 0)
        for index, lane in enumerate(order.lanes):
            lane.cap += lots * order.joins[index]
            if chain is not None and order.joins[index]:
                chain.lives[index] = order
        if chain is not None and all(order.joins):
            chain.lots, chain.varied, chain.diverged = lots, False, False
        elif chain is not None:
            order.loose, chain.diverged = True, chain.diverged or order.joins[FAST]
            chain.may_grow(lots)

    # Money

    def _make(self, order: Order, lots: int) -> int:
        """Fill a resting order. Returns the lots filled."""
        if lots == 0:
            return 0
        price = order.bid if order.action != BUY and self.rules.maker_sell_price == "canonical" else order.price
        if self.rules.collateral:
            after = self.account.copy()
            fee, _ = self._fee(order, order.accumulated, price, lots, taker=False, at=self.clock)
            after.fill(order.ticker, order.side, order.action, price, lots, fee)
            if after.cash < 0:
                self._leave(order, "cancelled", "insufficient_cash", self.clock)
                return 0
        self._book(order, price, lots, taker=False, at=self.clock)
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
        dear, cheap = rates = self._rates(order)
        bid = price if order.action == BUY else DOLLAR - price
        self.doubts.note(order, bid, rates)
        if taker:
            order.possible += 1
        else:
            order.maker_fees += fee
            order.exact_fees = order.exact_fees[0] + dear * lots, order.exact_fees[1] + cheap * lots
        role, wait = ("taker", 0) if taker else ("maker", at - order.queued)
        self.fills.append(Fill(order.number, order.ticker, order.side, order.action, price, lots, fee, role, at, wait))

    def _rates(self, order: Order) -> tuple[Fraction, Fraction]:
        """Return the exact maker fees per lot for the lower and the upper end. If a waiver ends within the recording, histories may or may
        not pay.
        """
        terms = self.terms[order.ticker]
        rate = fees.exact_fee(*fees.maker_terms(terms), order.price, 1)
        return rate, rate if terms[6] <= self.start else Fraction(0)

    def _fee(self, order: Order, accumulated: int, price: int, lots: int, *, taker: bool, at: int) -> tuple[int, int]:
        terms, rules = self.terms[order.ticker], self.market_rules[order.ticker]
        kind, num, den = fees.taker_terms(terms) if taker else fees.maker_terms(terms)
        fee = 0 if at < terms[6] else fees.trade_fee(kind, num, den, rules.fee_unit, price, lots)
        revenue = (-1 if order.action == BUY else 1) * price * lots
        return fees.rounded(fee, revenue, accumulated, rules)

    @property
    def reserved(self) -> int:
        if not self.rules.collateral:
            return 0
        return sum(map(self._reserved, range(len(self.markets))))

    def _reserved(self, ticker: int) -> int:
        if ticker not in self.reserves:
            market = self.markets[ticker]
            self.reserves[ticker] = reserve(self.account, ticker, market.resting, self.terms, self.market_rules[ticker])
        return self.reserves[ticker]

    def equity(self, account: Known | Account | None = None) -> int:
        """Return cash, and positions at the prices at which they could be closed."""
        account = account or self.account
        return account.cash + sum(
            self._closing_price(market, side, long=lots > 0) * lots
            for market, held in zip(self.markets, account.position, strict=True)
            for side, lots in enumerate(held)
            if lots
        )

    def _closing_price(self, market: Market, side: int, *, long: bool) -> int:
        bid = market.best(side if long else 1 - side)
        if bid == 0 and self.rules.mark_missing == "fifty":
            return DOLLAR // 2
        return bid if long else DOLLAR - bid

    def mid_equity(self, account: Known | Account | None = None) -> int:
        """Return cash, and positions at the midpoints."""
        account = account or self.account
        twice = sum(
            self._mid2(market, side) * lots
            for market, held in zip(self.markets, account.position, strict=True)
            for side, lots in enumerate(held)
            if lots
        )
        return account.cash + twice // 2

    def _mid2(self, market: Market, side: int) -> int:
        bid, opposite = market.best(side), market.best(1 - side)
        if self.rules.mark_missing == "fifty" and not (bid and opposite):
            return DOLLAR
        return bid + DOLLAR - opposite

    def band(self) -> tuple[int, int]:
        """Return the minimum and maximum equity over all histories, at the main account's marks."""
        equity = self.equity()
        if not self.account.net:
            return equity, equity
        low, high = rounding(self.orders, self.terms, self.market_rules)
        for ticker, (market, (yes, no)) in enumerate(zip(self.markets, self.account.position, strict=True)):
            less, more = self.doubts.now(ticker, market.best(0), DOLLAR - market.best(1), yes - no)
            low, high = low + less, high + more
        return equity + floor(low), equity + ceil(high)
