"""Price levels of a market: their numbers, and the levels that its grids allow for orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from bellwether.replay.episode.metadata import Market

#: Sorted prices of a grid, in $0.0001, and the time from which it is valid, ns UTC.
Grid = tuple[int, np.ndarray]


def price_grids(markets: Sequence[Market]) -> list[list[Grid]]:
    """Return the grids of each market in chronological order."""
    return [market.price_grids() for market in markets]


def every_mill() -> np.ndarray:
    """Return every tenth of a cent above 0 and below a dollar, int64[999]."""
    return np.arange(MILL, DOLLAR, MILL)


def level_prices(grids: Sequence[np.ndarray], shown: np.ndarray) -> np.ndarray:
    """Return the price of each level, of level 0 (0) and of a dollar, int64[n + 2]. shown: prices in the recording."""
    prices = np.unique(np.concatenate([*grids, shown]))
    prices = prices[(prices > 0) & (prices < DOLLAR)]
    return np.unique(np.concatenate([[0], prices, DOLLAR - prices, [DOLLAR]])).astype(np.int64)


def number_levels(words: np.ndarray, levels: Sequence[np.ndarray]) -> np.ndarray:
    """Replace the prices of words by the level numbers of their market."""
    priced = words & KIND_MASK <= PRINT
    numbers = np.zeros((len(levels), PRICES), np.int64)
    for row, prices in zip(numbers, levels, strict=True):
        row[prices] = np.arange(len(prices))
    found = numbers[words >> TICKER_SHIFT & TICKER_MASK, words >> PRICE_SHIFT & PRICE_MASK]
    return np.where(priced, words & ~(PRICE_MASK << PRICE_SHIFT) | found << PRICE_SHIFT, words)


def level_words(words: np.ndarray, grids: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Convert words with prices to (words with level numbers, levels of each market). grids: sorted prices of each market."""
    priced = words[(words & KIND_MASK <= PRINT) & (words & KIND_MASK >= LEVEL)]
    codes, prices = priced >> TICKER_SHIFT & TICKER_MASK, priced >> PRICE_SHIFT & PRICE_MASK
    levels = tuple(level_prices(own, prices[codes == code]) for code, own in enumerate(grids))
    return number_levels(words, levels), levels


def allowed_levels(levels: Sequence[np.ndarray], grids: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Mark the levels that each grid allows, uint8[V, longest]: the first grids of all markets, then the later ones, market by market."""
    rows = [(code, own[0]) for code, own in enumerate(grids)] + [(code, grid) for code, own in enumerate(grids) for grid in own[1:]]
    allowed = np.zeros((len(rows), max(map(len, levels), default=0)), np.uint8)
    for row, (code, grid) in zip(allowed, rows, strict=True):
        row[: len(levels[code])] = np.isin(levels[code], grid)
    return allowed


@cache_per_tape
def allow_every_mill(tape: Tape) -> Tape:
    """Allow orders at every tenth of a cent, for rules without grids."""
    words = _restore_prices(tape)
    numbered, levels = level_words(words[words & KIND_MASK != GRID], [[every_mill()]] * len(tape.tickers))
    kept = tape.event & KIND_MASK != GRID
    rows_end = np.concatenate([[0], np.cumsum(kept)])[tape.rows_end]
    return replace(
        tape,
        ts=tape.ts[kept],
        event=numbered,
        rows_end=rows_end,
        levels=levels,
        grids=allowed_levels(levels, [[every_mill()]] * len(levels)),
    )


def _restore_prices(tape: Tape) -> np.ndarray:
    """Replace level numbers of the events by prices, int64[n]."""
    codes, numbers = tape.event >> TICKER_SHIFT & TICKER_MASK, tape.event >> PRICE_SHIFT & PRICE_MASK
    priced = tape.event & KIND_MASK <= PRINT
    prices = tape.prices[np.where(priced, tape.starts[codes] + numbers, 0)]
    return np.where(priced, tape.event & ~(PRICE_MASK << PRICE_SHIFT) | prices << PRICE_SHIFT, tape.event)
