"""Forecasts in ascending order of p, with equal forecasts as one group: what every statistic without bins is computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import Bools, Floats, Forecasts, Ints

#: Forecasts closer than this are the same number computed in two ways: 1 - 0.7 is 0.30000000000000004.
_SAME = 1e-15


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """N forecasts in ascending order of p.

    order: intp (N,), positions of the forecasts in that order, ties as they came.
    gap: float64 (N,), p - y in that order.
    yes: bool (N,), the outcomes in that order.
    ends: intp, the last position of each run of identical p.
    p: float64 (G,), the forecasts that differ by more than rounding.
    group_ends: intp (G,), the last position of each of them.
    """

    order: Ints
    gap: Floats
    yes: Bools
    ends: Ints
    p: Floats
    group_ends: Ints

    @classmethod
    def of(cls, forecasts: Forecasts) -> Ordered:
        """Sort `forecasts` by probability."""
        order = np.argsort(forecasts.p, kind="stable")
        p, yes = forecasts.p[order], forecasts.y[order]
        step = np.append(np.diff(p), 1.0)[: len(p)]
        group_ends = np.flatnonzero(step >= _SAME)
        return cls(order, p - yes, yes, np.flatnonzero(step > 0), p[group_ends], group_ends)

    def tally(self) -> tuple[Floats, Floats]:
        """Forecasts and yes outcomes of each group, both float64 (G,), every forecast counted once."""
        return np.diff(self.group_ends + 1.0, prepend=0.0), np.diff(np.cumsum(self.yes)[self.group_ends].astype(np.float64), prepend=0.0)

    def weighted_tally(self, weights: Floats) -> tuple[Floats, Floats]:
        """Forecasts and yes outcomes of each group on each replicate, both float64 (R, G).

        `weights` float64 (R, N) counts each forecast, in the sorted order.
        """
        yes = weights * self.yes
        if len(self.group_ends) == len(self.yes):
            return weights, yes
        starts = np.append(0, self.group_ends[:-1] + 1)
        return np.add.reduceat(weights, starts, axis=1), np.add.reduceat(yes, starts, axis=1)
