"""Python interface of a replay: its arrays, commands of an agent, each one compiled call, and the outcome.

Compiled code finds the arrays through the *words*, an array of their addresses and lengths.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.lib.recfunctions import structured_to_unstructured

from bellwether.errors import ConfigError
from bellwether.replay.engine.callbacks import ON_BOOK, ON_FILL, ON_ORDER, ON_TIMER, ON_TRADE, callback_addresses, collect_callback_errors
from bellwether.replay.engine.clock import AT_DECISION
from bellwether.replay.engine.codes import (
    AMEND,
    CANCEL,
    CANCEL_ALL,
    COLLECT,
    PLACE,
    QUOTE,
    QUOTE_BATCH,
    R_COLS,
    SHOWN,
    STEP,
    VALUE,
    Queue,
    TickerStatus,
    Tif,
)
from bellwether.replay.engine.requests import command, engine_address
from bellwether.replay.engine.schedule import DECISION, add_wakes, build_schedule, last_time
from bellwether.replay.engine.state import (
    ARRAYS,
    CALLBACK_WORDS,
    ENTRY_WORD,
    MARKET,
    NEVER,
    NO_BOOK_YET,
    PARAMS_WORD,
    SIDE,
    STATE,
    WATCH_FILLS,
    WATCH_ORDERS,
    WORD_OF,
    WORDS,
)
from bellwether.replay.rules.ruleset import UNITS, RuleSet
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.layout import Tape
from bellwether.units import CentiCents, Lots, MicroDollars

#: Fields of an order in the order of their columns in digests.
_DIGESTED = [
    "market", "side", "action", "price", "tif", "count", "filled", "taken", "status", "reason", "sent", "arrived", "queued", "ended", "cost",
    "fees", "mid2", "expires", "tag", "bid_side", "level", "bid_price", "next", "prev", "ahead", "rounding", "reserved_fee", "amends",
]  # fmt: skip
#: Tables of news, and the fields of the state with the first row to report and the end of these rows.
_NEWS = (("fills", "fills_at", "fills_end"), ("updates", "update_head", "update_end"), ("trades", "trades_at", "trades_end"))
#: Layout of a command in a row of the batch.
_ROW, _ZEROS = struct.Struct(f"={R_COLS}q"), (0,) * R_COLS
#: Rows of the arrays that a run fills, besides orders. Memory that is never written is free.
ROWS = {"fills": 1 << 22, "messages": 1 << 20, "updates": 1 << 22}


def new_rows(name: str, rows: int) -> np.ndarray:
    """Return the array `name` with a number of rows of zeros."""
    return np.zeros(rows, ARRAYS[name])


@dataclass(frozen=True, slots=True, eq=False)
class ReplayOutcome:
    """Outcome of a replay: final account, orders, fills and equity samples. Money in micro-dollars, sizes in lots, times in ns UTC.

    bankroll: initial cash. cash, realised, fees: of the account. equity: at the liquidation side. mid_equity: at mid. positions, basis:
    int64[T, 2], positions that the tape does not settle, and their cost. unrealised: int64[T], their mark less that cost. earned, settled: int64[T],
    realised P&L of each market, and its part from settlement; neither is in the digest. steps: decisions.
    refused: orders that were not logged. orders, fills, samples: records `codes.ORDER`, `FILL` and `SAMPLE`.
    """

    bankroll: MicroDollars
    cash: MicroDollars
    realised: MicroDollars
    fees: MicroDollars
    equity: MicroDollars
    mid_equity: MicroDollars
    positions: np.ndarray
    basis: np.ndarray
    unrealised: np.ndarray
    earned: np.ndarray
    settled: np.ndarray
    steps: int
    refused: int
    orders: np.ndarray
    fills: np.ndarray
    samples: np.ndarray

    @property
    def pnl(self) -> MicroDollars:
        """Equity less bankroll."""
        return MicroDollars(self.equity - self.bankroll)

    def digest(self) -> str:
        """Compute the SHA-256, in hex, of all numbers: the same on every machine for the same tape, rules, settings and orders."""
        numbers = [self.bankroll, self.cash, self.realised, self.fees, self.equity, self.mid_equity, self.steps, self.refused]
        digest = hashlib.sha256(np.array(numbers, "<i8").tobytes())
        tables = (structured_to_unstructured(table, np.int64) for table in (self.orders[_DIGESTED], self.fills, self.samples))
        for array in (self.positions, self.basis, self.unrealised, *tables):
            digest.update(np.array(array.shape, "<i8").tobytes())
            digest.update(np.ascontiguousarray(array, "<i8").tobytes())
        return digest.hexdigest()


class Session:
    """One replay of a tape under rules and settings, which an agent steps through and sends orders to.

    A session is not thread-safe, but several sessions may run in threads, since compiled calls release the GIL.

    Codes: ticker = its index in `tape.tickers`; side YES 0, NO 1; action BUY 0, SELL 1; tif `codes.Tif`. Units: $0.0001, lots,
    micro-dollars, ns UTC. Arrays are read-only views of
    the present state, except `orders` and `fills`: read these again after a step. Settings that are not set have the values of
    `BacktestSettings.complete`.
    Raises `ConfigError` for settings that do not fit the tape or the rules.
    """

    def __init__(self, tape: Tape, rules: RuleSet, settings: BacktestSettings) -> None:
        self.tape, self.rules, self.settings = tape, rules, settings.complete()
        settings = self.settings
        schedule = build_schedule(tape, settings)
        #: Number of decisions.
        self.steps = int(np.count_nonzero(schedule[:, 2] == DECISION))
        sides, slots = new_sides(tape)
        state = new_state(tape, rules, settings)
        self._arrays: dict[str, np.ndarray] = {
            "ts": tape.ts,
            "event": tape.event,
            "prices": tape.prices,
            "numbers": tape.numbers[0],
            "grids": tape.grids.reshape(-1),
            "schedule": schedule,
            "state": state,
            "markets": new_markets(tape, rules),
            "sides": sides,
            "shown": np.zeros(slots, np.int64),
            "marks": np.full(slots, NO_BOOK_YET, np.int32),
            "taken": np.zeros(slots, np.int64),
            "orders": new_rows("orders", settings.max_orders),
            "fills": new_rows("fills", ROWS["fills"]),
            "samples": new_rows("samples", len(schedule) - self.steps),
            "messages": new_rows("messages", ROWS["messages"]),
            "batch": new_rows("batch", max(1, len(tape.tickers))),
            "updates": new_rows("updates", 0),
            "noted": new_rows("noted", 0),
            "trades": new_rows("trades", 0),
        }
        self._state = state[0]
        #: The first two fields of the batch, int64[T, 2].
        self._quotes = self._arrays["batch"].view(np.int64).reshape(-1, R_COLS)[: len(tape.tickers), :2]
        self._shown_orders = self._arrays["orders"][list(SHOWN)]
        self._words = np.zeros(WORDS, np.int64)
        self._words[ENTRY_WORD] = engine_address()
        for name, array in self._arrays.items():
            self._set(name, array)
        #: Best displayed bids in $0.0001, int64[T, 2], 0 for none.
        self.best = _read_only(sides["price"].reshape(-1, 2))
        #: Lots held, int64[T, 2].
        self.positions = _read_only(sides["position"].reshape(-1, 2))
        #: Last uncancelled orders of `quote` by market and side, int64[2 x T], -1 for none; they may have ended since.
        self.quoted = _read_only(sides["quote"])
        #: Bits of `codes.TickerStatus`, int64[T], 0 for open with a book.
        self.status = _read_only(self._arrays["markets"]["status"])

    def levels(self, ticker: int, side: int, depth: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return (prices in $0.0001, lots) of the displayed bids of a side, best first: int64[k] each, at most `depth`."""
        prices = self.tape.levels[ticker]
        first, best = self._arrays["sides"][["book", "best"]].item(2 * ticker + side)
        lots = self._arrays["shown"][first : first + best + 1][::-1]
        depths = np.flatnonzero(lots)[:depth]
        return prices[best - depths], lots[depths]

    @property
    def sizes(self) -> np.ndarray:
        """Lots at the best displayed bids, int64[T, 2], 0 for none."""
        sides = self._arrays["sides"]
        best = sides["best"]
        return np.where(best > 0, self._arrays["shown"][sides["book"] + best], 0).reshape(-1, 2)

    # The clock

    def step(self) -> bool:
        """Advance to the next decision. Returns False at the end of the tape, if no decision is left."""
        while (stop := self.advance()) != AT_DECISION:
            if not stop:
                return False
        return True

    def advance(self) -> int:
        """Advance to the next decision (AT_DECISION), news (AT_NEWS) or timer (AT_TIMER), and return which. Returns 0 at the end.

        Raises `ConfigError` when the run has more rows than `ROWS`.
        """
        stop = int(command(self._words, STEP, 0, 0))
        if not stop and self._state["full"]:
            most = ", ".join(f"{rows:,} {name}" for name, rows in ROWS.items())
            raise ConfigError(f"running an agent: it needs more rows than there are ({most}); split the episode or trade fewer markets")
        return stop

    def open(self) -> bool:
        """Advance to the first decision if it is at the start of the episode. Returns whether it was."""
        delay = self.settings.data_latency
        return bool(self.steps and self.decisions[0] + delay == self.tape.start and self.advance() == AT_DECISION)

    def watch(
        self,
        times: np.ndarray | None = None,
        *,
        fills: bool = False,
        orders: bool = False,
        books: bool = False,
        trades: np.ndarray | None = None,
    ) -> None:
        """Make `advance` also stop at `times` (int64, ns, of the tape) and at news, which `news` or callbacks report.

        fills, orders: stop at the end of each instant with a fill of the account, and of each in which an order changes. books: report
        changes of best prices, whose times are in `times`. trades: trades to report, int64[n, 5] by time, with the fields of `codes.TRADE`.
        The events of the instant are processed before; `now` is later by the latency of market data. Raises `ConfigError` after the first
        step.
        """
        state = self._state
        if state["stop"] or state["cursor"]:
            raise ConfigError("requesting stops at news: the replay has begun; request them before its first step")
        state["watch"] = WATCH_FILLS * fills | WATCH_ORDERS * orders
        state["callbacks"] = fills << ON_FILL | orders << ON_ORDER | (trades is not None) << ON_TRADE | books << ON_BOOK
        if orders:
            self._set("updates", new_rows("updates", ROWS["updates"]))
            self._set("noted", new_rows("noted", self.settings.max_orders))
        wakes = [] if times is None else [times]
        if trades is not None:
            self._set("trades", trades)
            wakes.append(trades[:, 0])
            first = self.tape.start - self.settings.data_latency
            state["trades_at"] = state["trades_end"] = np.searchsorted(trades[:, 0], first, side="right")
        if wakes:
            self._set("schedule", add_wakes(self._arrays["schedule"], self.tape, np.concatenate(wakes), self.settings.data_latency))

    def news(self) -> tuple[list[Any], list[Any], list[Any], list[int]]:
        """Return the watched news since the last call: rows of fills, of order updates (`codes.UPDATE`) and of trades, and numbers of
        markets whose best prices changed.
        """
        if not command(self._words, COLLECT, 0, 0):
            return [], [], [], []
        state, rows = self._state, []
        for name, first, end in _NEWS:
            rows.append(self._arrays[name][state[first] : state[end]].tolist())
            state[first] = state[end]
        return rows[0], rows[1], rows[2], np.flatnonzero(self._arrays["markets"]["moved"]).tolist()

    def set_timer(self, time: int) -> None:
        """Make `advance` stop once at `time` (ns UTC, of the agent's clock) and return AT_TIMER.

        NEVER removes the timer. Raises `ConfigError` for a time that is not later than now.
        """
        if time <= self.now:
            raise ConfigError(f"setting a timer: {time} is not later than now ({self.now}); give a later time")
        delayed = time if time == NEVER else time - self.settings.data_latency
        self._state["timer"], self._state["timer_at"] = delayed, -1

    @property
    def now(self) -> int:
        """Time of the last decision, ns UTC; the episode's start before the first."""
        return int(self._state["now"])

    @property
    def step_index(self) -> int:
        """Number of the last decision, from 0; -1 before the first."""
        return int(self._state["step"]) - 1

    @cached_property
    def decisions(self) -> np.ndarray:
        """Times of the decisions, int64[steps], ns of the tape: earlier than `now` by the latency of market data."""
        schedule = self._arrays["schedule"]
        return _read_only(np.ascontiguousarray(schedule[schedule[:, 2] == DECISION, 1]))

    @property
    def over(self) -> bool:
        """True if the tape is processed to its end."""
        return bool(self._state["over"])

    def run_compiled(
        self, strategy: Callable[[Any, np.ndarray], Any], params: np.ndarray, callbacks: Sequence[Callable[..., Any] | None] = ()
    ) -> None:
        """Run a compiled strategy, `@strategy def f(sim, params)`, which calls the functions of `kernel`, from here to the end.

        The rest of the tape after it returns is processed without it. callbacks: compiled functions of (sim, params, number), in the order of
        `callbacks.ON_*`, for the news requested by `watch`; None for none. An error in a callback ends the strategy and is raised.
        """
        if any(callbacks):
            addresses = callback_addresses(callbacks, params)
            self._words[CALLBACK_WORDS : CALLBACK_WORDS + len(addresses)] = addresses
            self._words[PARAMS_WORD : PARAMS_WORD + 2] = params.ctypes.data, len(params)
            self._state["callbacks"] |= bool(addresses[ON_TIMER]) << ON_TIMER
        with collect_callback_errors(partial(self._state.__setitem__, "failed", 1)) as raised:
            strategy(self._words, params)
        self._state["callbacks"] = self._state["failed"] = 0
        if raised:
            raise raised[0]
        while self.step():
            pass

    # Orders

    def place(self, ticker: int, side: int, action: int, price: CentiCents, lots: Lots, tif: int = Tif.GTC, expires: int = 0) -> int:
        """Send an order and return its number. price: 0 for a market order. expires: end of a GTD order, ns UTC.

        The number is returned also if the order is rejected (its row contains the reason). Returns -1 when the order limit is reached, the
        replay is over.
        """
        return self._command(PLACE, ticker, side, action, price, lots, tif, expires)

    def cancel(self, order: int) -> bool:
        """Cancel an order. Returns True if the order rested; with latency, if it may still rest when the cancel arrives."""
        return self._command(CANCEL, order) == 1

    def cancel_all(self, ticker: int = -1) -> int:
        """Cancel all resting orders of a ticker, or of all tickers for -1. Returns how many rested."""
        return self._command(CANCEL_ALL, ticker)

    def amend(self, order: int, price: CentiCents, lots: Lots) -> int:
        """Change a resting order to `lots` remaining at `price`. A smaller size at the same price keeps the queue position.

        Returns 0, or the code of the `Reason` why it is unchanged.
        """
        return self._command(AMEND, order, price, lots)

    def quote(self, ticker: int, yes_price: CentiCents, no_price: CentiCents, lots: Lots) -> None:
        """Keep one post-only bid of `lots` on each side of a market. A price of 0 cancels the side's bid, -1 leaves it unchanged.

        The quote of a side is the last order sent by this method. One that is in transit or rests at its price stays; others are cancelled
        before new ones are sent.
        """
        self._command(QUOTE, ticker, yes_price, no_price, lots)

    def quote_many(self, prices: np.ndarray, lots: Lots) -> None:
        """Quote all markets as `quote` does, at prices int64[T, 2] by ticker and side."""
        if prices.shape != self.best.shape or prices.dtype.kind not in "iu":
            raise ConfigError(f"quoting: the prices are {prices.dtype} of shape {prices.shape}; give integers of shape {self.best.shape}")
        self._quotes[:] = prices
        command(self._words, QUOTE_BATCH, len(prices), lots)

    def resting(self, ticker: int = -1) -> list[int]:
        """Return the numbers of the resting orders by ticker, canonical side and price-time priority."""
        chosen = slice(None) if ticker < 0 else slice(2 * ticker, 2 * ticker + 2)
        numbers, following = list[int](), self._arrays["orders"]["next"].item
        for head in self._arrays["sides"]["head"][chosen].tolist():
            order = head
            while order >= 0:
                numbers.append(order)
                order = following(order)
        return numbers

    # Money

    @property
    def cash(self) -> MicroDollars:
        """Cash, micro-dollars."""
        return MicroDollars(int(self._state["cash"]))

    @property
    def available(self) -> MicroDollars:
        """Cash that is not reserved, micro-dollars."""
        return MicroDollars(int(self._state["cash"] - self._state["reserved"]))

    def equity(self) -> MicroDollars:
        """Return cash plus positions at the liquidation side (bid if long, ask if short), micro-dollars."""
        amount: Any = self._command(VALUE)
        return amount

    @property
    def ledger(self) -> np.ndarray:
        """Cost of YES and of NO (below 0 for a short), realised P&L without fees, and fees of each market: int64[T, 4], micro-dollars."""
        sides, markets = self._arrays["sides"], self._arrays["markets"]
        return _read_only(np.column_stack([sides["basis"].reshape(-1, 2), markets["realised"], markets["paid"]]))

    # Tables

    @property
    def orders(self) -> np.ndarray:
        """Orders so far, records `codes.ORDER` in order of sending."""
        return _read_only(self._arrays["orders"][: self._state["orders"]])

    @property
    def fills(self) -> np.ndarray:
        """Fills so far, records `codes.FILL` in order of booking."""
        return _read_only(self._arrays["fills"][: self._state["fills"]])

    @property
    def order_count(self) -> int:
        """Number of orders so far."""
        return int(self._state["orders"])

    @property
    def fills_before(self) -> tuple[int, int]:
        """Numbers of fills at the last but one and at the last decision."""
        return int(self._state["fills_before"]), int(self._state["fills_then"])

    def order(self, number: int) -> tuple[int, ...] | None:
        """Return what the agent sees of an order, the fields `codes.SHOWN`; None for an unknown number."""
        row: Any = self._shown_orders.item(number) if 0 <= number < self._state["orders"] else None
        return row

    def result(self) -> ReplayOutcome:
        """Build the outcome of the replay. Raises `ConfigError` before the end: call `step` until it returns False."""
        if not self.over:
            raise ConfigError(f"taking a replay's result: it is at step {self.step_index} of {self.steps}; step until it returns False")
        self._command(VALUE)
        state, sides, markets = self._state, self._arrays["sides"], self._arrays["markets"]

        def money(name: str) -> MicroDollars:
            return MicroDollars(int(state[name]))

        def rows(name: str) -> np.ndarray:
            used = self._arrays[name][: state[name]]
            used.flags.writeable = False
            return used

        def pairs(name: str) -> np.ndarray:
            return sides[name].reshape(-1, 2).copy()

        positions, basis, bids = pairs("position"), pairs("basis"), pairs("price")
        return ReplayOutcome(
            bankroll=MicroDollars(self.settings.bankroll or 0),
            cash=money("cash"),
            realised=money("realised"),
            fees=money("fees"),
            equity=money("equity"),
            mid_equity=money("mid_equity"),
            positions=positions,
            basis=basis,
            unrealised=(positions * bids - basis).sum(axis=1),
            earned=markets["realised"].copy(),
            settled=markets["settled"].copy(),
            steps=int(state["step"]),
            refused=int(state["refused"]),
            orders=rows("orders"),
            fills=rows("fills"),
            samples=rows("samples"),
        )

    # Commands

    def _command(self, code: int, *arguments: int) -> int:
        """Run a command and return its result. The arguments go into the batch's first row, which is faster than passing them singly."""
        batch: Any = self._arrays["batch"]
        try:
            _ROW.pack_into(batch, 0, *arguments, *_ZEROS[len(arguments) :])
        except struct.error:
            raise ConfigError(f"sending an order: the arguments are {arguments!r:.200}; give integers of at most 64 bits") from None
        return int(command(self._words, code, 0, 0))

    def _set(self, name: str, array: np.ndarray) -> None:
        """Store an array, and its address and length in the words."""
        self._arrays[name] = array
        self._words[WORD_OF[name]], self._words[WORD_OF[name] + 1] = array.ctypes.data, len(array)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def new_sides(tape: Tape) -> tuple[np.ndarray, int]:
    """Build the rows of all sides before the first event. Returns them and the number of levels of all sides together."""
    sides = np.zeros(2 * len(tape.tickers), SIDE)
    counts = np.repeat([len(levels) for levels in tape.levels], 2)
    sides["book"] = np.cumsum(counts) - counts
    sides["meets"] = NEVER
    sides["prices"] = np.repeat(tape.starts, 2)
    sides["head"] = sides["quote"] = -1
    return sides, int(counts.sum())


