"""Adaptive calibration error: equal-mass bins with tied forecasts shared evenly, for any weights.

Sort the forecasts by p and let D(t) be the sum of p - y over the first t units of mass. A group of equal forecasts has one p and, its
order being arbitrary, one mean outcome, so D is linear across it. K bins of mass N / K each then give

    ACE = sum over k of |D(k N / K) - D((k - 1) N / K)| / N,

which is ECE with equal-mass bins. No order of ties has to be chosen, a forecast on the edge of two bins counts in each by its share, and
copies of the data score as the data do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bellwether.calibration.binning import BINS
from bellwether.calibration.forecasts import Floats, Ints
from bellwether.calibration.ordered import Ordered


def ace(ordered: Ordered, bins: int = BINS) -> float:
    """ACE over so many bins; NaN without a forecast."""
    if not len(ordered.order):
        return float("nan")
    deviation = np.cumsum(ordered.gap)[ordered.ends]
    parts = np.diff(_at_cuts(ordered, deviation, bins))
    return float(np.abs(parts).sum() / np.cumsum(ordered.weight)[-1])


def shares(ordered: Ordered, bins: int = BINS) -> Iterator[tuple[Ints, Floats]]:
    """Which forecasts are in each equal-mass bin, and with which share: per bin, positions in ascending order of p and shares in (0, 1]."""
    mass = np.cumsum(ordered.weight)
    sizes = np.diff(ordered.ends, prepend=-1)
    upper = mass[ordered.ends]
    lower = np.append(0.0, upper[:-1])
    for index in range(bins):
        start, end = (mass[-1] * edge / bins for edge in (index, index + 1))
        share = np.repeat(np.clip((np.minimum(upper, end) - np.maximum(lower, start)) / (upper - lower), 0, 1), sizes)
        some = np.flatnonzero(share)
        yield some, share[some]


def _at_cuts(ordered: Ordered, deviation: Floats, bins: int) -> Floats:
    """D at the ends of the bins, float64 (bins + 1,); `deviation` is D at the end of each run of equal forecasts."""
    mass = np.cumsum(ordered.weight)[ordered.ends]
    cuts = mass[-1] * np.arange(1, bins) / bins
    inner = np.interp(cuts, np.append(0.0, mass), np.append(0.0, deviation))
    return np.concatenate([[0.0], inner, deviation[-1:]])
