"""Forecasts in ascending order of p, in groups of equal forecasts, and their isotonic recalibration.

Isotonic recalibration is the non-decreasing function of the forecast that is closest to the outcomes (pool-adjacent-violators).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import Floats, Forecasts, Ints

#: Maximum difference of equal forecasts that were computed differently: 1 - 0.7 is 0.30000000000000004.
_SAME = 1e-15


@dataclass(frozen=True, slots=True, eq=False)
class SortedForecasts:
    """N forecasts in ascending order of p.

    order: intp (N,), positions of the forecasts in that order, ties in input order.
    weight: float64 (N,), weights in that order.
    gap: float64 (N,), weight (p - y), in that order.
    yes: float64 (N,), weight y, in that order.
    p: float64 (G,), the forecasts that differ by more than rounding.
    starts: intp (G,), the first position of each of them.
    """

    order: Ints
    weight: Floats
    gap: Floats
    yes: Floats
    p: Floats
    starts: Ints

    @classmethod
    def of(cls, forecasts: Forecasts) -> SortedForecasts:
        """Sort `forecasts` by probability."""
        order = np.argsort(forecasts.p, kind="stable")
        p, weight = forecasts.p[order], forecasts.weight[order]
        y = forecasts.y[order]
        starts = np.flatnonzero(np.diff(p, prepend=-1.0) >= _SAME)
        return cls(order, weight, weight * (p - y), weight * y, p[starts], starts)

    def tally(self) -> tuple[Floats, Floats]:
        """Return the weight of each group of equal forecasts, and the weight of yes in it, float64 (G,) each."""
        if len(self.starts) == len(self.order):
            return self.weight, self.yes
        return np.add.reduceat(self.weight, self.starts), np.add.reduceat(self.yes, self.starts)


def isotonic_fit(mass: Floats, yes: Floats) -> Floats:
    """Compute the recalibrated forecast of each group by isotonic regression, in the shape of `yes`.

    mass: float64 (G,), weight of the forecasts in each group, in ascending order of forecast; positive.
    yes: float64 (..., G), weight of yes in each group; simulated outcomes may be below 0 or above `mass`.

    Many rows are fitted at once: concatenated, each shifted above the previous one, so that no pool spans two rows.
    """
    from scipy.optimize import isotonic_regression

    groups = yes.shape[-1]
    raised = 4.0 * np.repeat(np.arange(yes.size // groups if groups else 0), groups)
    fitted = isotonic_regression((yes / mass).ravel() + raised, weights=np.broadcast_to(mass, yes.shape).ravel()).x
    return np.clip(fitted - raised, 0.0, 1.0).reshape(yes.shape)


def sum_explained_squares(mass: Floats, yes: Floats) -> float:
    """Return the sum of squares of the recalibrated forecasts; 0 without a forecast.

    mass, yes: float64 (G,), weight and weight of yes of each group, in ascending order of forecast.

    The recalibrated forecast of a pool is its rate of yes, so that the sum is that of yes^2 / mass over the pools. Pools of equal rates are
    merged exactly, so that the result for counts depends only on the counts.
    """
    from scipy.optimize import isotonic_regression

    if not len(mass):
        return 0.0
    first = isotonic_regression(yes / mass, weights=mass).blocks[:-1]
    mass, yes = _pool(mass, yes, first)
    differs = np.append(True, yes[1:] * mass[:-1] != yes[:-1] * mass[1:])
    mass, yes = _pool(mass, yes, np.flatnonzero(differs))
    return float((np.square(yes) / mass).sum())


def _pool(mass: Floats, yes: Floats, first: Ints) -> tuple[Floats, Floats]:
    """Merge runs of neighbouring groups: sum `mass` and `yes` from each index in `first` up to the next one."""
    return np.add.reduceat(mass, first), np.add.reduceat(yes, first)
