"""The arrays of a replay: their places, their sizes at the start, how they grow, and the words by which compiled code finds them."""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.arena import (
    H_ACCOUNTS,
    H_FILLS,
    H_FULL,
    H_L_TAIL,
    H_M_HEAD,
    H_M_TAIL,
    H_NOTED,
    H_OPEN,
    H_ORDERS,
    H_ROOM,
    H_U_TAIL,
    H_WATCH,
    M_COLS,
    W_ENTRY,
    W_EVENT,
    W_TS,
    WATCH_LATE,
    WATCH_ORDERS,
    WORDS,
)
from bellwether.replay.engine.codes import F_COLS, O_COLS, R_COLS, S_COLS, TRADE_COLS, U_COLS
from bellwether.replay.engine.commands import entry
from bellwether.replay.engine.known import L_PER_TICKER, L_TICKERS
from bellwether.replay.engine.schedule import DECISION
from bellwether.replay.engine.settings import Settings
from bellwether.replay.engine.updates import N_COLS
from bellwether.replay.tape.layout import Tape

(
    TS,
    EVENT,
    GRID,
    SCHEDULE,
    CORE,
    ORDERS,
    FILLS,
    SAMPLES,
    MESSAGES,
    BATCH,
    UPDATES,
    NOTED,
    TRADES,
    SEEN,
    SEEN_ORDERS,
    LEDGERS,
    SERIES,
) = range(17)
#: Rows at the start. Compiled runs, which must start again to grow, begin with many: what is not touched costs nothing. Arrays of less than 32 MB
#: are taken from memory that an earlier session gave back; larger ones are new pages every time.
FIRST_ROWS, FIRST_MESSAGES, FIRST_UPDATES, COMPILED_ROWS = 1 << 13, 256, 256, 120_000


