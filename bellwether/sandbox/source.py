"""The interface of a world, generated or recorded, to the routes: rows that can be filtered and paged, and their bodies."""

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
    """A market at one instant: what filters look at (instants, None where the market does not say), and its body as JSON."""

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
    """An event at one instant: what filters look at, its body without markets, and its markets in their order."""

    key: Key
    ticker: str
    series_ticker: str
    is_combo: bool
    body: Callable[[], dict[str, Any]]
    markets: Callable[[], list[MarketRow]]


@dataclass(frozen=True, slots=True)
class ListingFilter:
    """Hints of a listing, so that a world need not look at everything. A world may yield more than this.

    Attributes:
        after: only rows behind this key.
        tickers, event_ticker, series_ticker: only these.
        closes: only markets whose close lies within these instants.
        settled_before, settled_after: only markets that settled before (or, if at all, not before) this instant.
    """

    after: Key | None = None
    tickers: tuple[str, ...] | None = None
    event_ticker: str | None = None
    series_ticker: str | None = None
    closes: tuple[int | None, int | None] = (None, None)
    settled_before: int | None = None
    settled_after: int | None = None


class Source(Protocol):
    """A world behind the routes. Nothing that it returns for `now` (an instant) depends on what comes later."""

    def default_clock(self) -> Clock:
        """The clock that fits this world when the user sets none."""
        ...

    def cutoff(self, now: int) -> int:
        """The instant before which settled markets are only in the historical endpoints."""
        ...

    def series(self) -> Iterator[dict[str, Any]]:
        """The objects of all series."""
        ...

    def events(self, wanted: ListingFilter, now: int) -> Iterator[EventRow]:
        """Events in ascending order of key, multivariate ones included."""
        ...

    def markets(self, wanted: ListingFilter, now: int) -> Iterator[MarketRow]:
        """Markets in ascending order of key, live and archived ones alike."""
        ...

    def candles(self, ticker: str, period: int, start: int, end: int, now: int) -> list[Candle] | None:
        """Candles of `period` minutes whose end lies within [start, end] (instants) and is not later than `now`.

        None when the market is unknown.
        """
        ...
