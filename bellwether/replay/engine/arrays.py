"""Arrays of a replay and their growth.

Compiled code finds the arrays through the *words*, an array of their addresses and lengths.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from bellwether.replay.engine.codes import TickerStatus
from bellwether.replay.engine.requests import engine_address
from bellwether.replay.engine.schedule import DECISION
from bellwether.replay.engine.settings import ReplaySettings, parse_queue
from bellwether.replay.engine.state import (
    ARRAYS,
    ENTRY_WORD,
    MARKET,
    NEVER,
    NO_BOOK_YET,
    SIDE,
    STATE,
    WATCH_ORDERS,
    WORD_OF,
    WORDS,
)
from bellwether.replay.rules import RuleSet
from bellwether.replay.tape.layout import Tape

#: Initial numbers of rows.
FIRST_ROWS, FIRST_MESSAGES, FIRST_UPDATES = 1 << 13, 256, 256
#: Rows of orders, fills and messages in a compiled run, in which arrays cannot grow. Memory that is never written is free.
COMPILED_ROWS = {"orders": 1 << 20, "fills": 1 << 22, "messages": 1 << 16}


def field_columns(record: np.dtype) -> Any:
    """Map each field of a record to its column when the record is viewed as a row of integers."""
    fields: Any = record.fields
    return SimpleNamespace(**{name: fields[name][1] // 8 for name in record.names or ()})


STATE_AT, SIDE_AT, MARKET_AT = field_columns(STATE), field_columns(SIDE), field_columns(MARKET)


def record_width(name: str) -> int:
    """Return the number of integers in a row of the array `name`."""
    return ARRAYS[name].itemsize // 8


class Arrays:
    """Arrays of one replay, int64[rows, fields] each, which compiled code and Python share. schedule: result of `build_schedule`."""

    def __init__(self, tape: Tape, rules: RuleSet, schedule: np.ndarray, settings: ReplaySettings) -> None:
        self.settings = settings
        self._longest = max(map(len, tape.levels), default=0)
        sides, slots = new_sides(tape)
        stops = int(np.count_nonzero(schedule[:, 2] == DECISION))
        markets = new_markets(tape, rules)
        state = new_state(tape, rules, settings)
        self._arrays: dict[str, np.ndarray] = {
            "ts": tape.ts,
            "event": tape.event,
            "prices": tape.prices,
            "numbers": tape.numbers[0],
            "grids": tape.grids.reshape(-1),
            "schedule": schedule,
            "state": state,
            "markets": markets,
            "sides": sides,
            "shown": np.zeros(slots, np.int64),
            "marks": np.full(slots, NO_BOOK_YET, np.int32),
            "taken": np.zeros(slots, np.int64),
            "orders": new_rows(FIRST_ROWS, record_width("orders")),
            "fills": new_rows(FIRST_ROWS, record_width("fills")),
            "samples": new_rows(len(schedule) - stops, record_width("samples")),
            "messages": new_rows(FIRST_MESSAGES, record_width("messages")),
            "batch": new_rows(256, record_width("batch")),
            "updates": new_rows(FIRST_UPDATES, record_width("updates")),
            "noted": new_rows(FIRST_ROWS, record_width("noted")),
            "trades": new_rows(0, record_width("trades")),
        }
        #: Flat, indexed by `STATE_AT`.
        self._state = state[0]
        self._words = np.zeros(WORDS, np.int64)
        self._words[ENTRY_WORD] = engine_address()
        for name, array in self._arrays.items():
            self._point(name, array)

    def _fit_batch(self, count: int) -> None:
        if count > len(self._arrays["batch"]):
            self._set("batch", new_rows(2 * count, record_width("batch")))

    def _grow(self) -> None:
        """Double the arrays that are full or nearly full."""
        state = self._state
        state[STATE_AT.full] = 0
        orders, fills, tail = (int(state[place]) for place in (STATE_AT.orders, STATE_AT.fills, STATE_AT.message_tail))
        if orders + 2 > len(self._arrays["orders"]):
            self._resize("orders", 2 * len(self._arrays["orders"]), orders)
        room = 4 * self._longest + 2 * int(self._arrays["sides"][:, SIDE_AT.own].sum()) + 8
        if fills + room > len(self._arrays["fills"]):
            self._resize("fills", 2 * len(self._arrays["fills"]) + room, fills)
        if 2 * tail + 20 > len(self._arrays["messages"]):
            self._resize("messages", 2 * len(self._arrays["messages"]) + 20, tail)
        self._make_room_for_updates()

    def _reserve(self) -> None:
        """Enlarge the arrays for a compiled run."""
        for name, used in (("orders", STATE_AT.orders), ("fills", STATE_AT.fills), ("messages", STATE_AT.message_tail)):
            rows = COMPILED_ROWS[name] if name != "orders" else min(COMPILED_ROWS[name], self.settings.max_orders + 2)
            if len(self._arrays[name]) < rows:
                self._resize(name, rows, int(self._state[used]))
        self._make_room_for_updates()

    def _make_room_for_updates(self) -> None:
        """Enlarge the arrays of order updates as the number of orders requires."""
        state, rows = self._state, len(self._arrays["orders"])
        if not state[STATE_AT.watch] & WATCH_ORDERS:
            return
        if len(self._arrays["noted"]) < rows:
            self._resize("noted", rows, int(state[STATE_AT.open]))
        needed = int(state[STATE_AT.update_tail] + state[STATE_AT.open] + state[STATE_AT.orders] - state[STATE_AT.noted]) + 2
        if needed > len(self._arrays["updates"]):
            self._resize("updates", 2 * max(needed, len(self._arrays["updates"])), int(state[STATE_AT.update_tail]))

    def _resize(self, name: str, rows: int, used: int) -> None:
        larger = new_rows(rows, record_width(name))
        larger[:used] = self._arrays[name][:used]
        self._set(name, larger)

    def _set(self, name: str, array: np.ndarray) -> None:
        self._arrays[name] = array
        self._point(name, array)

    def _point(self, name: str, array: np.ndarray) -> None:
        """Store the address and length of an array in the words."""
        self._words[WORD_OF[name]], self._words[WORD_OF[name] + 1] = array.ctypes.data, len(array)


def new_rows(rows: int, fields: int) -> np.ndarray:
    """Return zeros, int64[rows, fields]."""
    return np.zeros((rows, fields), np.int64)


def new_sides(tape: Tape) -> tuple[np.ndarray, int]:
    """Build the rows of all sides before the first event. Returns them and the number of levels of all sides together."""
    sides = np.zeros(2 * len(tape.tickers), SIDE)
    counts = np.repeat([len(levels) for levels in tape.levels], 2)
    sides["book"] = np.cumsum(counts) - counts
    sides["meets"] = NEVER
    sides["prices"] = np.repeat(tape.starts, 2)
    sides["head"] = sides["quote"] = -1
    return _integer_rows(sides), int(counts.sum())


def new_markets(tape: Tape, rules: RuleSet) -> np.ndarray:
    """Build the rows of all markets before the first event."""
    markets = np.zeros(len(tape.tickers), MARKET)
    markets["status"] = TickerStatus.NO_BOOK
    markets["levels"], markets["prices"] = [len(levels) - 2 for levels in tape.levels], tape.starts
    markets["grid"] = np.arange(len(markets)) * tape.grids.shape[1]
    markets["numbers"] = tape.numbers[1]
    markets["fees"] = tape.fees
    units = tape.units if len(tape.units) else np.tile(np.array(rules.units, np.int64), (len(markets), 1))
    for name, column in zip(("min_lots", "lot_step", "fee_unit", "balance_unit", "rebate_unit", "rebate_above"), units.T, strict=True):
        markets[name] = column
    return _integer_rows(markets)


def new_state(tape: Tape, rules: RuleSet, settings: ReplaySettings) -> np.ndarray:
    """Build the row of the account and the clock before the first event."""
    states = np.zeros(1, STATE)
    state = states[0]
    state["tickers"] = state["books_at"] = len(tape.tickers)
    state["grid_width"] = tape.grids.shape[1]
    state["time"] = state["now"] = tape.start
    state["expiry"] = state["timer"] = NEVER
    state["expiry_at"] = state["timer_at"] = -1
    state["cash"] = settings.bankroll
    state["queue"], state["queue_number"] = parse_queue(settings.queue)
    state["cancel_maker"], state["taker_only"] = settings.self_trade == "cancel_maker", settings.execution == "taker_only"
    for name in ("order_latency", "data_latency", "max_orders", "max_resting"):
        state[name] = getattr(settings, name)
    return _integer_rows(states)


def _integer_rows(records: np.ndarray) -> np.ndarray:
    """View records as rows of integers without a copy."""
    return records.view(np.int64).reshape(len(records), records.dtype.itemsize // 8)
