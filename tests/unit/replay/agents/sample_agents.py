"""Agents that use all of the context, and agents that fail in known ways."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import numpy as np

from bellwether.replay import CENT, CONTRACT, DOLLAR, NO, SECOND, YES, Agent, OrderError


class Everything(Agent):
    """Make random calls, and derive the next orders from their results."""

    def __init__(self, seed: int = 0) -> None:
        self.offset = seed

    def start(self, ctx: Any, episode: Any) -> None:
        self.orders: list[Any] = []
        self.heard = ctx.cash + ctx.equity + ctx.now_ns + len(episode.exogenous)
        self.heard += int(ctx.bids.sum()) + len(ctx.book(ctx.tickers[0]).yes_bids) + len(ctx.resting())
        try:
            ctx.buy(ctx.tickers[0], YES, CONTRACT, 44 * CENT)
        except OrderError:
            self.heard += 1

    def act(self, ctx: Any) -> None:
        draw = ctx.random
        market = draw.choice(ctx.markets())
        size = 100 * (1 + self._hear(ctx, market) % 7)
        for _ in range(3):
            draw.choice((self._bid, self._take, self._manage, self._quote, self._many, self._wrong))(ctx, market, size)

    def end(self, ctx: Any) -> None:
        assert all(order.status in ("filled", "cancelled", "rejected", "expired", "resting") for order in self.orders)
        assert ctx.equity == ctx.cash

    def _hear(self, ctx: Any, market: Any) -> int:
        book = ctx.book(market.ticker, ctx.random.choice((None, 1, 0)))
        read_values = [ctx.cash, ctx.available, ctx.equity, ctx.step, ctx.now_ns // 10**9, self.offset, market.yes_bid or 0]
        read_values += [sum(price * lots for price, lots in book.yes_bids + book.no_asks), market.yes_bid_lots, market.no_position]
        read_values += [int((DOLLAR - ctx.bids[:, NO]).sum() + ctx.sizes[:, NO].sum() + ctx.active.sum() + ctx.positions.sum())]
        read_values += [order.filled + order.cost + order.fees + len(order.status) + len(order.reason or "") for order in self.orders]
        read_values += [order.id * order.remaining for order in ctx.resting()]
        read_values += [
            one.time_ns + one.lots * one.yes_price + len(one.taker_side) for one in ctx.trades(ctx.random.choice((None, market.ticker)))
        ]
        read_values += [hash((one.order, one.price, one.fee, len(one.role))) for one in ctx.fills(whole_run=ctx.random.random() < 0.5)]
        read_values += [one.pnl + one.realised + one.yes_cost + one.no_lots for one in (*ctx.portfolio(), ctx.position(market.ticker))]
        for name in ctx.info.exogenous:
            ts, values = ctx.exogenous(name)
            read_values += [int(ts.sum()) // 10**9, int(values.sum() * 100)]
        self.heard = hash((self.heard, *read_values)) % 2**40
        return self.heard

    def _bid(self, ctx: Any, market: Any, size: int) -> None:
        self.orders.append(
            ctx.buy(market.ticker, ctx.random.choice((YES, NO)), size, ctx.random.choice((44 * CENT, 45 * CENT, 47 * CENT, DOLLAR)))
        )

    def _take(self, ctx: Any, market: Any, size: int) -> None:
        self.orders.append(ctx.sell(market.ticker, "yes", size) if market.yes_position > 200 else ctx.buy(market.ticker, "no", size))

    def _manage(self, ctx: Any, market: Any, size: int) -> None:
        for order in self.orders[-3:]:
            self.heard += 1 if ctx.amend(order, 43 * CENT, size) is None else 2
        if self.orders:
            self.heard += ctx.cancel(self.orders[0]) + ctx.cancel(self.orders[-1]) + sum(order.is_resting for order in self.orders)
            self.heard += ctx.order(self.orders[0].id).lots
        self.heard += ctx.cancel_all(ctx.random.choice((None, market.ticker))) if self.heard % 3 == 0 else 0

    def _quote(self, ctx: Any, market: Any, size: int) -> None:
        ctx.quote(
            market.ticker, ctx.random.choice((None, 43 * CENT, 44 * CENT)), ctx.random.choice((None, 49 * CENT, DOLLAR, 101 * CENT)), size
        )
        ctx.quote_many(np.full((len(ctx.tickers), 2), ctx.random.choice((0, -1, 42 * CENT))), size)

    def _many(self, ctx: Any, market: Any, size: int) -> None:
        for side, price in ((YES, 43 * CENT), (NO, 50 * CENT), (NO, 5)):
            order = ctx.buy(market.ticker, side, size, price)
            self.orders += [order] if order.id >= 0 else []

    def _wrong(self, ctx: Any, market: Any, size: int) -> None:
        for call in (
            lambda: ctx.buy("X", YES, 1),
            lambda: ctx.cancel(10**6),
            lambda: ctx.order(-9),
            lambda: ctx.exogenous("none"),
            lambda: ctx.buy(market.ticker, 7, size, 43 * CENT),
        ):
            try:
                call()
            except OrderError as error:
                self.heard += len(str(error))


class Listens(Everything):
    """Trade also in `on_fill` and `on_trade`, according to their arguments."""

    def on_fill(self, ctx: Any, fill: Any) -> None:
        self.heard += fill.time_ns // 10**9 + fill.lots + fill.cost + fill.fee
        if fill.role == "maker" and self.heard % 3:
            self.orders.append(ctx.buy(fill.ticker, "no" if fill.side == "yes" else "yes", fill.lots))

    def on_order(self, ctx: Any, update: Any) -> None:
        self.heard += (
            update.time_ns // 10**9 + update.order + update.price + update.remaining + len(update.status) + len(update.reason or "")
        )
        if update.status == "cancelled" and self.heard % 2:
            self.orders.append(ctx.buy(update.ticker, update.side, 100, 43 * CENT))

    def on_trade(self, ctx: Any, trade: Any) -> None:
        self.heard += trade.time_ns // 10**9 + trade.yes_price + ctx.now_ns // 10**9
        self.orders.append(ctx.buy(trade.ticker, trade.taker_side, 100, trade.yes_price - CENT, tag="after a trade"))
        self._hear(ctx, ctx.market(trade.ticker))

    def on_book(self, ctx: Any, ticker: str) -> None:
        self.heard += ctx.now_ns // 10**9 + (ctx.market(ticker).yes_bid or 1)


class FailsAtFill(Agent):
    """Divide by zero at a fill."""

    def act(self, ctx: Any) -> None:
        ctx.buy(ctx.tickers[0], YES, CONTRACT, 45 * CENT)

    def on_fill(self, ctx: Any, fill: Any) -> None:
        fill.lots / 0


class FailsAtOrder(Agent):
    """Divide by zero at the update of a filled order."""

    def act(self, ctx: Any) -> None:
        ctx.buy(ctx.tickers[0], YES, CONTRACT, 45 * CENT)

    def on_order(self, ctx: Any, update: Any) -> None:
        if update.status == "filled":
            update.remaining / 0


class ReturnsAtTrade(Agent):
    """Return a value from `on_trade`."""

    def act(self, ctx: Any) -> None:
        ctx.buy(ctx.tickers[0], YES, CONTRACT, 45 * CENT)

    def on_trade(self, ctx: Any, trade: Any) -> Any:
        return trade.ticker


class Fails(Agent):
    """Divide by zero at the third decision."""

    def act(self, ctx: Any) -> None:
        ctx.buy(ctx.tickers[0], YES, CONTRACT, 44 * CENT)
        if ctx.step == 2:
            print("printed by it")  # noqa: T201
            self._divide(0)

    def _divide(self, by: int) -> float:
        return 1 / by


class Waits(Agent):
    """Do nothing."""

    timed = False

    def act(self, ctx: Any) -> None:
        pass


class BadName(Agent):
    """Agent whose name contains terminal control characters."""

    name = "bad\x1b[31m"

    def act(self, ctx: Any) -> None:
        pass


class Tags(Agent):
    """Tag orders, and record where the tags appear."""

    def start(self, ctx: Any, episode: Any) -> None:
        self.seen: list[str] = []

    def act(self, ctx: Any) -> None:
        if ctx.step == 0:
            order = ctx.buy("M-0", YES, CONTRACT, 45 * CENT, tag="rests")
            ctx.quote("M-0", 44 * CENT, None, CONTRACT, tag="quoted")
            ctx.buy("M-0", YES, CONTRACT)
            self.seen += [order.tag, *(one.tag for one in ctx.resting())]
        if ctx.step == 2:
            self.seen += [fill.tag for fill in ctx.fills(whole_run=True)]
            if self.seen != ["rests", "rests", "quoted", "told rests", "", "rests"]:
                raise ValueError(self.seen)

    def on_order(self, ctx: Any, update: Any) -> None:
        if update.status == "filled" and update.tag:
            self.seen.append(f"told {update.tag}")


class Timed(Agent):
    """Set timers, and record the times of calls."""

    def start(self, ctx: Any, episode: Any) -> None:
        self.calls: list[tuple[str, int, int]] = []
        ctx.at(ctx.now_ns + 7 * SECOND)

    def act(self, ctx: Any) -> None:
        self.calls.append(("act", ctx.now_ns // SECOND, 0))
        if ctx.step == 0:
            for seconds in (100, 30, 30, 60):
                ctx.at(ctx.now_ns + seconds * SECOND)
            ctx.at(ctx.now + timedelta(seconds=45))

    def on_timer(self, ctx: Any, time_ns: int) -> None:
        self.calls.append(("timer", ctx.now_ns // SECOND, time_ns // SECOND))
        if time_ns == 30 * SECOND:
            ctx.buy("M-0", YES, CONTRACT, 44 * CENT)

    def end(self, ctx: Any) -> None:
        expected = [("act", 0, 0), *(("timer", at, at) for at in (7, 30, 30, 45))]
        at_a_minute = self.calls[5:7]
        rest = [("timer", 100, 100), ("act", 120, 0)]
        if self.calls[:5] != expected or set(at_a_minute) != {("act", 60, 0), ("timer", 60, 60)} or self.calls[7:9] != rest:
            raise ValueError(self.calls)


class Breaks(Agent):
    """Fail or hang before the first decision."""

    def __init__(self, how: str) -> None:
        if how == "hangs":
            threading.Event().wait(600)
        raise ZeroDivisionError("made of nothing")

    def act(self, ctx: Any) -> None: ...
