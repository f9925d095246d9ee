"""Handmade tapes and fills. Times are in seconds."""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.codes import FILL
from bellwether.replay.tape.layout import LEVEL, Tape, pack
from bellwether.replay.units import BUY, DOLLAR, MILL, NO, SECOND, YES

Event = tuple[float, int, int, int, int, int]


#: Levels of the tapes: every tenth of a cent, so that a level's number is its price in tenths.
TENTHS = np.arange(0, DOLLAR + 1, MILL)


def tape(*events: Event, tickers: int = 1, start: float = 0, end: float = 1000) -> Tape:
    """Build a tape of (seconds, kind, ticker, side, price in tenths of a cent, value)."""
    ts = np.array([round(event[0] * SECOND) for event in events], np.int64)
    words = np.array([pack(kind, ticker, side, price, value) for _, kind, ticker, side, price, value in events], np.int64)
    names = tuple(f"M-{index}" for index in range(tickers))
    return Tape(ts, words, names, int(start * SECOND), int(end * SECOND), levels=(TENTHS,) * tickers)


def book(at: float, bid: int, ask: int, ticker: int = 0, size: int = 1000) -> list[Event]:
    """Return events of a new bid and ask in tenths of a cent."""
    return [(at, LEVEL, ticker, YES, bid, size), (at, LEVEL, ticker, NO, 1000 - ask, size)]


def fill(
    at: float, price: int, side: int = YES, action: int = BUY, lots: int = 100, ticker: int = 0, role: int = 1, wait: float = 0
) -> tuple[int, ...]:
    """Return a row of the engine's fills. price: in tenths of a cent."""
    return 0, ticker, side, action, MILL * price, lots, 0, role, round(at * SECOND), round(wait * SECOND)


def fills(*rows: tuple[int, ...]) -> np.ndarray:
    """Return the engine's fills."""
    return np.array(list(rows), FILL)
