"""Port to a session of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import Any

import numpy as np

from bellwether.replay.agents.agent import PhaseCaller
from bellwether.replay.agents.limits import Failure
from bellwether.replay.agents.port import Conditions, News, rows_of, store_tag
from bellwether.replay.engine import ReplayOutcome, Session, codes
from bellwether.replay.engine.clock import AT_DECISION
from bellwether.replay.engine.state import NEVER
from bellwether.replay.preparation import Prepared
from bellwether.replay.results.markouts import quote_times
from bellwether.replay.settings import BacktestSettings
from bellwether.units import CentiCents, Lots

#: Maximum pending timers.
MOST_TIMERS = 10_000


class LocalPort:
    """Port to a session of this process, which also collects the news for an agent's callbacks.

    Attributes:
        session: Session of the prepared episodes.
        tags: Labels of orders by id.
    """

    def __init__(self, prepared: Prepared, settings: BacktestSettings) -> None:
        session = self.session = Session(prepared.tape, prepared.rules, settings)
        self._prepared, self._delay = prepared, settings.data_latency
        self._series = list(prepared.exogenous.values())
        self.tags: dict[int, str] = {}
        self._callbacks: Sequence[str] = ()
        self._between = False
        self._timers: list[int] = []
        self._calls: dict[str, Callable[..., Any]] = {
            # Bound methods of arrays that are updated in place: the most frequent reads need no Python frame.
            "bids": session.best.copy,
            "positions": session.positions.copy,
            "status": session.status.copy,
            "sizes": lambda: session.sizes,
            "now": lambda: session.now,
            "sent": lambda: session.order_count,
            "cash": lambda: session.cash,
            "available": lambda: session.available,
            "equity": session.equity,
            "order": session.order,
            "refusal": lambda: int(codes.Reason.ORDER_LIMIT),
            "book": self._book,
            "resting": session.resting,
            "points": self._points,
            "trades": self._trades,
            "fills": self._fills,
            "ledger": self._ledger,
            "conditions": self._conditions,
            "place": self._place,
            "cancel": session.cancel,
            "cancel_all": session.cancel_all,
            "amend": session.amend,
            "quote": self._quote,
            "quote_many": self._quote_many,
            "timer": self._timer,
        }

    def read(self, name: str, *arguments: Any) -> Any:
        """Return an observation."""
        return self._calls[name](*arguments)

    send = read

    # Phases.

    def run(self, call: PhaseCaller, callbacks: Sequence[str]) -> Failure | None:
        """Run an agent through all phases of the session. Returns the failure that stopped the agent early; None without one."""
        session, has_callbacks = self.session, bool(callbacks)
        if has_callbacks:
            self.watch(callbacks)
        opened = session.open()
        failed = call("start", -1, None)
        stop = AT_DECISION if opened else failed is None and session.advance()
        while stop and failed is None:
            self._between = bool(stop != AT_DECISION)
            if not self._between:
                failed = call("act", session.step_index, None)
            if has_callbacks:
                while failed is None and (news := self._news()) is not None:
                    self._between = True
                    failed = call("notify", session.step_index, news)
            stop = failed is None and session.advance()
        self.finish(failed)
        return failed or call("end", session.steps, None)

    def finish(self, failed: Failure | None) -> Failure | None:
        """Replay the rest of the session without the agent, and return `failed`. After a failure, the agent's resting orders are cancelled
        first.
        """
        if failed is not None:
            self.session.cancel_all()
        while self.session.step():
            pass
        return failed

    def outcome(self) -> ReplayOutcome:
        """Return the outcome of the finished session."""
        return self.session.result()

    def watch(self, callbacks: Sequence[str]) -> None:
        """Make the session pause at every event for which the agent has a callback. Must be called before the session's first step."""
        self._callbacks = callbacks
        if set(callbacks) - {"on_timer"}:
            self.session.watch(
                quote_times(self.session.tape) if "on_book" in callbacks else None,
                fills="on_fill" in callbacks,
                orders="on_order" in callbacks,
                books="on_book" in callbacks,
                trades=self._prepared.trades if "on_trade" in callbacks else None,
            )

    def _news(self) -> News | None:
        """Return what the agent's callbacks have not seen yet; None if nothing is new."""
        session, timers = self.session, []
        while self._timers and self._timers[0] <= session.now:
            timers.append(heappop(self._timers))
        if timers:
            session.set_timer(self._timers[0] if self._timers else NEVER)
        news = (*session.news(), timers)
        return news if any(news) else None

    # Observations.

    def _book(self, market: int, depth: int) -> tuple[tuple[tuple[int, int], ...], ...]:
        depths = [levels for levels in (depth, self._prepared.info.observation_depth) if levels >= 0]
        sides = (self.session.levels(market, side, min(depths) if depths else None) for side in (0, 1))
        return tuple(tuple(zip(prices.tolist(), lots.tolist(), strict=True)) for prices, lots in sides)

    def _points(self, series: int, after: int) -> tuple[np.ndarray, np.ndarray]:
        ts, values = self._series[series]
        known = int(np.searchsorted(ts, self.session.now - self._delay, side="right"))
        return ts[after:known], values[after:known]

    @cached_property
    def _trade_times(self) -> np.ndarray:
        return np.ascontiguousarray(self._prepared.trades[:, 0])

    def _count_trades(self, now: int) -> int:
        """Return the number of trades that the agent knows at a time, ns UTC."""
        return int(np.searchsorted(self._trade_times, now - self._delay, side="right"))

    def _trades(self, market: int) -> np.ndarray:
        last = self.session.step_index - (0 if self._between else 1)
        since = int(np.searchsorted(self._trade_times, self.session.decisions[last], side="right")) if last >= 0 else 0
        trades = self._prepared.trades[since : self._count_trades(self.session.now)]
        return rows_of(trades, trades[:, 1], market)

    def _fills(self, market: int, whole: int) -> np.ndarray:
        first = 0 if whole else self.session.fills_before[self._between]
        fills = self.session.fills[first:]
        return rows_of(fills, fills["market"], market)

    def _ledger(self, market: int) -> list[list[Any]]:
        session = self.session
        chosen = slice(None) if market < 0 else slice(market, market + 1)
        columns = (session.positions[chosen].tolist(), session.ledger[chosen].tolist(), session.best[chosen].tolist())
        return [
            [*lots, *money, lots[0] * bids[0] + lots[1] * bids[1] - money[0] - money[1]] for lots, money, bids in zip(*columns, strict=True)
        ]

    def _conditions(self) -> Conditions:
        session, tape = self.session, self.session.tape
        grids = tuple(levels[np.flatnonzero(grid[: len(levels)])] for levels, grid in zip(tape.levels, tape.grids, strict=False))
        return Conditions(session.rules, session.settings, tape.fees, grids, tape.units, tape.digest)

    # Orders and timers.

    def _place(  # noqa: PLR0917
        self, market: int, side: int, action: int, price: CentiCents, lots: Lots, tif: int, expires: int, tag: str
    ) -> int:
        order = self.session.place(market, side, action, price, lots, tif, expires)
        store_tag(self.tags, order, tag)
        return order

    def _quote(self, market: int, yes_price: CentiCents, no_price: CentiCents, lots: Lots, tag: str) -> tuple[int, int]:
        self.session.quote(market, yes_price, no_price, lots)
        quoted = self.session.quoted.item
        orders = quoted(2 * market), quoted(2 * market + 1)
        if tag:
            store_tag(self.tags, orders, tag)
        return orders

    def _quote_many(self, prices: np.ndarray, lots: Lots, tag: str) -> np.ndarray:
        self.session.quote_many(prices, lots)
        orders = self.session.quoted.reshape(-1, 2).copy()
        if tag:
            store_tag(self.tags, orders, tag)
        return orders

    def _timer(self, time: int) -> str:
        if time <= self.session.now:
            return f"{time} is not later than now ({self.session.now}); give a later time"
        if "on_timer" not in self._callbacks:
            return "the agent has no on_timer(self, ctx, time_ns); write one"
        if len(self._timers) >= MOST_TIMERS:
            return f"{MOST_TIMERS:,} timers are already pending; set later ones in on_timer"
        heappush(self._timers, time)
        self.session.set_timer(self._timers[0])
        return ""
