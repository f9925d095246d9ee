"""Layout of a tape: an episode as flat columns of integers in the order of processing, one event per 64-bit *word*.

Bits of a word: 0-3 kind, 4 side, 5-18 price, 19-31 ticker code, 32-62 value. An episode's words (`Content`) contain prices in $0.0001. A
tape's words contain instead the number of the price in the list of its market's levels (`levels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numba.extending import register_jitable

from bellwether.replay.units import CENT, DOLLAR

#: Kinds. LEVEL: the displayed size at (ticker, side, price) is now `value` lots. TRADED: the same, caused by prints. PRINT: `value` lots
#: traded against the resting bids of `side` at `price`. INVALID and VALID: the book is invalid from here, valid again. SETTLE: `value` is
#: the micro-dollars that a YES contract pays. GRID: from here on orders must be on grid row `value`.
LEVEL, TRADED, PRINT, INVALID, VALID, HALT, OPEN, CLOSE, SETTLE, VOID, GRID = range(11)
KINDS = ("level", "traded", "print", "invalid", "valid", "halt", "open", "close", "settle", "void", "grid")

SIDE_SHIFT, PRICE_SHIFT, TICKER_SHIFT, VALUE_SHIFT = 4, 5, 19, 32
KIND_MASK, PRICE_MASK, TICKER_MASK = 0xF, 0x3FFF, 0x1FFF
MAX_TICKERS = TICKER_MASK + 1
#: Prices 0..10000 of $0.0001.
PRICES = 10_001

#: Columns of `Tape.fees`.
TAKER_KIND, TAKER_NUM, TAKER_DEN, MAKER_KIND, MAKER_NUM, MAKER_DEN, WAIVER_UNTIL = range(7)
FEE_COLS = 7
#: Columns of `Tape.units`: minimum order size and step between sizes, lots; units of fees, balances and rebates, micro-dollars; whether a rebate
#: needs more than its unit. The fields of `RuleSet` of these names.
MIN_LOTS, LOT_STEP, FEE_UNIT, BALANCE_UNIT, REBATE_UNIT, REBATE_ABOVE = range(6)
UNIT_COLS = 6


@register_jitable
def pack(kind: Any, ticker: Any, side: Any, price: Any, value: Any) -> Any:
    """Pack events, given as integers or int64 arrays, into words. Callable from compiled code."""
    return kind | (side << SIDE_SHIFT) | (price << PRICE_SHIFT) | (ticker << TICKER_SHIFT) | (value << VALUE_SHIFT)


@register_jitable
def unpack(event: Any) -> Any:
    """Unpack a word or an array of words to (kind, ticker, side, price, value). Callable from compiled code."""
    return (
        event & KIND_MASK,
        (event >> TICKER_SHIFT) & TICKER_MASK,
        (event >> SIDE_SHIFT) & 1,
        (event >> PRICE_SHIFT) & PRICE_MASK,
        event >> VALUE_SHIFT,
    )


def freeze(values: Any, dtype: Any = np.int64) -> np.ndarray:
    """Return a contiguous, read-only view or copy of an array.

    Compiled code treats read-only and writable arrays as different types, each compiled separately.
    """
    frozen = np.ascontiguousarray(values, dtype).view()
    frozen.flags.writeable = False
    return frozen


def _no_rows() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Tape:
    """Events of one or several episodes in the order of processing: arrays of their times and packed words, with their markets' terms.

    All arrays are contiguous and read-only, so that compiled code sees a single type.

    ts: int64[n], ns UTC, non-decreasing. event: int64[n], packed words. tickers: code -> name. start, end: the episode's window, ns.
    levels: of each market int64[n + 2], the price of each of its n levels, of level 0 (0) and of a dollar. grids: uint8[V, longest], 1 at
    the levels that a grid allows for orders: row t for market t from the start on, further ones from their GRID events on (default: all
    levels). fees: int64[T, FEE_COLS], the terms of a rule set (default: no fees). units: int64[T, UNIT_COLS], or without rows if all
    markets have those of the run's rules. begins: int64[T], ns, start of each market's recording (default: start). digest: SHA-256 of the
    episode's content.
    """

    ts: np.ndarray
    event: np.ndarray
    tickers: tuple[str, ...]
    start: int
    end: int
    levels: tuple[np.ndarray, ...] = ()
    grids: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    fees: np.ndarray = field(default_factory=lambda: np.zeros((0, FEE_COLS), np.int64))
    digest: str = ""
    units: np.ndarray = field(default_factory=lambda: np.zeros((0, UNIT_COLS), np.int64))
    begins: np.ndarray = field(default_factory=_no_rows)

    def __post_init__(self) -> None:
        count = len(self.tickers)
        if not self.levels:
            cents = np.arange(0, DOLLAR + 1, CENT)
            object.__setattr__(self, "levels", (cents,) * count)
        object.__setattr__(self, "levels", tuple(freeze(levels) for levels in self.levels))
        if not len(self.grids):
            object.__setattr__(self, "grids", all_levels(self.levels))
        if not len(self.fees):
            object.__setattr__(self, "fees", no_fees(count))
        if not len(self.begins):
            object.__setattr__(self, "begins", np.full(count, self.start, np.int64))
        for name in ("ts", "event", "grids", "fees", "units", "begins"):
            object.__setattr__(self, name, freeze(getattr(self, name), np.uint8 if name == "grids" else np.int64))
        if len(self.ts) != len(self.event):
            raise ValueError(f"a tape's columns differ in length: {len(self.ts)} times for {len(self.event)} events")
        if len(self.levels) != count or len(self.grids) < count or self.fees.shape != (count, FEE_COLS):
            raise ValueError(
                f"levels of {len(self.levels)} markets, {len(self.grids)} grids and fees {self.fees.shape} do not fit {count} tickers"
            )
        if self.units.shape not in ((0, UNIT_COLS), (count, UNIT_COLS)) or self.begins.shape != (count,):
            raise ValueError(f"units {self.units.shape} and begins {self.begins.shape} do not fit {count} tickers")

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def prices(self) -> np.ndarray:
        """Prices of the levels of all markets, market after market, int64."""
        return freeze(np.concatenate(self.levels) if self.levels else _no_rows())

    @cached_property
    def starts(self) -> np.ndarray:
        """Index of each market's level 0 in `prices`, int64[T]."""
        return freeze(np.cumsum([0, *map(len, self.levels)])[:-1])

    @cached_property
    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Lists that give the level number of a price, int16, and the index at which each market's list starts, int64[T].

        The lists are concatenated, each with 10001 entries: the level of each price from 0 to a dollar, 0 for none.
        """
        lists = {levels.tobytes(): levels for levels in self.levels}
        tables = np.zeros((len(lists), PRICES), np.int16)
        for row, levels in zip(tables, lists.values(), strict=True):
            row[levels[1:-1]] = np.arange(1, len(levels) - 1)
        places = {key: place * PRICES for place, key in enumerate(lists)}
        return freeze(tables.reshape(-1), np.int16), np.array([places[levels.tobytes()] for levels in self.levels], np.int64)


#: Decorator of functions of a tape, which keeps their results for the latest tapes, as many as a sweep has open.
cache_per_tape = lru_cache(maxsize=16)


def all_levels(levels: Sequence[np.ndarray]) -> np.ndarray:
    """Return for each market a grid that allows orders at all of its levels, uint8[T, longest]."""
    grids = np.zeros((len(levels), max(map(len, levels), default=0)), np.uint8)
    for row, prices in zip(grids, levels, strict=True):
        row[1 : len(prices) - 1] = 1
    return grids


def no_fees(count: int) -> np.ndarray:
    """Return fee terms that charge nothing, for `count` markets, int64[count, FEE_COLS]."""
    fees = np.zeros((count, FEE_COLS), np.int64)
    fees[:, [TAKER_DEN, MAKER_DEN]] = 1
    return fees
