"""Equal-width bins of the probability scale, with the exact edges that published calibration errors use."""

from __future__ import annotations

import numpy as np

from bellwether.calibration.forecasts import Floats, Ints

BINS = 10

#: The literal floats matter: 0.3 and 0.7 differ from 3/10 and 7/10 of this grid in the last bit, and forecasts sit on them.
EDGES: Floats = np.linspace(0.0, 1.0, BINS + 1)
EDGES.flags.writeable = False


def bin_of(p: Floats) -> Ints:
    """Index of the bin of each probability: left edge inside, right edge outside except in the last bin."""
    return np.minimum(np.searchsorted(EDGES, p, side="right") - 1, BINS - 1)
