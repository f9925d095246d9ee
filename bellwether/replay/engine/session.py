"""A replay as agents see it from Python: views of the engine's arrays and one compiled call per order."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.engine.arena import (
    H_ACCOUNTS,
    H_BUDGET,
    H_CALLBACKS,
    H_CASH,
    H_CURSOR,
    H_FAILED,
    H_FILLS,
    H_FILLS_BEFORE,
    H_FILLS_THEN,
    H_FULL,
    H_L_HEAD,
    H_L_TAIL,
    H_LAST,
    H_MID_EQUITY,
    H_NOW,
    H_OPEN,
    H_ORDERS,
    H_OVER,
    H_QUOTED,
    H_REFUSED,
    H_RESERVED,
    H_ROOM,
    H_SAMPLES,
    H_STEP,
    H_STOP,
    H_TOLD,
    H_TRADES_AT,
    H_TRADES_END,
    H_U_HEAD,
    H_U_TAIL,
    H_U_TOLD,
    H_WATCH,
    K_BASIS,
    K_BEST,
    K_OWN,
    K_PAID,
    K_POSITION,
    K_QUOTE,
    K_REALISED,
    K_STATUS,
    NEVER,
    W_CALLBACKS,
    W_PARAMS,
    WATCH_FILLS,
    WATCH_ORDERS,
    books,
    new_cores,
    ticker_rows,
)
from bellwether.replay.engine.arrays import (
    BATCH,
    CORE,
    FILLS,
    NOTED,
    ORDERS,
    SAMPLES,
    SCHEDULE,
    SEEN_ORDERS,
    TRADES,
    UPDATES,
    Arrays,
)
from bellwether.replay.engine.callbacks import addresses, errors_of_callbacks
from bellwether.replay.engine.clock import AT_DECISION
from bellwether.replay.engine.codes import (
    AMEND,
    CANCEL,
    CANCEL_ALL,
    CANCEL_BATCH,
    FULL,
    O_TWIN,
    PLACE,
    PLACE_BATCH,
    QUOTE,
    QUOTE_BATCH,
    R_COLS,
    RESTING_BATCH,
    STEP,
    VALUE,
    Queue,
    Tif,
)
from bellwether.replay.engine.commands import command
from bellwether.replay.engine.compiling import stamped
from bellwether.replay.engine.outcome import Bound, Outcome, bound_of, bounded, outcome_of
from bellwether.replay.engine.schedule import DECISION, last_time, schedule_of, with_wakes
from bellwether.replay.engine.settings import Settings
from bellwether.replay.rules import RuleSet
from bellwether.replay.tape.layout import Tape
from bellwether.units import Lots, MicroDollars, Mills

#: A request as it lies in a row of the batch.
_ROW, _ZEROS = struct.Struct(f"={R_COLS}q"), (0,) * R_COLS


class Session(Arrays):
    """One replay of a tape under rules and settings. Not thread-safe; several sessions may run in threads, compiled calls hold no lock of Python.

    Codes: ticker = its place in `tape.tickers`; side YES 0, NO 1; action BUY 0, SELL 1; tif `codes.Tif`. Units: mills, lots, micro-dollars, ns UTC.
    Arrays it gives are read-only views that change as the replay goes on, except `orders`, `fills` and `samples`: ask for these again after a step.
    Raises `ConfigError` for settings that do not fit the tape or the rules.

    bounds: make the same calls to an account under the pessimistic queue and to one under the optimistic queue.
    """

    def __init__(self, tape: Tape, rules: RuleSet, settings: Settings, *, bounds: bool = True) -> None:
        self.tape, self.rules, self.settings = tape, rules, settings
        schedule = schedule_of(tape, rules, settings)
        #: How many decisions there are.
        self.steps = int(np.count_nonzero(schedule[:, 2] == DECISION))
        chosen = Queue[(settings.queue or rules.queue).upper()]
        #: Queue models of the accounts beside the chosen one.
        self._bounds = [queue for queue in (Queue.TRADE_ONLY, Queue.OPTIMISTIC) if bounds and queue != chosen]
        cores = new_cores(tape, rules, settings, self._bounds)
        core = self._core = cores[0]
        core[H_LAST] = last_time(tape, rules)
        super().__init__(tape, schedule, cores, settings)
        tickers, known = ticker_rows(core), ticker_rows(self._seen)
        #: Best displayed bids in mills, 0 for none: int64[T, 2].
        self.best = _read_only(tickers[:, K_BEST : K_BEST + 2])
        #: Displayed sizes in lots by ticker, side and bid price in mills: int64[T, 2, 1001].
        self.book = _read_only(books(core))
        #: Lots held: int64[T, 2]; below 0 for a short, which only some rules know.
        self.positions = _read_only(known[:, K_POSITION : K_POSITION + 2])
        #: How many fills the agent knows of: a method of the array, without a frame of Python.
        self.fill_count: Callable[[], int] = partial(self._seen.item, H_FILLS)
        #: Bits of `codes.TickerStatus`, 0 for open with a book: int64[T].
        self.status = _read_only(tickers[:, K_STATUS])

    # The clock

    def step(self) -> bool:
        """Go on to the next decision. False when none is left; the tape is then processed to its end."""
        while (found := command(self._words, STEP, 0, 0)) != AT_DECISION:
            if not found:
                if not self._core[H_FULL]:
                    return False
                self._grow()
        return True

    def advance(self) -> int:
        """Go on to the next decision, AT_DECISION, or to what `stop_at_news` asked for, AT_NEWS; 0 as `step`."""
        while not (found := command(self._words, STEP, 0, 0)):
            if not self._core[H_FULL]:
                return 0
            self._grow()
        return int(found)

    def open(self) -> bool:
        """Go on to the first decision if that is at the episode's start, where the opening books are known as an agent may know them."""
        delay = self.settings.data_latency
        return bool(self.steps and self.decisions[0] + delay == self.tape.start and self.advance() == AT_DECISION)

    def stop_at_news(self, times: np.ndarray | None = None, *, fills: bool = False, orders: bool = False) -> None:
        """Let `advance` stop at these times too (int64, ns, as of the tape), with `fills` at the end of each instant at which the account fills, and
        with `orders` at that of each at which an order changes.

        What happens at an instant is processed before; `now` is later by the latency of market data. Raises `ConfigError` after the first step.
        """
        if self._core[H_STOP] or self._core[H_CURSOR]:
            raise ConfigError("planning stops at news: the replay has begun; plan them before its first step")
        self._core[H_WATCH] |= WATCH_FILLS * fills | WATCH_ORDERS * orders
        if times is not None:
            self._set(SCHEDULE, with_wakes(self._sim[SCHEDULE], self.tape, times, self.settings.data_latency))

    def told(self) -> int:
        """Number of fills; `advance` stops for later ones only."""
        self._core[H_TOLD] = count = self.fill_count()
        return count

    def updates(self) -> np.ndarray:
        """int64[n, U_COLS], columns `codes.U_*`: what became of orders since the last call, where `stop_at_news` asked for it; each row says what an
        order was at the end of an instant, or after a call or the arrival of a message, that changed it.
        """
        core, seen = self._core, self._seen
        rows = self._sim[UPDATES][core[H_U_HEAD] : seen[H_U_TAIL]].copy()
        core[[H_U_HEAD, H_U_TOLD]] = seen[H_U_TAIL]
        if core[H_U_HEAD] == core[H_U_TAIL] and core[H_L_HEAD] == core[H_L_TAIL]:
            core[[H_U_HEAD, H_U_TAIL, H_U_TOLD, H_L_HEAD, H_L_TAIL]] = seen[H_U_TAIL] = 0
        return rows

    @property
    def now(self) -> int:
        """Time of the decision, ns UTC; the episode's start before the first."""
        return int(self._core[H_NOW])

    @property
    def step_index(self) -> int:
        """Number of the decision, from 0; -1 before the first."""
        return int(self._core[H_STEP]) - 1

    @cached_property
    def decisions(self) -> np.ndarray:
        """int64[steps]: times of the decisions as of the tape, ns: earlier than `now` by the latency of market data."""
        schedule = self._sim[SCHEDULE]
        return _read_only(np.ascontiguousarray(schedule[schedule[:, 2] == DECISION, 1]))

    @property
    def over(self) -> bool:
        """Return whether the tape is processed to its end."""
        return bool(self._core[H_OVER])

    def run_compiled(
        self,
        strategy: Callable[[Any, np.ndarray], Any],
        params: np.ndarray,
        callbacks: Sequence[Callable[..., Any] | None] = (),
        trades: np.ndarray | None = None,
    ) -> None:
        """Run a compiled strategy from here to the end: `@strategy def f(sim, params)`, which calls the functions of `kernel`.

        When an array turns out too small, the strategy starts again from here with more room, so it must do the same for the same `params`. What it
        leaves of the tape when it returns is processed without it. callbacks: compiled functions of (sim, params, number), in the order of
        `telling.ON_*`, for what `stop_at_news` was asked for; None for none. trades: int64[n, 5] by time, of which `on_trade` is told those from the
        episode's start on. An error of a callback ends the strategy and is raised.
        """
        stamped(strategy)
        self._call_back(callbacks, params, trades)
        cores = self._sim[CORE]
        before, given, seen = cores.copy(), params.copy(), self._seen.copy()
        orders = self._sim[ORDERS][:, : self._most(H_ORDERS)].copy()
        noted = self._sim[NOTED][: self._core[H_OPEN]].copy()
        seen_orders = self._sim[SEEN_ORDERS][: self._core[H_ORDERS]].copy()
        self._make_room()
        with errors_of_callbacks(partial(self._core.__setitem__, H_FAILED, 1)) as raised:
            strategy(self._words, params)
            while self._core[H_FULL] and not raised:
                room = int(self._core[H_ROOM])
                cores[...], params[...], self._seen[...] = before, given, seen
                self._sim[SEEN_ORDERS][: len(seen_orders)] = seen_orders
                self._sim[ORDERS][:, : orders.shape[1]], self._sim[NOTED][: len(noted)] = orders, noted
                self._core[H_ROOM] = room
                self._grow(everything=True)
                strategy(self._words, params)
        self._core[[H_CALLBACKS, H_FAILED]] = 0
        if raised:
            raise raised[0]
        while self.step():
            pass

    def _call_back(self, callbacks: Sequence[Callable[..., Any] | None], params: np.ndarray, trades: np.ndarray | None) -> None:
        """Let compiled code find the callbacks, what they are given, and where they begin."""
        if not any(callbacks):
            return
        found = addresses(callbacks, params)
        self._words[W_CALLBACKS : W_CALLBACKS + len(found)] = found
        self._words[W_PARAMS : W_PARAMS + 2] = params.ctypes.data, len(params)
        core = self._core
        core[H_CALLBACKS] = sum(1 << what for what, address in enumerate(found.tolist()) if address)
        if trades is not None:
            self._set(TRADES, np.ascontiguousarray(trades, np.int64))
            first = self.tape.start - self.settings.data_latency
            core[[H_TRADES_AT, H_TRADES_END]] = np.searchsorted(trades[:, 0], first, side="right")

    # Orders

    def place(self, ticker: int, side: int, action: int, price: Mills, lots: Lots, tif: int = Tif.GTC, expires: int = 0) -> int:
        """Send an order; price 0 is a market order, `expires` the end of a GTD order.

        Returns its number, also of one that is rejected (its row says why); -1 when the limit of orders is used up, the replay is over, or the rules
        log nothing of a market without a book.
        """
        return self._command(PLACE, ticker, side, action, price, lots, tif, expires)

    def place_many(self, requests: np.ndarray) -> np.ndarray:
        """Send orders in their order: int64[n, 7] of ticker, side, action, price, lots, tif, expires. Returns int64[n], as `place` for each."""
        values = np.asarray(requests)
        if values.ndim != 2 or values.shape[1] != R_COLS or values.dtype.kind not in "iu":
            raise ConfigError(
                f"placing orders: the requests are {values.dtype} of shape {values.shape}; give whole numbers of shape (n, {R_COLS})"
            )
        return self._batch(PLACE_BATCH, values)

    def cancel(self, order: int) -> bool:
        """Cancel an order. Whether it rested; with latency, whether it may still rest when the cancel arrives."""
        return self._command(CANCEL, order) == 1

    def cancel_many(self, orders: Sequence[int] | np.ndarray) -> np.ndarray:
        """Cancel orders in their order; bool[n], as `cancel` for each."""
        return self._batch(CANCEL_BATCH, np.asarray(orders, np.int64).reshape(-1, 1)).astype(bool)

    def cancel_all(self, ticker: int = -1) -> int:
        """Cancel every resting order of a ticker, or of all; how many rested."""
        return self._command(CANCEL_ALL, ticker)

    def amend(self, order: int, price: Mills, lots: Lots) -> int:
        """Change a resting order to `lots` remaining at `price`; a smaller size at the same price keeps its place. 0, or the code of the `Reason` why it
        stays as it was.
        """
        return self._command(AMEND, order, price, lots)

    def quote(self, ticker: int, yes_price: Mills, no_price: Mills, lots: Lots, calls: int = NEVER) -> int:
        """Have one post-only bid of `lots` on each side of a market; a price of 0 takes a quote away, -1 leaves it as it is.

        The quote of a side is the order last sent by this. One that is on its way or rests at its price stays; others are cancelled before new ones
        are sent. `calls`: how many orders may be sent or cancelled. Returns how many are left of them, -1 if they did not suffice.
        """
        self._core[H_BUDGET] = calls
        return int(self._core[H_BUDGET]) if self._command(QUOTE, ticker, yes_price, no_price, lots) else -1

    def quote_many(self, prices: np.ndarray, lots: Lots, calls: int = NEVER) -> int:
        """`quote` for all markets, int64[T, 2] by ticker and side."""
        if prices.shape != self.best.shape or prices.dtype.kind not in "iu":
            raise ConfigError(
                f"quoting: the prices are {prices.dtype} of shape {prices.shape}; give whole numbers of shape {self.best.shape}"
            )
        self._fit_batch(len(prices))
        self._core[H_BUDGET], self._core[H_QUOTED] = calls, 0
        while True:
            self._sim[BATCH][: len(prices), :2] = prices
            done = command(self._words, QUOTE_BATCH, lots, len(prices))
            if done != FULL:
                return int(self._core[H_BUDGET]) if done else -1
            self._grow()

    @property
    def quoted(self) -> np.ndarray:
        """The orders that `quote` sent last and has not cancelled, int64[2 x T] by market and side, -1 for none; they may have ended since."""
        return ticker_rows(self._core)[:, K_QUOTE : K_QUOTE + 2].ravel()

    def resting(self, ticker: int = -1) -> np.ndarray:
        """Numbers of the resting orders, int64[k]: ticker by ticker, canonical side by side, in price-time priority."""
        self._fit_batch(int(ticker_rows(self._seen)[:, K_OWN : K_OWN + 2].sum()))
        count = command(self._words, RESTING_BATCH, int(ticker), 0)
        return self._sim[BATCH][:count, 0].copy()

    # Money

    @property
    def cash(self) -> MicroDollars:
        """Micro-dollars."""
        return self._seen.item(H_CASH)

    @property
    def reserved(self) -> MicroDollars:
        """Micro-dollars that resting orders and shorts may need."""
        return self._seen.item(H_RESERVED)

    @property
    def available(self) -> MicroDollars:
        """Cash that nothing is reserved from, micro-dollars."""
        return self._seen.item(H_CASH) - self._seen.item(H_RESERVED)

    def equity(self) -> MicroDollars:
        """Cash and positions at the side they could be closed at, micro-dollars."""
        amount: Any = self._command(VALUE)
        return amount

    def mid_equity(self) -> MicroDollars:
        """Cash and positions at the middle of the quotes, micro-dollars."""
        self._command(VALUE)
        return self._seen.item(H_MID_EQUITY)

    @property
    def ledger(self) -> np.ndarray:
        """int64[T, 4], micro-dollars: what the lots held of YES and of NO cost without fees (below 0 for a short), P&L realised without fees, fees."""
        return _read_only(ticker_rows(self._seen)[:, [K_BASIS, K_BASIS + 1, K_REALISED, K_PAID]])

    # What there is so far

    @property
    def orders(self) -> np.ndarray:
        """int64[n, O_COLS], columns `codes.O_*`, one row per order in order of sending."""
        return _read_only(self._sim[ORDERS][0, : self._core[H_ORDERS]])

    @property
    def fills(self) -> np.ndarray:
        """int64[m, F_COLS], columns `codes.F_*`, in order of booking."""
        return _read_only(self._sim[FILLS][0, : self._core[H_FILLS]])

    @property
    def known_orders(self) -> np.ndarray:
        """`orders` as far as the agent knows: they are pending until their acknowledgement has come, filled when the answer says so."""
        return _read_only(self._sim[SEEN_ORDERS][: self._core[H_ORDERS]])

    @property
    def known_fills(self) -> np.ndarray:
        """Those of `fills` that the agent knows of."""
        return _read_only(self._sim[FILLS][0, : self._seen[H_FILLS]])

    @property
    def fills_before(self) -> tuple[int, int]:
        """Numbers of fills known at the decision before the last one, and at the last one."""
        return int(self._core[H_FILLS_BEFORE]), int(self._core[H_FILLS_THEN])

    @property
    def samples(self) -> np.ndarray:
        """int64[s, S_COLS], columns `codes.S_*`."""
        return _read_only(self._sim[SAMPLES][0, : self._core[H_SAMPLES]])

    @property
    def refused(self) -> int:
        """Orders that were not logged, because the limit of orders was used up or the replay was over."""
        return int(self._core[H_REFUSED])

    def result(self) -> Outcome:
        """Return the outcome. Raises `ConfigError` before the end: step until it returns False."""
        if not self.over:
            raise ConfigError(f"taking a replay's result: it is at step {self.step_index} of {self.steps}; step until it returns False")
        chosen = outcome_of(self._core, self.orders, self.fills, self.samples, self.settings)
        if not self._bounds:
            return chosen
        return bounded(chosen, self._bound(Queue.TRADE_ONLY), self._bound(Queue.OPTIMISTIC))

    def _bound(self, queue: Queue) -> Bound:
        """An account; that of the agent where it is under this queue, or no order could have rested."""
        account = self._bounds.index(queue) + 1 if queue in self._bounds and self._core[H_ACCOUNTS] > 1 else 0
        core, orders = self._sim[CORE][account], self._sim[ORDERS][account]
        twins = self.orders[:, O_TWIN + account - 1] if account else np.arange(len(self.orders))
        return bound_of(core, orders[: core[H_ORDERS]], self._sim[SAMPLES][account, : core[H_SAMPLES]], twins)

    # Requests

    def _command(self, what: int, *arguments: int) -> int:
        """Hand the arguments over in the batch's first row: faster than one by one, and no other type than int64 can reach the compiled code."""
        batch: Any = self._sim[BATCH]
        try:
            _ROW.pack_into(batch, 0, *arguments, *_ZEROS[len(arguments) :])
        except struct.error:
            raise ConfigError(f"sending an order: the arguments are {arguments!r:.200}; give whole numbers of at most 64 bits") from None
        answer = command(self._words, what, 0, 0)
        while answer == FULL:
            self._grow()
            answer = command(self._words, what, 0, 0)
        return int(answer)

    def _batch(self, what: int, rows: np.ndarray) -> np.ndarray:
        self._fit_batch(len(rows))
        self._sim[BATCH][: len(rows), : rows.shape[1]] = rows
        done = 0
        while (done := command(self._words, what, done, len(rows))) < len(rows):
            self._grow()
        return self._sim[BATCH][: len(rows), R_COLS].copy()


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
