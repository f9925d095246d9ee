"""Interface of a generated or recorded world to the routes: rows to be filtered and paged, and their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from bellwether.sandbox.clock import Clock

#: Position of a row in its listing; listings run in ascending order of it.
Key = tuple[int, ...]

#: One candle as the live endpoints send it.
Candle = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MarketRow:
    """Market at one instant: the fields for filters (instants, None if not stated), and its body as JSON."""

    key: Key
    ticker: str
    event_ticker: str
    series_ticker: str
    status: str
    is_combo: bool
    closes: int | None
    settled: int | None
    body: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class EventRow:
    """Event at one instant: the fields for filters, its body without markets, and its markets in order."""

    key: Key
    ticker: str
    series_ticker: str
    is_combo: bool
    body: Callable[[], dict[str, Any]]
    markets: Callable[[], list[MarketRow]]


@dataclass(frozen=True, slots=True)
class ListingFilter:
    """Hints about a listing, so that a world can skip rows. A world may also yield rows that do not match.

    Attributes:
        after: only rows after this key.
        tickers, event_ticker, series_ticker: only these.
        closes: only markets whose close lies within these instants.
        settled_before, settled_after: only markets that settled before this instant; only markets not settled before it.
    """

    after: Key | None = None
    tickers: tuple[str, ...] | None = None
    event_ticker: str | None = None
    series_ticker: str | None = None
    closes: tuple[int | None, int | None] = (None, None)
    settled_before: int | None = None
    settled_after: int | None = None


class Source(Protocol):
    """World behind the routes. No result for `now` (an instant) depends on later events."""

    def default_clock(self) -> Clock:
        """Return the clock to use if the user sets none."""
        ...

    def cutoff(self, now: int) -> int:
        """Return the instant before which settled markets are only in the historical endpoints."""
        ...

    def series(self) -> Iterator[dict[str, Any]]:
        """Return the objects of all series."""
        ...

    def events(self, wanted: ListingFilter, now: int) -> Iterator[EventRow]:
        """Yield events in ascending order of key, including multivariate ones."""
        ...

    def markets(self, wanted: ListingFilter, now: int) -> Iterator[MarketRow]:
        """Yield markets in ascending order of key, both live and archived."""
        ...

    def candles(self, ticker: str, period: int, start: int, end: int, now: int) -> list[Candle] | None:
        """Return candles of `period` minutes whose end lies within [start, end] (instants) and is not later than `now`.

        None if the market is unknown.
        """
        ...
