"""Interface between Polymarket's routes and a generated or recorded world, which supplies rows and their bodies.

Instants are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.source import Key

Object = dict[str, Any]

#: Unix time in seconds and a token's price in dollars.
Point = tuple[int, float]

#: Price in dollars and size in shares, as texts of the wire.
Level = dict[str, str]


@dataclass(frozen=True, slots=True)
class MarketRow:
    """Gamma market at one instant: fields for filters (times as instants), and its body as JSON without tags."""

    key: Key
    id: str
    condition_id: str
    tokens: tuple[str, ...]
    active: bool
    closed: bool
    ends: int | None
    closed_at: int | None
    uma_status: str | None
    tags: Callable[[], list[Object]]
    volume: Callable[[], float | None]
    body: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class EventRow:
    """Gamma event at one instant: fields for filters, and its body as JSON with markets and tags."""

    key: Key
    id: str
    active: bool
    closed: bool
    ends: int | None
    body: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class ListingFilter:
    """Hints with which a world can skip rows of a listing. A world may also yield rows that do not match.

    Attributes:
        after: only rows after this key.
        ids, condition_ids, tokens: only these, if given.
        ends: only rows with an announced end within these instants (inclusive).
        closed: only closed rows, or only open ones.
    """

    after: Key | None = None
    ids: frozenset[str] | None = None
    condition_ids: frozenset[str] | None = None
    tokens: frozenset[str] | None = None
    ends: tuple[int | None, int | None] = (None, None)
    closed: bool | None = None


@dataclass(frozen=True, slots=True)
class PriceTimes:
    """Instants at which prices are requested: the multiples of `step` within [first, last]."""

    first: int
    last: int
    step: int


@dataclass(frozen=True, slots=True)
class TokenBook:
    """Order book of a token: levels (price in dollars, shares) with the best price last, and the book's JSON object."""

    condition_id: str
    token: str
    bids: tuple[tuple[Decimal, Decimal], ...]
    asks: tuple[tuple[Decimal, Decimal], ...]
    body: Callable[[], Object]

    @property
    def bid(self) -> Decimal | None:
        """Best bid in dollars; None if missing."""
        return self.bids[-1][0] if self.bids else None

    @property
    def ask(self) -> Decimal | None:
        """Best ask in dollars; None if missing."""
        return self.asks[-1][0] if self.asks else None

    @property
    def middle(self) -> Decimal | None:
        """Mid price in dollars; a missing side counts as 0 or 1. None for an empty book."""
        if self.bid is None and self.ask is None:
            return None
        return ((self.bid or Decimal(0)) + (Decimal(1) if self.ask is None else self.ask)) / 2


class PolymarketSource(Protocol):
    """World behind Polymarket's routes, which supplies the data. Results for the instant `now` do not depend on later events."""

    def default_clock(self) -> Clock:
        """Create the clock that suits the world: the real time, or the time of the recordings."""

    def markets(self, wanted: ListingFilter, now: int) -> Iterator[MarketRow]:
        """Yield Gamma's markets by sort key."""

    def events(self, wanted: ListingFilter, now: int) -> Iterator[EventRow]:
        """Yield Gamma's events by sort key."""

    def clob_market(self, condition_id: str, now: int) -> Object | None:
        """Return the CLOB's object of the market with this condition id; None if unknown."""

    def book(self, token: str, now: int) -> TokenBook | None:
        """Return the order book of a token; None if it has none."""

    def prices(self, token: str, ticks: PriceTimes, now: int) -> list[Point]:
        """Return the prices of a token at the instants `ticks` up to `now`; empty for an unknown token."""