class Arrays:
    """Arrays of one replay for compiled code. cores: from `arena.new_cores`, of its accounts; schedule: from `schedule_of`."""

    def __init__(self, tape: Tape, schedule: np.ndarray, cores: np.ndarray, settings: Settings) -> None:
        self.settings = settings
        self._core = cores[0]
        accounts = len(cores)
        steps = np.count_nonzero(schedule[:, 2] == DECISION)
        self._sim: tuple[np.ndarray, ...] = (
            tape.ts,
            tape.event,
            tape.grid,
            schedule,
            cores,
            new_rows(accounts, FIRST_ROWS, O_COLS),
            new_rows(accounts, FIRST_ROWS, F_COLS),
            new_rows(accounts, len(schedule) - int(steps), S_COLS),
            new_rows(accounts, FIRST_MESSAGES, M_COLS),
            new_rows(256, R_COLS + 1),
            new_rows(FIRST_UPDATES, U_COLS),
            new_rows(FIRST_ROWS, N_COLS),
            new_rows(0, TRADE_COLS),
            cores[:1].copy() if settings.answers_late else cores[:1],
            new_rows(FIRST_ROWS if settings.answers_late else 0, O_COLS),
            new_rows(FIRST_UPDATES, L_TICKERS + L_PER_TICKER * len(tape.tickers)),
            new_rows(0, 3) if settings.latencies is None else settings.latencies.rows,
        )
        #: The state that the agent knows; where answers are not later than market data, that of the chosen account.
        self._seen = self._sim[SEEN][0]
        self._words = np.zeros(WORDS, np.int64)
        self._words[W_ENTRY] = entry()
        for index, array in enumerate(self._sim):
            self._point(index, array)
        self._show_orders()

    def _fit_batch(self, count: int) -> None:
        if count > len(self._sim[BATCH]):
            self._set(BATCH, new_rows(2 * count, R_COLS + 1))

    def _grow(self, *, everything: bool = False) -> None:
        """Double what is full or nearly so, and go on."""
        core = self._core
        core[H_FULL] = 0
        orders, fills, tail = self._most(H_ORDERS), self._most(H_FILLS), self._most(H_M_TAIL)
        if everything or orders + 2 > self._sim[ORDERS].shape[1]:
            self._resize(ORDERS, 2 * self._sim[ORDERS].shape[1], orders)
        if everything or fills + core[H_ROOM] > self._sim[FILLS].shape[1]:
            self._resize(FILLS, 2 * self._sim[FILLS].shape[1] + int(core[H_ROOM]), fills)
        if everything or tail + 4 > self._sim[MESSAGES].shape[1]:
            self._move_messages(2 * self._sim[MESSAGES].shape[1] + 4)
        self._make_room_for_updates(more=everything)

    def _most(self, column: int) -> int:
        """The largest value of a column of the header over the accounts in use."""
        return int(self._sim[CORE][: self._core[H_ACCOUNTS], column].max())

    def _make_room(self) -> None:
        """For a compiled run."""
        rows = COMPILED_ROWS
        for index, used in ((ORDERS, H_ORDERS), (FILLS, H_FILLS)):
            if self._sim[index].shape[1] < rows:
                self._resize(index, rows, self._most(used))
        self._make_room_for_updates()

    def _make_room_for_updates(self, *, more: bool = False) -> None:
        """As many rows of open orders as of orders, and for the updates that these may become; twice as many as there are with `more`."""
        core, rows = self._core, self._sim[ORDERS].shape[1]
        if not core[H_WATCH] & (WATCH_ORDERS | WATCH_LATE):
            return
        if self.settings.answers_late and len(self._sim[SEEN_ORDERS]) < rows:
            orders = new_rows(rows, O_COLS)
            orders[: core[H_ORDERS]] = self._sim[SEEN_ORDERS][: core[H_ORDERS]]
            self._set(SEEN_ORDERS, orders)
        if len(self._sim[NOTED]) < rows:
            noted = new_rows(rows, N_COLS)
            noted[: core[H_OPEN]] = self._sim[NOTED][: core[H_OPEN]]
            self._set(NOTED, noted)
        needed = int(core[H_U_TAIL] + core[H_OPEN] + core[H_ORDERS] - core[H_NOTED]) + 2
        for index, used, needs in ((UPDATES, H_U_TAIL, needed), (LEDGERS, H_L_TAIL, int(core[H_L_TAIL]) + 1)):
            if more or needs > len(self._sim[index]):
                larger = new_rows(2 * max(needs, len(self._sim[index])), self._sim[index].shape[1])
                larger[: core[used]] = self._sim[index][: core[used]]
                self._set(index, larger)

    def _move_messages(self, rows: int) -> None:
        """Room behind the messages that are still under way, which go to the front."""
        cores, messages = self._sim[CORE], self._sim[MESSAGES]
        larger = new_rows(len(cores), rows, M_COLS)
        for account in range(self._core[H_ACCOUNTS]):
            head, tail = cores[account, [H_M_HEAD, H_M_TAIL]].tolist()
            larger[account, : tail - head] = messages[account, head:tail]
            cores[account, [H_M_HEAD, H_M_TAIL]] = 0, tail - head
        self._set(MESSAGES, larger)

    def _resize(self, index: int, rows: int, used: int) -> None:
        accounts, _, columns = self._sim[index].shape
        larger = new_rows(accounts, rows, columns)
        larger[:, :used] = self._sim[index][:, :used]
        self._set(index, larger)

    def _set(self, index: int, array: np.ndarray) -> None:
        self._sim = (*self._sim[:index], array, *self._sim[index + 1 :])
        self._point(index, array)
        if index == ORDERS:
            self._show_orders()

    def _show_orders(self) -> None:
        """Where answers are not late, the agent knows the orders of the chosen account as they are."""
        if not self.settings.answers_late:
            self._set(SEEN_ORDERS, self._sim[ORDERS][0])

    def _point(self, index: int, array: np.ndarray) -> None:
        """Tell compiled code where an array lies and how large it is."""
        first = W_TS + (W_EVENT - W_TS) * index
        self._words[first], self._words[first + 1 : first + 1 + array.ndim] = array.ctypes.data, array.shape


def new_rows(*shape: int) -> np.ndarray:
    """An array of whole numbers, with whatever was in its memory."""
    return np.empty(shape, np.int64)
