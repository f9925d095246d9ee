"""Numbers of the price levels of a tape's markets, and the levels at which the price grid of a market allows orders.

A *word* is a packed event (`layout`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bellwether.replay.tape.layout import (
    KIND_MASK,
    LEVEL,
    PRICE_MASK,
    PRICE_SHIFT,
    PRICES,
    PRINT,
    TICKER_MASK,
    TICKER_SHIFT,
)
from bellwether.replay.units import DOLLAR

#: Sorted prices of a grid, in $0.0001, and the time from which it is valid, ns UTC.
Grid = tuple[int, np.ndarray]


def level_prices(grids: Sequence[np.ndarray], recorded: np.ndarray) -> np.ndarray:
    """Return the price of each level of a market, ascending, int64[n + 2]: 0, all prices of its grids and of the recording, a dollar.

    grids: prices of each grid. recorded: prices in the recording. For each price, a dollar less the price is also a level.
    """
    prices = np.unique(np.concatenate([*grids, recorded]))
    prices = prices[(prices > 0) & (prices < DOLLAR)]
    return np.unique(np.concatenate([[0], prices, DOLLAR - prices, [DOLLAR]])).astype(np.int64)


def number_levels(words: np.ndarray, levels: Sequence[np.ndarray]) -> np.ndarray:
    """Replace the price in each word by its index in the list of its market's levels. levels: that list for each market."""
    priced = words & KIND_MASK <= PRINT
    numbers = np.zeros((len(levels), PRICES), np.int64)
    for row, prices in zip(numbers, levels, strict=True):
        row[prices] = np.arange(len(prices))
    levels_of = numbers[words >> TICKER_SHIFT & TICKER_MASK, words >> PRICE_SHIFT & PRICE_MASK]
    return np.where(priced, words & ~(PRICE_MASK << PRICE_SHIFT) | levels_of << PRICE_SHIFT, words)


def level_words(words: np.ndarray, grids: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Replace prices in words by level numbers. Returns the new words and the prices of each market's levels. grids: by market."""
    priced = words[(words & KIND_MASK <= PRINT) & (words & KIND_MASK >= LEVEL)]
    codes, prices = priced >> TICKER_SHIFT & TICKER_MASK, priced >> PRICE_SHIFT & PRICE_MASK
    levels = tuple(level_prices(own, prices[codes == code]) for code, own in enumerate(grids))
    return number_levels(words, levels), levels


def allowed_levels(levels: Sequence[np.ndarray], grids: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Mark the levels that each grid allows for orders, uint8[V, longest], one row per grid in the order of `Tape.grids`.

    levels: prices of each market's levels. grids: prices of each market's grids. Rows: the first grids of all markets, then later grids
    market by market.
    """
    rows = [(code, own[0]) for code, own in enumerate(grids)] + [(code, grid) for code, own in enumerate(grids) for grid in own[1:]]
    allowed = np.zeros((len(rows), max(map(len, levels), default=0)), np.uint8)
    for row, (code, grid) in zip(allowed, rows, strict=True):
        row[: len(levels[code])] = np.isin(levels[code], grid)
    return allowed
