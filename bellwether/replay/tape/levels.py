"""Numbers of a market's price levels on a tape, and the levels that its grids allow for orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bellwether.replay.tape.layout import (
    GRID,
    KIND_MASK,
    LEVEL,
    PRICE_MASK,
    PRICE_SHIFT,
    PRICES,
    PRINT,
    TICKER_MASK,
    TICKER_SHIFT,
    Tape,
    cache_per_tape,
)
from bellwether.replay.units import DOLLAR, MILL

#: Sorted prices of a grid, in $0.0001, and the time from which it is valid, ns UTC.
Grid = tuple[int, np.ndarray]


def every_mill() -> np.ndarray:
    """Return all tenths of a cent above 0 and below a dollar, int64[999]."""
    return np.arange(MILL, DOLLAR, MILL)


def level_prices(grids: Sequence[np.ndarray], recorded: np.ndarray) -> np.ndarray:
    """Return the price of each level, with 0 for level 0 and a dollar at the end, int64[n + 2]. recorded: prices in the recording."""
    prices = np.unique(np.concatenate([*grids, recorded]))
    prices = prices[(prices > 0) & (prices < DOLLAR)]
    return np.unique(np.concatenate([[0], prices, DOLLAR - prices, [DOLLAR]])).astype(np.int64)


def number_levels(words: np.ndarray, levels: Sequence[np.ndarray]) -> np.ndarray:
    """Replace the prices in words by the numbers of their market's levels."""
    priced = words & KIND_MASK <= PRINT
    numbers = np.zeros((len(levels), PRICES), np.int64)
    for row, prices in zip(numbers, levels, strict=True):
        row[prices] = np.arange(len(prices))
    levels_of = numbers[words >> TICKER_SHIFT & TICKER_MASK, words >> PRICE_SHIFT & PRICE_MASK]
    return np.where(priced, words & ~(PRICE_MASK << PRICE_SHIFT) | levels_of << PRICE_SHIFT, words)


def level_words(words: np.ndarray, grids: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Convert words with prices to words with level numbers. Returns them and the levels of each market. grids: prices by market."""
    priced = words[(words & KIND_MASK <= PRINT) & (words & KIND_MASK >= LEVEL)]
    codes, prices = priced >> TICKER_SHIFT & TICKER_MASK, priced >> PRICE_SHIFT & PRICE_MASK
    levels = tuple(level_prices(own, prices[codes == code]) for code, own in enumerate(grids))
    return number_levels(words, levels), levels


def allowed_levels(levels: Sequence[np.ndarray], grids: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Mark the levels that each grid allows, uint8[V, longest]: first grids of all markets, then later grids market by market."""
    rows = [(code, own[0]) for code, own in enumerate(grids)] + [(code, grid) for code, own in enumerate(grids) for grid in own[1:]]
    allowed = np.zeros((len(rows), max(map(len, levels), default=0)), np.uint8)
    for row, (code, grid) in zip(allowed, rows, strict=True):
        row[: len(levels[code])] = np.isin(levels[code], grid)
    return allowed


@cache_per_tape
def allow_every_mill(tape: Tape) -> Tape:
    """Return a tape that allows orders at every tenth of a cent, for rules without grids."""
    grids = [[every_mill()]] * len(tape.tickers)
    is_other = tape.event & KIND_MASK != GRID
    event, levels = level_words(_restore_prices(tape)[is_other], grids)
    rows_end = np.concatenate([[0], np.cumsum(is_other)])[tape.rows_end]
    return replace(tape, ts=tape.ts[is_other], event=event, rows_end=rows_end, levels=levels, grids=allowed_levels(levels, grids))


def _restore_prices(tape: Tape) -> np.ndarray:
    """Replace level numbers in the events by prices, int64[n]."""
    codes, numbers = tape.event >> TICKER_SHIFT & TICKER_MASK, tape.event >> PRICE_SHIFT & PRICE_MASK
    priced = tape.event & KIND_MASK <= PRINT
    prices = tape.prices[np.where(priced, tape.starts[codes] + numbers, 0)]
    return np.where(priced, tape.event & ~(PRICE_MASK << PRICE_SHIFT) | prices << PRICE_SHIFT, tape.event)
