"""Simulator side of the agent interface: `Gateway` answers an agent's calls with copies of the simulator's data, as long as the tool-call
budget lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bellwether.replay.agents.interface import (
    FILL_COLUMNS,
    MOST_ROWS,
    MOST_TIMERS,
    TIMER_PAST,
    TIMER_SET,
    TIMER_WITHOUT_CALLBACK,
    TIMERS_USED_UP,
    TRADE_COLUMNS,
    BookSides,
    Row,
)
from bellwether.replay.agents.records import Callbacks, News
from bellwether.replay.engine import codes
from bellwether.replay.engine.marks import unrealised_pnl
from bellwether.replay.units import DOLLAR
from bellwether.units import CentiCents, Lots, MicroDollars

if TYPE_CHECKING:
    from bellwether.replay.engine import ReplaySettings as EngineSettings
    from bellwether.replay.engine import Session
    from bellwether.replay.rules import RuleSet

_RESTING, _FILLED = int(codes.Status.RESTING), int(codes.Status.FILLED)

#: Visible columns of the engine's orders, in the order of a `Row`. The queue position is not visible.
ORDER_COLUMNS = (
    codes.O_TICKER,
    codes.O_SIDE,
    codes.O_ACTION,
    codes.O_PRICE,
    codes.O_COUNT,
    codes.O_FILLED,
    codes.O_STATUS,
    codes.O_REASON,
    codes.O_COST,
    codes.O_FEES,
)
TICKER, SIDE, ACTION, PRICE, LOTS, FILLED, STATUS, REASON, COST, FEES = range(len(ORDER_COLUMNS))
#: Columns of `UPDATE_COLUMNS` that come from the order itself.
_SENT_AS = [codes.O_TICKER, codes.O_SIDE, codes.O_ACTION]
#: `FILL_COLUMNS` are the first columns of the engine's fills.
_FILL_WIDTH = len(FILL_COLUMNS)
#: Timer value without a pending timer.
_NEVER = 2**63 - 1


def _empty_trades() -> np.ndarray:
    return np.zeros((0, len(TRADE_COLUMNS)), np.int64)


@dataclass(frozen=True, eq=False)
class Conditions:
    """Terms under which an episode is traded: rules, settings, fees, allowed prices and tool-call budget.

    Attributes:
        rules: Rule set.
        settings: Settings of the engine.
        fees: Rows of `fee_terms`, int64[T, F].
        grids: Allowed prices of each market at its start, $0.0001.
        units: Units of each market of a portfolio, int64[T, 6], as `Tape.units`; empty if all markets use the units of the rules.
        tape_digest: SHA-256 of the tape's content.
        calls_per_step: Tool calls per decision.
    """

    rules: RuleSet
    settings: EngineSettings
    fees: np.ndarray
    grids: Sequence[np.ndarray]
    units: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    tape_digest: str = ""
    calls_per_step: int = 100


class Gateway:
    """Implementation of `Simulator` for one run. Each method checks its arguments and the budget before it reads or changes the session.

    Args:
        session: Session of the engine.
        frozen: Cash, equity and resting orders keep their values from the start of the decision.
        calls_per_step: Tool calls per decision.
        data_latency: Delay until the agent sees an event, ns.
        observation_depth: Visible levels of a book per side; -1 for all.
        series: Times (ns UTC) and values of each exogenous series of the episode, by name. Future points are never returned.
        trades: Function that returns all trades of the episode by time, int64[n, 5], with the columns `TRADE_COLUMNS`. Future trades are
            never returned.

    Attributes:
        tags: Labels of orders, by order number.
    """

    def __init__(
        self,
        session: Session,
        *,
        frozen: bool = False,
        calls_per_step: int = 100,
        data_latency: int = 0,
        observation_depth: int = -1,
        series: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        trades: Callable[[], np.ndarray] = _empty_trades,
    ) -> None:
        self._session, self._frozen, self._limit, self._left = session, frozen, calls_per_step, 0
        self._sends = False
        self._delay, self._shown, self._series = data_latency, observation_depth, list((series or {}).values())
        self._tickers = len(session.positions)
        # Bound methods of arrays that are updated in place: the most frequent reads need no Python frame.
        self.bids, self.positions, self.status = session.best.copy, session.positions.copy, session.status.copy
        self._cash, self._equity, self._known_orders = session.cash, session.cash, 0
        self._dropped: set[int] = set()
        self._cancelled: set[int] = set()
        self._read_trades, self._fill_count = trades, session.fill_count
        #: The call is between decisions; its instant has passed.
        self._between = self._is_over = False
        self._callbacks = Callbacks()
        #: Numbers of fills and trades passed to callbacks, and the best prices last compared.
        self._reported_fills = self._reported_trades = 0
        self._reported_bids = self.bids()
        self._timers: list[int] = []
        self.tags: dict[int, str] = {}

    def begin(self, *, sends: bool = True) -> None:
        """Start a decision with a full budget of tool calls. sends: whether the agent may send orders."""
        self._left, self._sends = self._limit, sends
        self._between = self._is_over = False
        if self._frozen:
            self._freeze()

    def wake(self, *, stopped: bool) -> None:
        """Start a callback with a full budget of tool calls. stopped: no callback yet, but the session has just paused between two decisions."""
        self._left, self._sends, self._between, self._is_over = self._limit, True, True, self._is_over or stopped
        if self._frozen:
            self._freeze()

    def _freeze(self) -> None:
        """Copy cash, equity and resting orders. Under rules with frozen observations the agent sees these copies until it is called again."""
        self._cash, self._equity, self._known_orders = self._session.cash, self._session.equity(), len(self._session.orders)
        self._dropped |= self._cancelled
        self._cancelled.clear()

    def end(self) -> None:
        """Refuse all calls that cost budget until the next decision."""
        self._left = 0

    # Callbacks between decisions.

    def watch(self, callbacks: Callbacks) -> None:
        """Make the session pause at every event for which the agent has a callback. Must be called before the session's first step."""
        times = []
        self._callbacks = callbacks
        if callbacks.on_trade:
            self._reported_trades = int(np.searchsorted(self._trade_times, self._session.tape.start - self._delay, side="right"))
            times.append(self._trade_times)
        if callbacks.on_book:
            times.append(self._quote_times())
        if callbacks.needs_news:
            self._session.stop_at_news(np.concatenate(times) if times else None, fills=callbacks.on_fill, orders=callbacks.on_order)

    def news(self) -> News | None:
        """Return what the agent's callbacks have not seen: fills, order updates, trades, markets with changed best prices, and due timers;
        None if nothing is new.
        """
        watched, fills, trades, books, timers = self._callbacks, [], [], [], []
        orders = self._updates() if watched.on_order else []
        if watched.on_fill and self._reported_fills < self._fill_count():
            fills = self._session.fills[self._reported_fills :, :_FILL_WIDTH].tolist()
            self._reported_fills = self._session.report_fills()
        if watched.on_trade and (until := self._known_trade_count()) > self._reported_trades:
            trades, self._reported_trades = self._trades[self._reported_trades : until].tolist(), until
        if watched.on_book:
            bids = self.bids()
            books, self._reported_bids = np.flatnonzero((bids != self._reported_bids).any(axis=1)).tolist(), bids
        if self._timers and self._timers[0] <= self._session.now:
            while self._timers and self._timers[0] <= self._session.now:
                timers.append(heappop(self._timers))
            self._session.set_timer(self._timers[0] if self._timers else _NEVER)
        news = (fills, orders, trades, books, timers)
        return news if any(news) else None

    def _updates(self) -> list[list[int]]:
        """Return the order updates that `on_order` has not yet received, as rows of `UPDATE_COLUMNS`."""
        rows = self._session.updates()
        return np.hstack([rows[:, : codes.U_FILLED + 1], self._session.orders[rows[:, codes.U_ORDER]][:, _SENT_AS]]).tolist()

    # Observations without cost, documented in `Simulator`.

    def now(self) -> int:
        return self._session.now

    def sent(self) -> int:
        return len(self._session.orders)

    def cash(self) -> MicroDollars:
        return self._cash if self._frozen else self._session.cash

    def available(self) -> MicroDollars:
        return self._session.available

    def equity(self) -> MicroDollars:
        return self._equity if self._frozen else self._session.equity()

    def sizes(self) -> np.ndarray:
        return self._session.sizes

    def order(self, order: int) -> Row | None:
        orders = self._session.orders
        if not 0 <= order < len(orders):
            return None
        row = orders[order].tolist()
        return tuple([row[column] for column in ORDER_COLUMNS])

    def conditions(self) -> Conditions:
        """Return copies of the terms under which the episode is traded."""
        session, tape = self._session, self._session.tape
        return Conditions(
            replace(session.rules),
            replace(session.settings),
            tape.fees.copy(),
            tuple(levels[np.flatnonzero(grid[: len(levels)])] for levels, grid in zip(tape.levels, tape.grids, strict=False)),
            tape.units.copy(),
            tape.digest,
            self._limit,
        )

    # Observations at a cost of one call.

    def book(self, ticker: int, depth: int) -> BookSides | None:
        if not self._is_market(ticker) or not self._spend(1):
            return None
        depths = [levels for levels in (depth, self._shown) if levels >= 0]
        sides = (self._session.levels(ticker, side, min(depths) if depths else None) for side in (0, 1))
        return tuple(tuple(zip(prices.tolist(), lots.tolist(), strict=True)) for prices, lots in sides)

    def resting(self, ticker: int) -> list[int] | None:
        if not self._is_market(ticker, or_all=True) or not self._spend(1):
            return None
        numbers = self._frozen_orders(ticker) if self._frozen else self._session.resting(ticker)
        return numbers.tolist()

    def are_resting(self, orders: np.ndarray) -> np.ndarray | None:
        if not self._spend(1):
            return None
        rows = self._session.orders
        is_known = (orders >= 0) & (orders < len(rows))
        resting = np.zeros(len(orders), bool)
        resting[is_known] = rows[orders[is_known], codes.O_STATUS] == _RESTING
        return resting

    def points(self, series: int, after: int) -> np.ndarray | None:
        if not 0 <= series < len(self._series) or not self._spend(1):
            return None
        ts, values = self._series[series]
        first, last = max(after, 0), int(np.searchsorted(ts, self._session.now - self._delay, side="right"))
        return np.column_stack([ts[first:last], values[first:last].view(np.int64)])

    def trades(self, ticker: int, after: int) -> np.ndarray | None:
        if not self._is_market(ticker, or_all=True) or after < 0 or not self._spend(1):
            return None
        last = self._session.step_index - (0 if self._between else 1)
        since = int(np.searchsorted(self._trade_times, self._session.decisions[last], side=self._searchsorted_side)) if last >= 0 else 0
        rows = self._trades[since : self._known_trade_count()]
        return (rows if ticker < 0 else rows[rows[:, 1] == ticker])[after : after + MOST_ROWS].copy()

    def fills(self, ticker: int, whole: int, after: int) -> np.ndarray | None:
        if not self._is_market(ticker, or_all=True) or after < 0 or not self._spend(1):
            return None
        first = 0 if whole else self._session.fills_before[self._between]
        rows = self._session.fills[first:, :_FILL_WIDTH]
        return (rows if ticker < 0 else rows[rows[:, codes.F_TICKER] == ticker])[after : after + MOST_ROWS].copy()

    def ledger(self, ticker: int) -> list[list[Any]] | None:
        if not self._is_market(ticker, or_all=True) or not self._spend(1):
            return None
        session = self._session
        chosen = slice(None) if ticker < 0 else slice(ticker, ticker + 1)
        missing = CentiCents(DOLLAR // 2 if session.rules.mark_missing == "fifty" else 0)
        columns = (session.positions[chosen].tolist(), session.ledger[chosen].tolist(), session.best[chosen].tolist())
        return [[*lots, *money, unrealised_pnl(lots, money[:2], bids, missing)] for lots, money, bids in zip(*columns, strict=True)]

    def at(self, time: int) -> int | None:
        if not self._spend(1):
            return None
        if time <= self._session.now:
            return TIMER_PAST
        if not self._callbacks.on_timer:
            return TIMER_WITHOUT_CALLBACK
        if len(self._timers) >= MOST_TIMERS:
            return TIMERS_USED_UP
        heappush(self._timers, time)
        self._session.set_timer(self._timers[0])
        return TIMER_SET

    @cached_property
    def _trades(self) -> np.ndarray:
        return self._read_trades()

    @cached_property
    def _trade_times(self) -> np.ndarray:
        return np.ascontiguousarray(self._trades[:, 0])

    def _quote_times(self) -> np.ndarray:
        """Return the times at which the best prices of any market change on the tape, int64, ns UTC."""
        from bellwether.replay.results.markouts import tops_of

        return np.unique(tops_of(self._session.tape).ts)

    @property
    def _searchsorted_side(self) -> Literal["left", "right"]:
        """Argument `side` of `searchsorted` in the times of trades: left under rules whose decisions precede the trades of the same
        instant, else right.
        """
        return "left" if self._session.rules.decisions == "book_rows" else "right"

    def _known_trade_count(self) -> int:
        """Return the number of trades that the agent may know now."""
        side: Literal["left", "right"] = "right" if self._is_over else self._searchsorted_side
        return int(np.searchsorted(self._trade_times, self._session.now - self._delay, side=side))

    # Orders.

    def place(  # noqa: PLR0917
        self, ticker: int, side: int, action: int, price: CentiCents, lots: Lots, tif: int, expires: int, tag: str
    ) -> int | None:
        if not self._spend_on_orders(1):
            return None
        return self._tagged(self._session.place(ticker, side, action, price, lots, tif, expires), tag)

    def _tagged(self, order: int, tag: str) -> int:
        """Store the label `tag` of an order, unless the tag is empty or the order has no record, and return the order's number."""
        if tag and order >= 0:
            self.tags.setdefault(order, tag)
        return order

    def place_many(self, requests: np.ndarray, tag: str) -> np.ndarray | None:
        if not self._spend_on_orders(len(requests)):
            return None
        numbers = self._session.place_many(requests)
        if tag:
            for number in numbers.tolist():
                self._tagged(number, tag)
        return numbers

    def cancel(self, order: int) -> int | None:
        if not self._spend_on_orders(1):
            return None
        was_resting = self._session.cancel(order)
        if was_resting and self._frozen:
            self._cancelled.add(order)
        return int(was_resting)

    def cancel_many(self, orders: np.ndarray) -> np.ndarray | None:
        if not self._spend_on_orders(len(orders)):
            return None
        if self._frozen:
            self._cancelled.update(orders[(orders >= 0) & (orders < self.sent())].tolist())
        return self._session.cancel_many(orders)

    def cancel_all(self, ticker: int) -> int | None:
        if not self._is_market(ticker, or_all=True) or not self._spend_on_orders(1):
            return None
        if self._frozen:
            self._cancelled.update(self._frozen_orders(ticker).tolist())
        return self._session.cancel_all(ticker)

    def amend(self, order: int, price: CentiCents, lots: Lots) -> int | None:
        return self._session.amend(order, price, lots) if self._spend_on_orders(1) else None

    def quote(  # noqa: PLR0917
        self, ticker: int, yes_price: CentiCents, no_price: CentiCents, lots: Lots, calls: int, tag: str
    ) -> tuple[int, int, int] | None:
        if not self._is_market(ticker) or not self._sends:
            return None
        budget, earlier = max(0, min(calls, self._left)), self._copy_quotes()
        calls_left = self._record_quotes(budget, self._session.quote(ticker, yes_price, no_price, lots, budget), earlier)
        number_of, first = self._session.quoted.item, 2 * ticker
        if tag:
            self._tagged(number_of(first), tag)
            self._tagged(number_of(first + 1), tag)
        return calls_left, number_of(first), number_of(first + 1)

    def quote_many(self, prices: np.ndarray, lots: Lots, calls: int, tag: str) -> tuple[int, list[int]] | None:
        if prices.shape != (self._tickers, 2) or not self._sends:
            return None
        budget, earlier = max(0, min(calls, self._left)), self._copy_quotes()
        calls_left = self._record_quotes(budget, self._session.quote_many(prices, lots, budget), earlier)
        return calls_left, [self._tagged(order, tag) for order in self._session.quoted.tolist()]

    def _copy_quotes(self) -> np.ndarray | None:
        """Copy the order numbers of the agent's present quotes if observations are frozen; otherwise return None."""
        return self._session.quoted.copy() if self._frozen else None

    def _record_quotes(self, budget: int, calls_left: int, earlier: np.ndarray | None) -> int:
        """Deduct the calls that new quotes cost, record which quotes of `earlier` were cancelled, and return `calls_left`. budget: calls
        available before.
        """
        self._left -= budget - calls_left if calls_left > 0 else budget
        if earlier is not None:
            replaced = earlier[(earlier >= 0) & (earlier != self._session.quoted)]
            rows = self._session.orders[replaced]
            cancelled = (rows[:, codes.O_STATUS] <= _RESTING) | (rows[:, codes.O_REASON] == codes.Reason.AGENT)
            self._cancelled.update(replaced[cancelled].tolist())
        return calls_left

    def _is_market(self, ticker: int, *, or_all: bool = False) -> bool:
        """Return True if `ticker` is the number of a market; with `or_all` also for -1, which means all markets."""
        return 0 <= ticker < self._tickers or (or_all and ticker == -1)

    def _spend_on_orders(self, calls: int) -> bool:
        return self._sends and self._spend(calls)

    def _spend(self, calls: int) -> bool:
        """Deduct calls from the budget. Returns False, and deducts nothing, if too few calls are left."""
        if calls > self._left:
            return False
        self._left -= calls
        return True

    def _frozen_orders(self, ticker: int) -> np.ndarray:
        """Return the numbers of the orders that frozen observations show as resting.

        These are orders that rested when the step began, including those filled since, without those cancelled in earlier steps.
        """
        orders = self._session.orders[: self._known_orders]
        status = orders[:, codes.O_STATUS]
        maker_filled = (status == _FILLED) & (orders[:, codes.O_TAKEN] < orders[:, codes.O_COUNT])
        listed = (status == _RESTING) | maker_filled
        listed[[number for number in self._cancelled if number < len(listed)]] = True
        listed[[number for number in self._dropped if number < len(listed)]] = False
        if ticker >= 0:
            listed &= orders[:, codes.O_TICKER] == ticker
        return np.flatnonzero(listed)
