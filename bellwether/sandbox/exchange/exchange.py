"""Interface of a generated or recorded exchange, used by the REST routes of books and by the WebSocket.

Instants are microseconds since 1970. An interest states to which channels a client has subscribed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bellwether.sandbox.source import Key

#: Price level as in a response: dollars of that side's outcome, and contracts.
Level = tuple[str, str]

BOOKS, TRADES, TICKER = "orderbook_delta", "trade", "ticker"
LIFECYCLE, COMBO_LIFECYCLE = "market_lifecycle_v2", "multivariate_market_lifecycle"

#: Channels of the WebSocket; those of `MARKET_CHANNELS` need the tickers of markets.
MARKET_CHANNELS = frozenset({BOOKS, TRADES, TICKER})
CHANNELS = MARKET_CHANNELS | {LIFECYCLE, COMBO_LIFECYCLE}


@dataclass(frozen=True, slots=True)
class ExchangeBook:
    """Order book: bids of both sides in ascending order of price. `clock` is the number of the last change in the book."""

    ticker: str
    yes: tuple[Level, ...]
    no: tuple[Level, ...]
    clock: int = 0


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """Message of one channel, without the envelope of a subscription. `body` is shared and must not be changed."""

    at: int
    channel: str
    kind: str
    ticker: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Interest:
    """Channels to which a client has subscribed: `tickers` has the channels by market, `everywhere` those for all markets."""

    tickers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    everywhere: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TradeRow:
    """Trade: its sort key in a listing (newest first), and its body."""

    key: Key
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TradeFilter:
    """Filter for trades of one market or of all (`ticker` is None), between two instants (inclusive). after: sort key of the last trade
    already returned.
    """

    ticker: str | None
    low: int
    high: int
    after: Key | None = None


class Exchange(Protocol):
    """Exchange of a world. A result for the instant `now` does not depend on later events."""

    def cutoff(self, now: int) -> int:
        """Return the instant before which trades are only in the archive."""

    def is_listed(self, ticker: str, now: int) -> bool:
        """Return True if a market with this ticker is listed at `now`."""

    def is_archived(self, ticker: str, now: int) -> bool:
        """Return True if a market is archived, and not in the live endpoints."""

    def book(self, ticker: str, now: int) -> ExchangeBook | None:
        """Return the book of a market; None if it is not listed yet."""

    def trades(self, wanted: TradeFilter) -> Iterator[TradeRow]:
        """Yield trades in ascending order of key, newest first."""

    def opening(self, interest: Interest, now: int) -> Iterator[StreamMessage]:
        """Yield the messages that a new subscription receives first, such as complete books. interest: the subscribed channels."""

    def messages(self, interest: Interest, start: int, end: int) -> Iterator[StreamMessage]:
        """Yield the messages of the subscribed channels in [start, end), in order."""

    def snapshot(self, ticker: str, now: int) -> StreamMessage | None:
        """Return the book as a message; None if the market is not listed yet."""