def new_markets(tape: Tape, rules: RuleSet) -> np.ndarray:
    """Build the rows of all markets before the first event."""
    markets = np.zeros(len(tape.tickers), MARKET)
    markets["status"] = TickerStatus.NO_BOOK
    markets["levels"], markets["prices"] = [len(levels) - 2 for levels in tape.levels], tape.starts
    markets["grid"] = np.arange(len(markets)) * tape.grids.shape[1]
    markets["numbers"] = tape.numbers[1]
    markets["fees"] = tape.fees
    units = tape.units if len(tape.units) else np.tile(np.array(rules.units, np.int64), (len(markets), 1))
    for name, column in zip(UNITS, units.T, strict=True):
        markets[name] = column
    return markets


def new_state(tape: Tape, rules: RuleSet, settings: BacktestSettings) -> np.ndarray:
    """Build the row of the account and the clock before the first event."""
    states = np.zeros(1, STATE)
    state = states[0]
    state["tickers"] = state["books_at"] = len(tape.tickers)
    state["grid_width"] = tape.grids.shape[1]
    state["time"] = state["now"] = tape.start
    state["last"] = last_time(tape)
    state["expiry"] = state["timer"] = NEVER
    state["expiry_at"] = state["timer_at"] = -1
    state["cash"] = settings.bankroll
    state["queue"], state["queue_number"] = parse_queue(settings.queue)
    state["cancel_maker"], state["taker_only"] = settings.self_trade == "cancel_maker", settings.execution == "taker_only"
    for name in ("order_latency", "data_latency", "max_orders", "max_resting"):
        state[name] = getattr(settings, name)
    return states


#: Names of queue models, with the minimum and maximum of the number that follows a colon.
_QUEUES = {"trade_only": None, "proportional": (1, 100), "optimistic": None, "sampled": (0, 10**6)}


def parse_queue(name: str | None) -> tuple[Queue, int]:
    """Return the queue model of a name and its number.

    Names are `trade_only`, `optimistic`, `proportional` and `proportional:E` with an exponent (without one: 1), and `sampled:K` with the number
    of a history. Raises `ConfigError` for other names.
    """
    model, colon, text = name.partition(":") if isinstance(name, str) else ("", "", "")
    limits = _QUEUES.get(model)
    if model in _QUEUES and not colon and model != "sampled":
        return Queue[model.upper()], 1
    if limits is not None and text.isascii() and text.isdecimal() and limits[0] <= int(text[:9]) <= limits[1]:
        return Queue[model.upper()], int(text)
    raise ConfigError(
        f"reading a queue model: found {name!r:.60}; give trade_only, proportional, proportional:E with an exponent from 1 to 100, "
        "optimistic, or sampled:K with the number of a history"
    )
