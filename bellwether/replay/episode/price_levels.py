"""Prices of grids as arrays, and numbered price levels for compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from bellwether.replay.episode.price_grid import USUAL, Ranges
from bellwether.replay.units import DOLLAR, MILL


def grid_prices(ranges: Ranges) -> np.ndarray:
    """Return the prices in these ranges that are above 0 and below a dollar, int64, ascending."""
    on_grid = np.zeros(DOLLAR + 1, np.bool_)
    for start, end, step in ranges:
        on_grid[start : end + 1 : step] = True
    return np.flatnonzero(on_grid[:DOLLAR])[int(on_grid[0]) :]


def are_on_grid(ranges: Ranges, prices: np.ndarray) -> bool:
    """Return True if for each price either the price or a dollar less the price is on the grid `ranges`."""
    grid = grid_prices(ranges)
    return bool(np.isin(prices, np.concatenate([grid, DOLLAR - grid])).all())


def coarsest_grid(prices: np.ndarray) -> Ranges:
    """Return the coarsest of the venues' usual grids (`USUAL`) that has all of these prices."""
    return next(ranges for ranges in USUAL if are_on_grid(ranges, prices))


def are_in_mills(ranges: Iterable[Ranges], *prices: np.ndarray) -> bool:
    """Return True if all prices and grids are whole tenths of a cent, the unit of the first format of episodes."""
    return not any(price % MILL for grid in ranges for span in grid for price in span) and not any((part % MILL).any() for part in prices)


class GridOwner(Protocol):
    """Market as far as its price grids are concerned."""

    @property
    def grids(self) -> tuple[tuple[int, Ranges], ...]:
        """Price grids as (ns UTC from which the grid is valid, price ranges), in chronological order."""


class PriceLevels:
    """Levels: all prices at which a bid of either side can rest in some market, numbered in ascending order.

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
        """Return for each pair of ticker code and price whether a bid can rest there in that market, bool."""
        number = self.numbers(price)
        return (number >= 0) & self.grids[self.grid_of[ticker], number]

    def first(self) -> np.ndarray:
        """Return the price of each market's lowest level, int64[T]."""
        return self.prices[self.grids.argmax(axis=1)][self.grid_of]
