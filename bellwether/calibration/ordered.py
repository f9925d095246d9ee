"""Forecasts in ascending order of p, with equal forecasts as one group: what every statistic without bins is computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import Bools, Floats, Forecasts, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """N forecasts in ascending order of p, in G groups of equal p.

    order: intp (N,), positions of the forecasts in that order, ties as they came.
    gap: float64 (N,), p - y in that order.
    yes: bool (N,), the outcomes in that order.
    ends: intp (G,), the last position of each group.
    p: float64 (G,), the forecast of each group.
    """

    order: Ints
    gap: Floats
    yes: Bools
    ends: Ints
    p: Floats

    @classmethod
    def of(cls, forecasts: Forecasts) -> Ordered:
        """Sort `forecasts` by probability."""
        order = np.argsort(forecasts.p, kind="stable")
        p, yes = forecasts.p[order], forecasts.y[order]
        last_of_group = np.append(np.diff(p) > 0, True)[: len(p)]
        ends = np.flatnonzero(last_of_group)
        return cls(order, p - yes, yes, ends, p[ends])

    def tally(self) -> tuple[Floats, Floats]:
        """Forecasts and yes outcomes of each group, both float64 (G,), every forecast counted once."""
        return np.diff(self.ends + 1.0, prepend=0.0), np.diff(np.cumsum(self.yes)[self.ends].astype(np.float64), prepend=0.0)

    def weighted_tally(self, weights: Floats) -> tuple[Floats, Floats]:
        """Forecasts and yes outcomes of each group on each replicate, both float64 (R, G).

        `weights` float64 (R, N) counts each forecast, in the sorted order.
        """
        yes = weights * self.yes
        if len(self.ends) == len(self.yes):
            return weights, yes
        starts = np.append(0, self.ends[:-1] + 1)
        return np.add.reduceat(weights, starts, axis=1), np.add.reduceat(yes, starts, axis=1)
