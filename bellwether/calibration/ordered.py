"""Forecasts in ascending order of p, with equal forecasts as one group: what every statistic without bins is computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import Floats, Forecasts, Ints

#: Forecasts closer than this are the same number computed in two ways: 1 - 0.7 is 0.30000000000000004.
_SAME = 1e-15


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """N forecasts in ascending order of p.

    order: intp (N,), positions of the forecasts in that order, ties as they came.
    weight: float64 (N,), how much each counts, in that order.
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
    def of(cls, forecasts: Forecasts) -> Ordered:
        """Sort `forecasts` by probability."""
        order = np.argsort(forecasts.p, kind="stable")
        p, weight = forecasts.p[order], forecasts.weight[order]
        y = forecasts.y[order]
        step = np.append(np.diff(p), 1.0)[: len(p)]
        group_ends = np.flatnonzero(step >= _SAME)
        return cls(order, weight, weight * (p - y), weight * y, np.flatnonzero(step > 0), p[group_ends], group_ends)

    def tally(self) -> tuple[Floats, Floats]:
        """Weight and weight of yes of each group, both float64 (G,)."""
        return self.group_sums(self.weight), self.group_sums(self.yes)

    def group_sums(self, values: Floats) -> Floats:
        """Sums over each group of values in ascending order of p: (..., N) to (..., G)."""
        if len(self.group_ends) == values.shape[-1]:
            return values
        starts = np.append(0, self.group_ends[:-1] + 1)
        return np.add.reduceat(values, starts, axis=-1)
