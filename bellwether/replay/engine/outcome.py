"""What came of a replay."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

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
from bellwether.replay.engine.codes import O_FILLED, O_STATUS, S_EQUITY, S_OPT, S_PESS, Status
from bellwether.replay.engine.marks import unrealised
from bellwether.replay.engine.money import value_account
from bellwether.replay.engine.settings import Settings
from bellwether.replay.units import DOLLAR
from bellwether.units import MicroDollars, Mills

#: Of the chosen queue model, the pessimistic one, the optimistic one.
Thrice = tuple[MicroDollars, MicroDollars, MicroDollars]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The end of a replay: money in micro-dollars, sizes in lots, times in ns UTC. Arrays are copies.

    bankroll: cash at the start. cash, realised, fees, equity: of the chosen queue model, the pessimistic one, the optimistic one; the rest is of the
    chosen one, but for the last columns of the samples. mid_equity: at mid. positions, basis: int64[T, 2], what is still held because the tape does
    not settle it, and what it cost. unrealised: int64[T], its mark less that cost. steps: decisions. refused: orders that were not logged. orders,
    fills, samples: as in `Session`. filled: int64[n, 2], lots of each order that are filled in the pessimistic and the optimistic account, -1 where
    an account has no such order.
    """

    bankroll: MicroDollars
    cash: Thrice
    realised: Thrice
    fees: Thrice
    equity: Thrice
    mid_equity: MicroDollars
    positions: np.ndarray
    basis: np.ndarray
    unrealised: np.ndarray
    steps: int
    refused: int
    orders: np.ndarray
    fills: np.ndarray
    samples: np.ndarray
    filled: np.ndarray

    @property
    def pnl(self) -> Thrice:
        """Equity less bankroll: of the chosen queue model, the pessimistic one, the optimistic one."""
        main, pessimistic, optimistic = self.equity
        return MicroDollars(main - self.bankroll), MicroDollars(pessimistic - self.bankroll), MicroDollars(optimistic - self.bankroll)

    def count(self, status: Status) -> int:
        """Number of orders that ended so."""
        return int(np.count_nonzero(self.orders[:, O_STATUS] == status))

    def digest(self) -> str:
        """SHA-256 in hex of every number of it: equal on every machine for the same tape, rules, settings and orders."""
        numbers = [self.bankroll, *self.cash, *self.realised, *self.fees, *self.equity, self.mid_equity, self.steps, self.refused]
        seen = hashlib.sha256(np.array(numbers, "<i8").tobytes())
        for array in (self.positions, self.basis, self.orders, self.fills, self.samples, self.filled):
            seen.update(np.array(array.shape, "<i8").tobytes())
            seen.update(np.ascontiguousarray(array, "<i8").tobytes())
        return seen.hexdigest()


def outcome_of(core: np.ndarray, orders: np.ndarray, fills: np.ndarray, samples: np.ndarray, settings: Settings) -> Outcome:
    """The outcome of a state whose tape is processed to the end; its bounds are itself."""
    value_account(core)
    rows = ticker_rows(core)
    return Outcome(
        bankroll=settings.bankroll,
        cash=_thrice(core[H_CASH]),
        realised=_thrice(core[H_REALISED]),
        fees=_thrice(core[H_FEES]),
        equity=_thrice(core[H_EQUITY]),
        mid_equity=MicroDollars(int(core[H_MID_EQUITY])),
        positions=rows[:, K_POSITION : K_POSITION + 2].copy(),
        basis=rows[:, K_BASIS : K_BASIS + 2].copy(),
        unrealised=_unrealised(rows, fifty=bool(core[H_FIFTY])),
        steps=int(core[H_STEP]),
        refused=int(core[H_REFUSED]),
        orders=orders.copy(),
        fills=fills.copy(),
        samples=samples.copy(),
        filled=np.repeat(orders[:, [O_FILLED]], 2, axis=1),
    )


def _unrealised(rows: np.ndarray, *, fifty: bool) -> np.ndarray:
    """int64[T], micro-dollars: the mark of what each market still holds, less its cost."""
    columns = (rows[:, first : first + 2].tolist() for first in (K_POSITION, K_BASIS, K_BEST))
    missing = Mills(DOLLAR // 2 if fifty else 0)
    return np.array([unrealised(held, costs, bids, missing) for held, costs, bids in zip(*columns, strict=True)], np.int64)


def _thrice(value: np.integer) -> Thrice:
    amount = MicroDollars(int(value))
    return amount, amount, amount


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """Bounds of an outcome. curve: int64[s], equity at each sample. filled: int64[n], lots filled of what corresponds to each order, -1 for nothing."""

    cash: MicroDollars
    realised: MicroDollars
    fees: MicroDollars
    equity: MicroDollars
    curve: np.ndarray
    filled: np.ndarray


def bound_of(core: np.ndarray, orders: np.ndarray, samples: np.ndarray, twins: np.ndarray) -> Bound:
    """The bound of an account whose tape is processed to the end; twins: int64[n], its order for each of the chosen account's, -1 for none."""
    equity = MicroDollars(int(value_account(core)))
    filled = np.where(twins >= 0, orders[twins, O_FILLED], -1) if len(orders) else np.full(len(twins), -1, np.int64)
    cash, realised, fees = (MicroDollars(int(core[place])) for place in (H_CASH, H_REALISED, H_FEES))
    return Bound(cash, realised, fees, equity, samples[:, S_EQUITY].copy(), filled)


def bound_by(outcome: Outcome, orders: int) -> Bound:
    """The bound that another run of the agent is: none of its orders corresponds to one of the `orders` of the chosen run."""
    (cash, *_), (realised, *_), (fees, *_), (equity, *_) = outcome.cash, outcome.realised, outcome.fees, outcome.equity
    return Bound(cash, realised, fees, equity, outcome.samples[:, S_EQUITY], np.full(orders, -1, np.int64))


def bounded(chosen: Outcome, pessimistic: Bound, optimistic: Bound) -> Outcome:
    """An outcome between its bounds."""
    samples = chosen.samples.copy()
    samples[:, S_PESS], samples[:, S_OPT] = pessimistic.curve, optimistic.curve
    return replace(
        chosen,
        cash=(chosen.cash[0], pessimistic.cash, optimistic.cash),
        realised=(chosen.realised[0], pessimistic.realised, optimistic.realised),
        fees=(chosen.fees[0], pessimistic.fees, optimistic.fees),
        equity=(chosen.equity[0], pessimistic.equity, optimistic.equity),
        samples=samples,
        filled=np.column_stack((pessimistic.filled, optimistic.filled)),
    )
