"""Bootstrap intervals of means and medians over episodes: episodes are drawn with replacement, each whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bellwether.calibration.bootstrap import Bootstrap, bca_interval, exactly_summable, percentile_interval, product

Floats = np.ndarray

#: Fewer episodes than this have no interval.
LEAST_EPISODES = 3

#: Weights held at a time, about 16 MB.
_BLOCK = 2_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic over episodes; null where undefined. lower, upper: percentile interval. bca_lower, bca_upper: bias-corrected and accelerated."""

    value: float | None
    n: int
    lower: float | None = None
    upper: float | None = None
    bca_lower: float | None = None
    bca_upper: float | None = None


def mean_over(values: Floats, plan: Bootstrap | None = None) -> Estimate:
    """Mean of float64 values, NaN left out, with its intervals from `LEAST_EPISODES` on."""
    return _estimate(values, _mean, _without_each, plan or Bootstrap())


def median_over(values: Floats, plan: Bootstrap | None = None) -> Estimate:
    """Median of float64 values, NaN left out, with its percentile interval; there is no other: leaving out one episode hardly moves a median."""
    return _estimate(values, _median, None, plan or Bootstrap())


def _estimate(
    values: Floats, statistic: Callable[[Floats, Floats], Floats], jackknife: Callable[[Floats], Floats] | None, plan: Bootstrap
) -> Estimate:
    defined = values[~np.isnan(values)]
    n = len(defined)
    if n == 0:
        return Estimate(None, 0)
    value = float(statistic(defined, np.ones((1, n)))[0])
    if n < LEAST_EPISODES or plan.replicates == 0:
        return Estimate(value, n)
    drawn = np.concatenate([statistic(defined, weights) for weights in _weights(plan, n)])
    ends = percentile_interval(drawn, plan)
    corrected = bca_interval(value, drawn, jackknife(defined), plan) if jackknife else (float("nan"), float("nan"))
    return Estimate(value, n, *(None if np.isnan(end) else end for end in (*ends, *corrected)))


def _weights(plan: Bootstrap, n: int) -> Iterable[Floats]:
    """The blocks of the plan; a single one is kept: most numbers of an agent, and most agents, have as many episodes as the last."""
    return (_only_block(plan, n),) if plan.replicates * n <= _BLOCK else plan.weights(n, max(1, _BLOCK // n))


@lru_cache(maxsize=1)
def _only_block(plan: Bootstrap, n: int) -> Floats:
    return next(plan.weights(n, plan.replicates))


def _mean(values: Floats, weights: Floats) -> Floats:
    """Weighted mean per replicate, float64 (R,), from float64 (R, n) counts that sum to n."""
    return product(weights, exactly_summable(values[:, None]))[:, 0] / len(values)


def _median(values: Floats, weights: Floats) -> Floats:
    """Median per replicate, the mean of the two in the middle where their number is even."""
    order = np.argsort(values, kind="stable")
    ranked, drawn = values[order], np.cumsum(weights[:, order], axis=1)
    low, high = ((drawn < rank).sum(axis=1) for rank in ((len(values) + 1) // 2, len(values) // 2 + 1))
    return (ranked[low] + ranked[high]) / 2


def _without_each(values: Floats) -> Floats:
    return (values.sum() - values) / (len(values) - 1)
