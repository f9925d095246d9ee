"""Interface between Kalshi's routes and a generated or recorded world, which supplies rows and their bodies.

Instants are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from bellwether.sandbox.clock import Clock

#: Sort key of a row; listings are in ascending order.
Key = tuple[int, ...]

#: Candle in the format of the live endpoints.
Candle = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MarketRow:
    """Market at one instant: fields for filters (times as instants), and its body as JSON."""

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
    """Event at one instant: fields for filters, its body without markets, and its markets in order."""

    key: Key
    ticker: str
    series_ticker: str
    is_combo: bool
    body: Callable[[], dict[str, Any]]
    markets: Callable[[], list[MarketRow]]


@dataclass(frozen=True, slots=True)
class ListingFilter:
    """Hints with which a world can skip rows of a listing. A world may also yield rows that do not match.

    Attributes:
        after: only rows after this key.
        tickers, event_ticker, series_ticker: only these.
        closes: only markets whose close lies within these instants.
        settled_before: only markets that settled before this instant.
        settled_after: only markets that did not.
    """

    after: Key | None = None
    tickers: tuple[str, ...] | None = None
    event_ticker: str | None = None
    series_ticker: str | None = None
    closes: tuple[int | None, int | None] = (None, None)
    settled_before: int | None = None
    settled_after: int | None = None


class Source(Protocol):
    """World behind Kalshi's routes, which supplies the data. Results for the instant `now` do not depend on later events."""

    def default_clock(self) -> Clock:
        """Create the clock that suits the world: the real time, or the time of the recordings."""

    def cutoff(self, now: int) -> int:
        """Return the instant before which settled markets are archived."""

    def series(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of all series."""

    def events(self, wanted: ListingFilter, now: int) -> Iterator[EventRow]:
        """Yield events by sort key, including multivariate ones."""

    def markets(self, wanted: ListingFilter, now: int) -> Iterator[MarketRow]:
        """Yield markets by sort key, both live and archived."""

    def candles(self, ticker: str, period: int, start: int, end: int, now: int) -> list[Candle] | None:
        """Return the candles of `period` minutes that end within [start, end] (instants) and not after `now`; None for an unknown market.

        Returns None for an unknown market.
        """
