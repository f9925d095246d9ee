"""Prices of grids as arrays, and numbered price levels for compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from bellwether.replay.episode.price_grid import USUAL, Ranges
from bellwether.replay.units import DOLLAR, MILL


def grid_prices(ranges: Ranges) -> np.ndarray:
    """Return the prices of these ranges above 0 and below a dollar, int64, ascending."""
    on_grid = np.zeros(DOLLAR + 1, np.bool_)
    for start, end, step in ranges:
        on_grid[start : end + 1 : step] = True
    return np.flatnonzero(on_grid[:DOLLAR])[int(on_grid[0]) :]


def are_on_grid(ranges: Ranges, prices: np.ndarray) -> bool:
    """Return True if each price, or a dollar less it, is on the grid."""
    grid = grid_prices(ranges)
    return bool(np.isin(prices, np.concatenate([grid, DOLLAR - grid])).all())


def coarsest_grid(prices: np.ndarray) -> Ranges:
    """Return the coarsest usual grid that has all of these prices."""
    return next(ranges for ranges in USUAL if are_on_grid(ranges, prices))


def are_in_mills(ranges: Iterable[Ranges], *prices: np.ndarray) -> bool:
    """Return True if all prices and grids are whole tenths of a cent, the unit of the first format of episodes."""
    return not any(price % MILL for grid in ranges for span in grid for price in span) and not any((part % MILL).any() for part in prices)


class GridOwner(Protocol):
    """Market with its grids."""

    @property
    def grids(self) -> tuple[tuple[int, Ranges], ...]:
        """Grids as (ns UTC from which it is valid, ranges), in chronological order."""


class PriceLevels:
    """Prices at which bids of either side can rest, in all markets, numbered in ascending order.

    The levels of a market are the prices of all its grids and a dollar less each. prices: int64[k]. number: int64[10001], number of each
    price, -1 if it is no level. grids: bool[g, k], levels of each distinct list of grids. grid_of: int64[T], row of each market in `grids`.
    """

    def __init__(self, markets: Sequence[GridOwner]) -> None:
        rows: dict[tuple[Ranges, ...], int] = {}
        self.grid_of = np.array([rows.setdefault(tuple(grid for _, grid in market.grids), len(rows)) for market in markets], np.int64)
        allowed = np.zeros((len(rows), DOLLAR + 1), np.bool_)
        for grids, row in rows.items():
            for grid in grids:
                allowed[row, grid_prices(grid)] = True
        allowed |= allowed[:, ::-1]
        self.prices = np.flatnonzero(allowed.any(axis=0))
        self.number = np.full(DOLLAR + 1, -1, np.int64)
        self.number[self.prices] = np.arange(len(self.prices))
        self.grids = np.ascontiguousarray(allowed[:, self.prices])

    def numbers(self, price: np.ndarray) -> np.ndarray:
        """Return the number of each price, int64; -1 if it is no level of any market."""
        inside = (price > 0) & (price < DOLLAR)
        return np.where(inside, self.number[np.where(inside, price, 0)], -1)

    def allow(self, ticker: np.ndarray, price: np.ndarray) -> np.ndarray:
        """Return for each pair of ticker and price whether the market has this level, bool."""
        number = self.numbers(price)
        return (number >= 0) & self.grids[self.grid_of[ticker], number]

    def first(self) -> np.ndarray:
        """Return the lowest level price of each market, int64[T]."""
        return self.prices[self.grids.argmax(axis=1)][self.grid_of]
