"""The interface of an exchange, generated or recorded, to the routes of books and to the WebSocket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bellwether.sandbox.source import Key

#: A price level as the wire writes it: dollars of that side's outcome, and contracts.
Level = tuple[str, str]

BOOKS, TRADES, TICKER = "orderbook_delta", "trade", "ticker"
LIFECYCLE, COMBO_LIFECYCLE = "market_lifecycle_v2", "multivariate_market_lifecycle"

#: Channels of the WebSocket that are served. Those of `MARKET_CHANNELS` carry the messages of chosen markets.
MARKET_CHANNELS = frozenset({BOOKS, TRADES, TICKER})
CHANNELS = MARKET_CHANNELS | {LIFECYCLE, COMBO_LIFECYCLE}


@dataclass(frozen=True, slots=True)
class ExchangeBook:
    """Bids of both sides in ascending order of price, the best last. `clock` is that of the newest change in it."""

    ticker: str
    yes: tuple[Level, ...]
    no: tuple[Level, ...]
    clock: int = 0


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A message of the exchange on one channel, without the envelope of a subscription. `body` is shared: do not change it."""

    at: int
    channel: str
    kind: str
    ticker: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Interest:
    """The channels of chosen markets, and the channels of all markets or of none in particular, that a client listens to."""

    tickers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    everywhere: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TradeRow:
    """A trade: its place in a listing that shows the newest first, and its body."""

    key: Key
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TradeFilter:
    """Trades of a market, or of all, within two instants (both included), behind a key."""

    ticker: str | None
    low: int
    high: int
    after: Key | None = None


class Exchange(Protocol):
    """A world's exchange. Nothing that it returns for `now` (an instant) depends on what comes later."""

    def cutoff(self, now: int) -> int:
        """The instant before which trades are only in the historical endpoint."""
        ...

    def lists(self, ticker: str, now: int) -> bool:
        """True if a market of this ticker is listed by now."""
        ...

    def is_archived(self, ticker: str, now: int) -> bool:
        """True if a market has left the live endpoints."""
        ...

    def book(self, ticker: str, now: int) -> ExchangeBook | None:
        """The book of a market; None for one that is not listed yet."""
        ...

    def trades(self, wanted: TradeFilter) -> Iterator[TradeRow]:
        """Trades in ascending order of key, the newest first."""
        ...

    def opening(self, interest: Interest, now: int) -> Iterator[StreamMessage]:
        """The first messages of a subscription."""
        ...

    def messages(self, interest: Interest, start: int, end: int) -> Iterator[StreamMessage]:
        """The messages of an interest in [start, end), in order."""
        ...

    def snapshot(self, ticker: str, now: int) -> StreamMessage | None:
        """The book as a message; None where there is no such market yet."""
        ...
