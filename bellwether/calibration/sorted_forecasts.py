"""Forecasts in ascending order of p, in groups of equal forecasts; ACE and isotonic recalibration.

The adaptive calibration error (ACE) has equal-mass bins with tied forecasts shared evenly, for any weights. D(t) is the sum of p - y over the
first t units of mass. A group of equal forecasts has one p and, its order being arbitrary, one mean outcome, so D is linear across it. K bins of
mass N / K each then give

    ACE = sum over k of |D(k N / K) - D((k - 1) N / K)| / N,

which is ECE with equal-mass bins. The order of ties does not matter, a forecast on the edge of two bins counts in each by its share, and
duplicated data have the same score.

Isotonic recalibration is the non-decreasing function of the forecast that is closest to the outcomes (pool-adjacent-violators).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import BINS, Floats, Forecasts, Ints

#: Maximum difference of equal forecasts that were computed differently: 1 - 0.7 is 0.30000000000000004.
_SAME = 1e-15


@dataclass(frozen=True, slots=True, eq=False)
class SortedForecasts:
    """N forecasts in ascending order of p.

    order: intp (N,), positions of the forecasts in that order, ties in input order.
    weight: float64 (N,), weights in that order.
    gap: float64 (N,), weight (p - y), in that order.
    yes: float64 (N,), weight y, in that order.
    ends: intp, the last position of each run of identical p.
    p: float64 (G,), the forecasts that differ by more than rounding.
    group_ends: intp (G,), the last position of each of them.
    """

    order: Ints
    weight: Floats
    gap: Floats
    yes: Floats
    ends: Ints
    p: Floats
    group_ends: Ints

    @classmethod
    def of(cls, forecasts: Forecasts) -> SortedForecasts:
        """Sort `forecasts` by probability."""
        order = np.argsort(forecasts.p, kind="stable")
        p, weight = forecasts.p[order], forecasts.weight[order]
        y = forecasts.y[order]
        step = np.append(np.diff(p), 1.0)[: len(p)]
        group_ends = np.flatnonzero(step >= _SAME)
        return cls(order, weight, weight * (p - y), weight * y, np.flatnonzero(step > 0), p[group_ends], group_ends)

    def tally(self) -> tuple[Floats, Floats]:
        """Return the weight of each group of equal forecasts, and the weight of yes in it, float64 (G,) each."""
        return self.group_sums(self.weight), self.group_sums(self.yes)

    def group_sums(self, values: Floats) -> Floats:
        """Sum values of sorted forecasts by group: (..., N) to (..., G)."""
        if len(self.group_ends) == values.shape[-1]:
            return values
        starts = np.append(0, self.group_ends[:-1] + 1)
        return np.add.reduceat(values, starts, axis=-1)


def ace(ordered: SortedForecasts, bins: int = BINS) -> float:
    """Compute ACE with `bins` bins of equal mass; NaN without a forecast."""
    if not len(ordered.order):
        return float("nan")
    deviation = np.cumsum(ordered.gap)[ordered.ends]
    parts = np.diff(_deviation_at_cuts(ordered, deviation, bins))
    return float(np.abs(parts).sum() / np.cumsum(ordered.weight)[-1])


def shares(ordered: SortedForecasts, bins: int = BINS) -> Iterator[tuple[Ints, Floats]]:
    """Yield for each equal-mass bin the forecasts in it: their positions in ascending order of p, and the share (0, 1] of each that lies in
    the bin.
    """
    mass = np.cumsum(ordered.weight)
    sizes = np.diff(ordered.ends, prepend=-1)
    upper = mass[ordered.ends]
    lower = np.append(0.0, upper[:-1])
    for index in range(bins):
        start, end = (mass[-1] * edge / bins for edge in (index, index + 1))
        share = np.repeat(np.clip((np.minimum(upper, end) - np.maximum(lower, start)) / (upper - lower), 0, 1), sizes)
        positions = np.flatnonzero(share)
        yield positions, share[positions]


def _deviation_at_cuts(ordered: SortedForecasts, deviation: Floats, bins: int) -> Floats:
    """Return D (defined at the top of the module) at the ends of the bins, float64 (bins + 1,). deviation: D at the end of each run of
    equal forecasts.
    """
    mass = np.cumsum(ordered.weight)[ordered.ends]
    cuts = mass[-1] * np.arange(1, bins) / bins
    inner = np.interp(cuts, np.append(0.0, mass), np.append(0.0, deviation))
    return np.concatenate([[0.0], inner, deviation[-1:]])


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
