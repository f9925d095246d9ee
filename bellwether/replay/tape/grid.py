"""The prices that a market's own tick grid allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bellwether.replay.tape.layout import PRICES

if TYPE_CHECKING:
    from bellwether.replay.episode.metadata import Market


def price_grid(markets: Sequence[Market]) -> np.ndarray:
    """uint8[T, 1001]: 1 at the prices, in mills above 0 and below a dollar, that lie in one of the market's ranges."""
    grid = np.zeros((len(markets), PRICES), np.uint8)
    for row, market in zip(grid, markets, strict=True):
        for start, end, step in market.price_ranges:
            row[start : end + 1 : step] = 1
    grid[:, [0, PRICES - 1]] = 0
    return grid


def level_grid(markets: Sequence[Market]) -> np.ndarray:
    """bool[T, 1001]: prices at which bids of either side can stand: those of the grid, and what they are for the other side."""
    grid = price_grid(markets).astype(bool)
    return grid | grid[:, ::-1]
