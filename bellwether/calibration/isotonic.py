"""Isotonic recalibration: the non-decreasing function of the forecast that is closest to the outcomes (pool-adjacent-violators).

Many replicates are fitted at once: their groups are laid end to end, each replicate raised so far above the one before that no
pooling crosses from one to the next.
"""

from __future__ import annotations

import numpy as np

from bellwether.calibration.forecasts import Bools, Floats, Ints


def fit(mass: Floats, yes: Floats) -> Floats:
    """The recalibrated forecast of each group, shape of `yes`.

    mass: float64 (..., G), forecasts in each group, the groups in ascending order of forecast; positive.
    yes: float64 (..., G), yes outcomes in each group.
    """
    from scipy.optimize import isotonic_regression

    groups = yes.shape[-1]
    raised = 2.0 * np.repeat(np.arange(yes.size // groups if groups else 0), groups)
    fitted = isotonic_regression((yes / mass).ravel() + raised, weights=np.broadcast_to(mass, yes.shape).ravel()).x
    return np.clip(fitted - raised, 0.0, 1.0).reshape(yes.shape)


def explained(mass: Floats, yes: Floats) -> Floats:
    """The sum of squares of the recalibrated forecasts, of the leading shape of `mass`; 0 without a forecast.

    mass: float64 (..., G), forecasts in each group, the groups in ascending order of forecast; 0 for a group that a replicate lacks.
    yes: float64 (..., G), yes outcomes in each group.

    The recalibrated forecast of a pool is its rate of yes, so that the sum is that of yes^2 / mass over the pools. Both are counts:
    pools of equal rates are merged exactly, and the sum depends on nothing but the counts.
    """
    from scipy.optimize import isotonic_regression

    shape = mass.shape[:-1]
    mass, yes = np.atleast_2d(mass), np.atleast_2d(yes)
    some = mass > 0
    row = np.nonzero(some)[0]
    if not len(row):
        return np.zeros(shape)
    mass, yes = mass[some], yes[some]
    first = isotonic_regression(yes / mass + 2.0 * row, weights=mass).blocks[:-1]
    mass, yes, row = _pool(mass, yes, row, first)
    mass, yes, row = _pool(mass, yes, row, np.flatnonzero(_differs(mass, yes, row)))
    return np.asarray(np.bincount(row, np.square(yes) / mass, minlength=len(some)), dtype=np.float64).reshape(shape)


def _pool(mass: Floats, yes: Floats, row: Ints, first: Ints) -> tuple[Floats, Floats, Ints]:
    """Add up the groups from each index of `first` to the next."""
    return np.add.reduceat(mass, first), np.add.reduceat(yes, first), row[first]


def _differs(mass: Floats, yes: Floats, row: Ints) -> Bools:
    """Whether each pool has another rate than the one before it, or belongs to another replicate."""
    return np.append(True, (yes[1:] * mass[:-1] != yes[:-1] * mass[1:]) | (np.diff(row) > 0))
