"""Metrics of an equity curve: int64 times (ns UTC, ascending) and int64 equity (micro-dollars), the bankroll at the start first."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from bellwether.units import MicroDollars

#: Nanoseconds of a year of 365.25 days: 525,960 minutes.
YEAR = 31_557_600_000_000_000


class Sharpe(NamedTuple):
    """Sharpe ratio: mean over standard deviation (n - 1) of simple returns, risk-free rate 0; both ratios are null where undefined.

    ratio: per sample. annualised: times the square root of the samples per year. returns: number of returns.
    """

    ratio: float | None
    annualised: float | None
    returns: int


def curve_of(start: int, bankroll: MicroDollars, ts: np.ndarray, equity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sampled curve, int64 (s,) each, preceded by the bankroll at `start`."""
    return np.concatenate((np.array([start], np.int64), ts)), np.concatenate((np.array([bankroll], np.int64), equity))


def max_drawdown(equity: np.ndarray) -> float | None:
    """Return the largest fall from the running peak as a share of that peak, 0 without a fall; null without a point or a positive peak."""
    share = _max_drawdown(equity)
    return None if math.isnan(share) else share


def drawdowns(equity: np.ndarray) -> np.ndarray:
    """Return the fall from the running peak at each point as a share of the peak, float64 (s,); NaN where the peak is not positive."""
    peak = np.maximum.accumulate(equity)
    return np.divide(peak - equity, peak, out=np.full(len(equity), np.nan), where=peak > 0)


def sharpe(ts: np.ndarray, equity: np.ndarray, every: int) -> Sharpe:
    """Compute the Sharpe ratio of the curve sampled at least `every` ns apart; of nearer points the first is kept.

    Null below 3 points, if all returns are equal, and if a return starts from equity that is not positive.
    """
    count, mean, deviation = _returns(ts, equity, every)
    if count < 2 or math.isnan(mean) or deviation == 0.0:
        return Sharpe(None, None, count)
    ratio = mean / deviation
    return Sharpe(ratio, ratio * math.sqrt(YEAR / every), count)


@njit(cache=True, nogil=True)
def _max_drawdown(equity):  # type: ignore[no-untyped-def]
    worst, peak = 0.0, 0
    for value in equity:
        peak = max(peak, value)
        if peak <= 0:
            return math.nan
        worst = max(worst, (peak - value) / peak)
    return worst if len(equity) else math.nan


@njit(cache=True, nogil=True)
def _returns(ts, equity, every):  # type: ignore[no-untyped-def]
    """Return (number of returns, mean, standard deviation); mean NaN if a return is undefined.

    Sequential sums are bitwise equal on every machine.
    A difference and an equity of less than 2^53 micro-dollars divide to the nearest float, so equal returns are equal floats.
    """
    returns = np.empty(max(len(ts) - 1, 0))
    count, last = 0, 0
    for index in range(1, len(ts)):
        if ts[index] - ts[last] < every:
            continue
        if equity[last] <= 0:
            return count, math.nan, math.nan
        returns[count] = (equity[index] - equity[last]) / equity[last]
        count, last = count + 1, index
    if count < 2:
        return count, 0.0, 0.0
    total, equal = 0.0, True
    for index in range(count):
        total += returns[index]
        equal = equal and returns[index] == returns[0]
    mean, squares = total / count, 0.0
    for index in range(count):
        squares += (returns[index] - mean) ** 2
    return count, mean, 0.0 if equal else math.sqrt(squares / (count - 1))
