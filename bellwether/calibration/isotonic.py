"""Isotonic recalibration: the non-decreasing function of the forecast that is closest to the outcomes (pool-adjacent-violators)."""

from __future__ import annotations

import numpy as np

from bellwether.calibration.forecasts import Floats, Ints


def fit(mass: Floats, yes: Floats) -> Floats:
    """The recalibrated forecast of each group, shape of `yes`.

    mass: float64 (G,), weight of the forecasts in each group, the groups in ascending order of forecast; positive.
    yes: float64 (..., G), weight of yes in each group; of simulated outcomes also below 0 or above `mass`.

    Many rows are fitted at once: laid end to end, each raised so far above the one before that no pooling crosses from one to the next.
    """
    from scipy.optimize import isotonic_regression

    groups = yes.shape[-1]
    raised = 4.0 * np.repeat(np.arange(yes.size // groups if groups else 0), groups)
    fitted = isotonic_regression((yes / mass).ravel() + raised, weights=np.broadcast_to(mass, yes.shape).ravel()).x
    return np.clip(fitted - raised, 0.0, 1.0).reshape(yes.shape)


def explained(mass: Floats, yes: Floats) -> float:
    """The sum of squares of the recalibrated forecasts; 0 without a forecast.

    mass, yes: float64 (G,), weight and weight of yes of each group, the groups in ascending order of forecast.

    The recalibrated forecast of a pool is its rate of yes, so that the sum is that of yes^2 / mass over the pools. Pools of equal rates are
    merged exactly, and the sum of counts depends on nothing but the counts.
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
    """Add up the groups from each index of `first` to the next."""
    return np.add.reduceat(mass, first), np.add.reduceat(yes, first)
