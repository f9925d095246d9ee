"""Price grids: the prices that orders of a market may have, as ranges with a step, and the numbering of price levels for compiled passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Protocol

import numpy as np

from bellwether.errors import SchemaError
from bellwether.replay.units import DOLLAR, MILL, centicents
from bellwether.units import CentiCents

#: Start, end and step of prices that orders may have.
PriceRange = tuple[CentiCents, CentiCents, CentiCents]
Ranges = tuple[PriceRange, ...]


def ranges_of(spans: Iterable[Any]) -> Ranges:
    """Price ranges in order of their start. spans: [start, end, step] or objects with these fields, in dollars as text.

    Raises `SchemaError` for a price outside 0 to a dollar or finer than $0.0001, and for a step of 0.
    """
    found: list[PriceRange] = []
    for span in spans:
        try:
            values = [span[name] for name in ("start", "end", "step")] if isinstance(span, dict) else span
            start, end, step = (centicents(Decimal(str(value))) for value in values)
        except (TypeError, ValueError, KeyError, ArithmeticError, SchemaError):
            start, end, step = CentiCents(0), CentiCents(0), CentiCents(0)
        if not 0 <= start <= end <= DOLLAR or step <= 0:
            raise SchemaError(f"the price range {span!r:.80} is no start, end and step in dollars, whole hundredths of a cent from 0 to 1")
        found.append((start, end, step))
    return tuple(sorted(found))


#: A cent from 0 to a dollar: the grid of a market that states none.
CENTS = ranges_of([("0", "1", "0.01")])
#: Grids of the venues by which that of a recording without one is recognised: the first with all prices. A few prices on half cents do not tell a half-cent
#: grid from one of tenths, which allows more orders.
USUAL = (
    CENTS,
    ranges_of([("0", "0.1", "0.001"), ("0.1", "0.9", "0.01"), ("0.9", "1", "0.001")]),
    ranges_of([("0", "1", "0.001")]),
    ranges_of([("0", "1", "0.0025")]),
    ranges_of([("0", "0.01", "0.0001"), ("0.01", "0.99", "0.001"), ("0.99", "1", "0.0001")]),
    ranges_of([("0", "1", "0.0001")]),
)


def texts_of_ranges(ranges: Ranges) -> list[list[str]]:
    """Ranges as [start, end, step] in dollars, the inverse of `ranges_of`."""
    return [[f"{Decimal(price).scaleb(-4).normalize():f}" for price in span] for span in ranges]


def prices_in(ranges: Ranges) -> np.ndarray:
    """int64, ascending: prices above 0 and below a dollar in any of the ranges."""
    on_grid = np.zeros(DOLLAR + 1, np.bool_)
    for start, end, step in ranges:
        on_grid[start : end + 1 : step] = True
    return np.flatnonzero(on_grid[:DOLLAR])[int(on_grid[0]) :]


def holds(ranges: Ranges, prices: np.ndarray) -> bool:
    """Return whether levels at all of these prices can rest: each, or a dollar less each, is on the grid."""
    grid = prices_in(ranges)
    return bool(np.isin(prices, np.concatenate([grid, DOLLAR - grid])).all())


def coarsest(prices: np.ndarray) -> Ranges:
    """The coarsest of the usual grids with all of these prices."""
    return next(ranges for ranges in USUAL if holds(ranges, prices))


def in_mills(ranges: Iterable[Ranges], *prices: np.ndarray) -> bool:
    """Return whether grids and prices are whole tenths of a cent, the unit of the first format of episodes."""
    return not any(price % MILL for grid in ranges for span in grid for price in span) and not any((part % MILL).any() for part in prices)


class HasGrids(Protocol):
    """A market with its grids, each with the time from which it holds."""

    @property
    def grids(self) -> tuple[tuple[int, Ranges], ...]:
        """(ns UTC, ranges) in the order of time."""


class PriceLevels:
    """Prices at which bids of either side can rest, of all markets together, numbered in ascending order.

    They are the union of all grids of a market and of a dollar less each price. prices: int64[k]. number: int64[10001], number of a price, -1 for others.
    grids: bool[g, k], allowed levels of each different grid. grid_of: int64[T], row of each market.
    """

    def __init__(self, markets: Sequence[HasGrids]) -> None:
        rows: dict[tuple[Ranges, ...], int] = {}
        self.grid_of = np.array([rows.setdefault(tuple(grid for _, grid in market.grids), len(rows)) for market in markets], np.int64)
        allowed = np.zeros((len(rows), DOLLAR + 1), np.bool_)
        for grids, row in rows.items():
            for grid in grids:
                allowed[row, prices_in(grid)] = True
        allowed |= allowed[:, ::-1]
        self.prices = np.flatnonzero(allowed.any(axis=0))
        self.number = np.full(DOLLAR + 1, -1, np.int64)
        self.number[self.prices] = np.arange(len(self.prices))
        self.grids = np.ascontiguousarray(allowed[:, self.prices])

    def numbers(self, price: np.ndarray) -> np.ndarray:
        """int64: number of each price, -1 for one that is no level of any market."""
        inside = (price > 0) & (price < DOLLAR)
        return np.where(inside, self.number[np.where(inside, price, 0)], -1)

    def allow(self, ticker: np.ndarray, price: np.ndarray) -> np.ndarray:
        """bool: whether a level of each market can be at this price."""
        number = self.numbers(price)
        return (number >= 0) & self.grids[self.grid_of[ticker], number]

    def first(self) -> np.ndarray:
        """int64[T]: lowest level price of each market."""
        return self.prices[self.grids.argmax(axis=1)][self.grid_of]
