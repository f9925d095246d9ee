"""Adaptive calibration error: equal-mass bins with tied forecasts shared evenly, for any weights.

Sort the forecasts by p and let D(t) be the sum of p - y over the first t units of mass. A group of equal forecasts has one p and, its
order being arbitrary, one mean outcome, so D is linear across it. Ten bins of mass N / 10 each then give

    ACE = sum over k of |D(k N / 10) - D((k - 1) N / 10)| / N,

which is ECE with equal-mass bins. No order of ties has to be chosen, a forecast on the edge of two bins counts in each by its share, and
k copies of the data score as the data do.
"""

from __future__ import annotations

import numpy as np

from bellwether.calibration.binning import BINS
from bellwether.calibration.forecasts import Floats
from bellwether.calibration.ordered import Ordered


def ace(ordered: Ordered) -> float:
    """ACE with every forecast counted once; NaN without a forecast."""
    if not len(ordered.order):
        return float("nan")
    mass = (ordered.ends + 1).astype(np.float64)[None, :]
    return float(_ace(mass, np.cumsum(ordered.gap)[None, ordered.ends])[0])


def weighted_ace(ordered: Ordered, weights: Floats) -> Floats:
    """ACE of each replicate, float64 (R,); `weights` float64 (R, N) counts each forecast, in the sorted order. NaN where all are 0."""
    if not len(ordered.order):
        return np.full(len(weights), np.nan)
    mass = np.cumsum(weights, axis=1)
    deviation = np.cumsum(np.multiply(weights, ordered.gap), axis=1)
    if len(ordered.ends) < len(ordered.order):
        mass, deviation = mass[:, ordered.ends], deviation[:, ordered.ends]
    return _ace(mass, deviation)


def _ace(mass: Floats, deviation: Floats) -> Floats:
    """ACE of each row from the cumulative mass and the cumulative sum of p - y at the end of each group of ties, both (R, G)."""
    rows, groups = mass.shape
    size = mass[:, -1]
    cuts = size[:, None] * np.arange(1, BINS) / BINS
    # Rows are laid end to end, each shifted beyond the one before, so that one binary search finds every cut's group.
    shift = np.arange(rows)[:, None] * (size.max() + 1)
    at = np.searchsorted((mass + shift).ravel(), (cuts + shift).ravel()).reshape(rows, BINS - 1)
    first = at % groups == 0
    mass_before = np.where(first, 0.0, mass.ravel()[at - 1])
    deviation_before = np.where(first, 0.0, deviation.ravel()[at - 1])
    share = np.divide(cuts - mass_before, mass.ravel()[at] - mass_before, out=np.zeros_like(cuts), where=size[:, None] > 0)
    at_cuts = deviation_before + share * (deviation.ravel()[at] - deviation_before)
    parts = np.diff(np.concatenate([np.zeros((rows, 1)), at_cuts, deviation[:, -1:]], axis=1), axis=1)
    return np.divide(np.abs(parts).sum(axis=1), size, out=np.full(rows, np.nan), where=size > 0)
