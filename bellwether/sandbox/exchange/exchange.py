"""What the book routes and the WebSocket need from an exchange, generated or recorded."""

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
class Book:
    """Bids of both sides in ascending order of price, the best last. `clock` is that of the newest change in it."""

    ticker: str
    yes: tuple[Level, ...]
    no: tuple[Level, ...]
    clock: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """What the exchange says at an instant on one channel, without the envelope of a subscription. `body` is shared: do not change it."""

    at: int
    channel: str
    kind: str
    ticker: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Interest:
    """What someone listens to: the channels of chosen markets, and channels of all markets or of none in particular."""

    tickers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    everywhere: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TradeRow:
    """A trade: its place in a listing that shows the newest first, and its body."""

    key: Key
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WantedTrades:
    """Trades of a market, or of all, within two instants (both included), behind a key; with `block` only such, or only others."""

    ticker: str | None
    low: int
    high: int
    block: bool | None = None
    after: Key | None = None


class Exchange(Protocol):
    """A world's exchange. Nothing that it returns for `now` (an instant) depends on what comes later."""

    def cutoff(self, now: int) -> int:
        """The instant before which trades are only in the historical endpoint."""
        ...

    def lists(self, ticker: str, now: int) -> bool:
        """Whether there is a market of this ticker by now."""
        ...

    def is_archived(self, ticker: str, now: int) -> bool:
        """Whether a market has left the live endpoints."""
        ...

    def book(self, ticker: str, now: int) -> Book | None:
        """What rests in a market's book; None where there is no such market yet."""
        ...

    def trades(self, wanted: WantedTrades) -> Iterator[TradeRow]:
        """Trades in ascending order of key, the newest first."""
        ...

    def opening(self, interest: Interest, now: int) -> Iterator[Message]:
        """The first messages of a subscription."""
        ...

    def messages(self, interest: Interest, start: int, end: int) -> Iterator[Message]:
        """Everything said in [start, end) to such an interest, in order."""
        ...

    def snapshot(self, ticker: str, now: int) -> Message | None:
        """The book as a message; None where there is no such market yet."""
        ...
