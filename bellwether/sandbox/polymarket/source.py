"""The interface of a world, generated or recorded, to the routes: rows that can be filtered, sorted and paged, and their bodies."""

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
    """A Gamma market at one instant: what filters look at (instants, None where the object does not say), and its body as JSON.

    `tags` are objects that the body leaves out.
    """

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
    """A Gamma event at one instant: its filters, and its body as JSON, with its markets and tags."""

    key: Key
    id: str
    active: bool
    closed: bool
    ends: int | None
    body: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class ListingFilter:
    """Hints of a listing, so that a world need not look at everything. A world may yield more than this.

    Attributes:
        after: only rows behind this key.
        ids, condition_ids, tokens: only these, where given.
        ends: only what announces an end within these instants, both included.
        closed: only what is closed, or only what is not.
    """

    after: Key | None = None
    ids: frozenset[str] | None = None
    condition_ids: frozenset[str] | None = None
    tokens: frozenset[str] | None = None
    ends: tuple[int | None, int | None] = (None, None)
    closed: bool | None = None


@dataclass(frozen=True, slots=True)
class PriceTimes:
    """The multiples of `step` within [first, last]: instants of wanted prices."""

    first: int
    last: int
    step: int


@dataclass(frozen=True, slots=True)
class TokenBook:
    """A token's order book: both sides with the best price last, in dollars and shares, and its object."""

    condition_id: str
    token: str
    bids: tuple[tuple[Decimal, Decimal], ...]
    asks: tuple[tuple[Decimal, Decimal], ...]
    body: Callable[[], Object]

    @property
    def bid(self) -> Decimal | None:
        """The best bid in dollars; None if missing."""
        return self.bids[-1][0] if self.bids else None

    @property
    def ask(self) -> Decimal | None:
        """The best ask in dollars; None if missing."""
        return self.asks[-1][0] if self.asks else None

    @property
    def middle(self) -> Decimal | None:
        """The middle in dollars; a missing side counts as 0 or 1. None for an empty book."""
        if self.bid is None and self.ask is None:
            return None
        return ((self.bid or Decimal(0)) + (Decimal(1) if self.ask is None else self.ask)) / 2


class PolymarketSource(Protocol):
    """A world behind the routes. Nothing that it returns for `now` (an instant) depends on what comes later."""

    def default_clock(self) -> Clock:
        """The clock that fits this world when the user sets none."""
        ...

    def markets(self, wanted: ListingFilter, now: int) -> Iterator[MarketRow]:
        """Gamma's markets in ascending order of key."""
        ...

    def events(self, wanted: ListingFilter, now: int) -> Iterator[EventRow]:
        """Gamma's events in ascending order of key."""
        ...

    def clob_market(self, condition_id: str, now: int) -> Object | None:
        """The CLOB's market of this condition; None when it is unknown."""
        ...

    def book(self, token: str, now: int) -> TokenBook | None:
        """The token's book; None without one (any more)."""
        ...

    def prices(self, token: str, ticks: PriceTimes, now: int) -> list[Point]:
        """Prices at these instants, none later than `now`; empty for an unknown token."""
        ...
