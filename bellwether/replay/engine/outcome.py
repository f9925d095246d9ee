"""Outcome of a replay."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from bellwether.replay.engine.arrays import MARKET_AT, SIDE_AT, STATE_AT
from bellwether.replay.engine.settings import ReplaySettings
from bellwether.units import MicroDollars


@dataclass(frozen=True, slots=True, eq=False)
class ReplayOutcome:
    """Outcome of a replay: final account, orders, fills and equity samples. Money in micro-dollars, sizes in lots, times in ns UTC.

    bankroll: initial cash. cash, realised, fees: of the account. equity: at the liquidation side. mid_equity: at mid. positions, basis:
    int64[T, 2], positions that the tape does not settle, and their cost. unrealised: int64[T], their mark less that cost. earned, settled: int64[T],
    realised P&L of each market, and its part from settlement; neither is in the digest. steps: decisions.
    refused: orders that were not logged. orders, fills, samples: as in `Session`.
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
        for array in (self.positions, self.basis, self.unrealised, self.orders, self.fills, self.samples):
            digest.update(np.array(array.shape, "<i8").tobytes())
            digest.update(np.ascontiguousarray(array, "<i8").tobytes())
        return digest.hexdigest()


def build_outcome(arrays: dict[str, np.ndarray], settings: ReplaySettings) -> ReplayOutcome:
    """Build the outcome of a finished replay from its arrays, whose account has already been valued."""
    state, sides = arrays["state"][0], arrays["sides"]

    def money(name: str) -> MicroDollars:
        return MicroDollars(int(state[getattr(STATE_AT, name)]))

    def rows(name: str) -> np.ndarray:
        used = arrays[name][: state[getattr(STATE_AT, name)]]
        used.flags.writeable = False
        return used

    def pairs(name: str) -> np.ndarray:
        return sides[:, getattr(SIDE_AT, name)].reshape(-1, 2).copy()

    positions, basis, bids = pairs("position"), pairs("basis"), pairs("price")
    return ReplayOutcome(
        bankroll=settings.bankroll,
        cash=money("cash"),
        realised=money("realised"),
        fees=money("fees"),
        equity=money("equity"),
        mid_equity=money("mid_equity"),
        positions=positions,
        basis=basis,
        unrealised=(positions * bids - basis).sum(axis=1),
        earned=arrays["markets"][:, MARKET_AT.realised].copy(),
        settled=arrays["markets"][:, MARKET_AT.settled].copy(),
        steps=int(state[STATE_AT.step]),
        refused=int(state[STATE_AT.refused]),
        orders=rows("orders"),
        fills=rows("fills"),
        samples=rows("samples"),
    )
