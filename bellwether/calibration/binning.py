"""Bins of the probability scale. The default are ten of equal width, with the exact edges that published calibration errors use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bellwether.calibration.forecasts import Floats, Ints
from bellwether.errors import ScoringError

#: Equal-width bins, and equal-mass bins of the adaptive calibration error, when nothing else is chosen.
BINS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Bins of [0, 1] between ascending `edges`, float64 (K + 1,): left edge inside, right edge outside except in the last bin."""

    edges: Floats

    @classmethod
    def of(cls, bins: int | ArrayLike = BINS) -> Bins:
        """So many bins of equal width, or bins between given edges from 0 to 1. Raises `ScoringError` for anything else.

        The edges of equal-width bins are the literal floats of `numpy.linspace(0, 1, K + 1)`: of ten, 0.3 and 0.7 differ from 3/10 and
        7/10 in the last bit, and forecasts sit on them.
        """
        if isinstance(bins, int | np.integer):
            if bins < 1:
                raise ScoringError(f"binning: bins is {bins}; give a positive number, or edges from 0 to 1")
            return cls(np.linspace(0.0, 1.0, int(bins) + 1))
        try:
            edges = np.asarray(bins, dtype=np.float64)
        except (TypeError, ValueError):
            raise ScoringError(f"binning: bins is {bins!r}; give a number, or edges from 0 to 1") from None
        if edges.ndim != 1 or len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
            raise ScoringError(f"binning: the edges are {edges.tolist()}; give ascending edges from 0 to 1")
        return cls(edges)

    @property
    def count(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    def index(self, p: Floats) -> Ints:
        """Bin of each probability, intp of the shape of `p`."""
        return np.minimum(np.searchsorted(self.edges, p, side="right") - 1, self.count - 1)


#: Ten bins of equal width.
DECILES = Bins.of(BINS)
DECILES.edges.flags.writeable = False
EDGES: Floats = DECILES.edges
