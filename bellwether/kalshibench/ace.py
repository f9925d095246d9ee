"""Adaptive calibration error (ACE) as published by KalshiBench, and its range over the orders of tied forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bellwether.calibration.forecasts import BINS, Floats, Ints


@dataclass(frozen=True, slots=True)
class AceRange:
    """Minimum and maximum of ACE over all orders of tied forecasts. varies: True if the order changes the outcomes in a bin."""

    minimum: float
    maximum: float
    varies: bool

    def explains(self, value: float) -> bool:
        """Return True if the order of ties matters and `value` lies in the range."""
        return self.varies and self.minimum - 1e-12 <= value <= self.maximum + 1e-12


def compute_ace(p: Floats, y: Floats, stored: Ints | None = None) -> float:
    """Compute the ACE of forecasts `p` (N,) with outcomes `y` (N,): ⌊N/10⌋ forecasts per bin, the rest in the last.

    `stored` (N,): the bin of each forecast in the published sort. Without it the local, unstable sort decides ties. The mean of a bin is that
    of its sorted slice, as published; another order of summation changes the last bit.
    """
    if stored is None:
        order = np.argsort(p)
        ends = _ends(len(p))
    else:
        order = np.lexsort((p, stored))
        ends = np.searchsorted(stored[order], np.arange(BINS), side="right").tolist()
    p, y = p[order], y[order]
    errors = [(end - start, abs(np.mean(p[start:end]) - np.mean(y[start:end]))) for start, end in pairwise([0, *ends]) if end > start]
    return float(sum(count * error for count, error in errors) / len(p))


def compute_ace_range(p: Floats, y: Floats) -> AceRange:
    """Compute the minimum and maximum of `compute_ace` over all orders of tied forecasts. p, y: forecasts and known outcomes, (N,) each.

    A bin contributes |sum of its forecasts - its count of yes| / N. Only a boundary within a tie can move a yes. So the minimum and maximum counts
    of yes up to each boundary, and the sizes of the bins in between, describe every order.
    """
    order = np.argsort(p, kind="stable")
    p, yes = p[order], np.concatenate([[0], np.cumsum(y[order])]).astype(np.intp)
    ends = _ends(len(p))
    counts, minimum, maximum, varies = np.array([0]), np.zeros(1), np.zeros(1), False
    for start, end in pairwise([0, *ends]):
        possible_counts = _yes_before(end, p, yes)
        varies = varies or len(possible_counts) > 1
        step = possible_counts[:, None] - counts[None, :]
        error = np.abs(p[start:end].sum() - step) / len(p)
        possible = (step >= 0) & (step <= end - start)
        minimum = np.where(possible, minimum + error, np.inf).min(axis=1)
        maximum = np.where(possible, maximum + error, -np.inf).max(axis=1)
        counts = possible_counts
    return AceRange(float(minimum[0]), float(maximum[0]), varies)


def _ends(size: int) -> list[int]:
    """Return the end of each bin (exclusive) as a position among `size` sorted forecasts. With few forecasts some bins are empty."""
    bin_size = max(size // BINS, 1)
    return [min(bin_size * index, size) for index in range(1, BINS)] + [size]


def _yes_before(boundary: int, p: Floats, yes: Ints) -> Ints:
    """Return the possible counts of yes among the first `boundary` sorted forecasts, ascending: several if a tie spans the boundary. yes:
    cumulative counts of yes in one order, (N + 1,).
    """
    if boundary == len(p) or p[boundary - 1] < p[boundary]:
        return yes[[boundary]]
    start, end = (int(np.searchsorted(p, p[boundary], side)) for side in ("left", "right"))
    of_tie = yes[end] - yes[start]
    smallest = max(0, of_tie - (end - boundary))
    largest = min(of_tie, boundary - start)
    return yes[start] + np.arange(smallest, largest + 1)
