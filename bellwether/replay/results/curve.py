"""Metrics of an equity curve, given as times (int64, ns UTC, ascending) and equity (int64, micro-dollars), with the bankroll first."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

#: Nanoseconds of a year of 365.25 days: 525,960 minutes.
YEAR = 31_557_600_000_000_000


class Sharpe(NamedTuple):
    """Sharpe ratio: mean of simple returns divided by their standard deviation (n - 1), with a risk-free rate of 0. ratio: ratio per
    sample; null if undefined. annualised: ratio times the square root of the samples per year. returns: number of returns.
    """

    ratio: float | None
    annualised: float | None
    returns: int


def max_drawdown(equity: np.ndarray) -> float | None:
    """Return the largest fall of equity from its running peak, as a share of the peak. Null if a peak is not positive or equity is empty."""
    share = _max_drawdown(equity)
    return None if math.isnan(share) else share


def sharpe(ts: np.ndarray, equity: np.ndarray, every: int) -> Sharpe:
    """Compute the Sharpe ratio of an equity curve, from points at least `every` ns apart: a point that follows the last used point more
    closely is left out.

    It is null for fewer than 3 points, for equal returns, and if a return starts from equity that is not positive.
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
    """Return the number of returns, the mean (NaN if a return is undefined) and the standard deviation. every: minimum time between points,
    as in `sharpe`.

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
