"""Which points of a long curve are drawn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def extremes(*columns: np.ndarray, most: int) -> np.ndarray:
    """Indices to draw, ascending, about `most` of them at the most: all of a short curve; of a long one the extremes of every column in each stretch, and both ends."""
    count = len(columns[0])
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, max(most // (2 * len(columns)), 2)).astype(int)
    kept = {0, count - 1}
    for start, stop in pairwise(edges.tolist()):
        for column in columns:
            part = column[start:stop]
            kept |= {int(start + part.argmin()), int(start + part.argmax())}
    return np.array(sorted(kept))
