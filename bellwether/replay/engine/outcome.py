"""What came of a replay."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from bellwether.replay.engine.arena import (
    H_CASH,
    H_EQUITY,
    H_FEES,
    H_FIFTY,
    H_MID_EQUITY,
    H_REALISED,
    H_REFUSED,
    H_STEP,
    K_BASIS,
    K_BEST,
    K_POSITION,
    ticker_rows,
)
from bellwether.replay.engine.codes import O_STATUS, Status
from bellwether.replay.engine.money import value_accounts
from bellwether.replay.engine.settings import Settings
from bellwether.replay.units import DOLLAR, MILL_LOT


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The end of a replay: money in micro-dollars, sizes in lots, times in ns UTC. Arrays are copies.

    bankroll: cash at the start. cash, realised, fees, equity: by model: main, pessimistic queue, optimistic queue. mid_equity: main, at mid.
    positions, basis, values: int64[T, 2], what is still held because the tape does not settle it, what it cost, and at what it is marked. steps: decisions. refused: orders that
    were not logged. orders, fills, samples: as in `Session`.
    """

    bankroll: int
    cash: tuple[int, int, int]
    realised: tuple[int, int, int]
    fees: tuple[int, int, int]
    equity: tuple[int, int, int]
    mid_equity: int
    positions: np.ndarray
    basis: np.ndarray
    values: np.ndarray
    steps: int
    refused: int
    orders: np.ndarray
    fills: np.ndarray
    samples: np.ndarray

    @property
    def pnl(self) -> tuple[int, int, int]:
        """Equity less bankroll, by model."""
        main, pessimistic, optimistic = self.equity
        return main - self.bankroll, pessimistic - self.bankroll, optimistic - self.bankroll

    def count(self, status: Status) -> int:
        """How many orders ended so."""
        return int(np.count_nonzero(self.orders[:, O_STATUS] == status))

    def digest(self) -> str:
        """SHA-256 in hex of every number of it: equal on every machine for the same tape, rules, settings and orders."""
        numbers = [self.bankroll, *self.cash, *self.realised, *self.fees, *self.equity, self.mid_equity, self.steps, self.refused]
        seen = hashlib.sha256(np.array(numbers, "<i8").tobytes())
        for array in (self.positions, self.basis, self.orders, self.fills, self.samples):
            seen.update(np.array(array.shape, "<i8").tobytes())
            seen.update(np.ascontiguousarray(array, "<i8").tobytes())
        return seen.hexdigest()


def outcome_of(core: np.ndarray, orders: np.ndarray, fills: np.ndarray, samples: np.ndarray, settings: Settings) -> Outcome:
    """The outcome of a state whose tape is processed to the end."""
    value_accounts(core)
    rows = ticker_rows(core)
    return Outcome(
        bankroll=settings.bankroll,
        cash=_models(core, H_CASH),
        realised=_models(core, H_REALISED),
        fees=_models(core, H_FEES),
        equity=_models(core, H_EQUITY),
        mid_equity=int(core[H_MID_EQUITY]),
        positions=rows[:, K_POSITION : K_POSITION + 2].copy(),
        basis=rows[:, K_BASIS : K_BASIS + 2].copy(),
        values=_values(rows, fifty=bool(core[H_FIFTY])),
        steps=int(core[H_STEP]),
        refused=int(core[H_REFUSED]),
        orders=orders.copy(),
        fills=fills.copy(),
        samples=samples.copy(),
    )


def _values(rows: np.ndarray, *, fifty: bool) -> np.ndarray:
    """Micro-dollars at which the main positions are marked, as `value_accounts` marks them."""
    bid = rows[:, K_BEST : K_BEST + 2]
    ask = DOLLAR - bid[:, ::-1]
    if fifty:
        ask = np.where(bid[:, ::-1] > 0, ask, DOLLAR // 2)
        bid = np.where(bid > 0, bid, DOLLAR // 2)
    lots = rows[:, K_POSITION : K_POSITION + 2]
    return np.asarray(MILL_LOT * np.where(lots > 0, bid, ask) * lots)


def _models(core: np.ndarray, first: int) -> tuple[int, int, int]:
    main, pessimistic, optimistic = core[first : first + 3].tolist()
    return main, pessimistic, optimistic
