"""Intervals of means over episodes, each episode counting as a cluster of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bellwether.calibration.means import ClusterSums, mean_tests

Floats = np.ndarray

#: Fewer episodes than this have no interval.
LEAST_EPISODES = 3


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n` episodes with its 95 % interval; None where undefined, with the reason."""

    value: float | None
    n: int
    lower: float | None = None
    upper: float | None = None
    df: float | None = None
    reason: str | None = None


def mean_over(values: Floats) -> Estimate:
    """Mean of float64 values, NaN left out, with its interval (`bellwether.calibration.means`) from `LEAST_EPISODES` on."""
    defined = values[~np.isnan(values)]
    n = len(defined)
    if n == 0:
        return Estimate(None, 0, reason="undefined in every episode")
    value = float(defined.mean())
    if n < LEAST_EPISODES:
        return Estimate(value, n, reason=f"{n} episode{'' if n == 1 else 's'}; an interval needs {LEAST_EPISODES}")
    tests = mean_tests([ClusterSums(defined[:, None], np.ones((n, 1)))])
    if tests.reason[0] is not None:
        return Estimate(value, n, reason="it is the same in every episode")
    return Estimate(value, n, float(tests.lower[0]), float(tests.upper[0]), float(tests.df[0]))
