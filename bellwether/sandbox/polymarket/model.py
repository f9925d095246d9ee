"""Polymarket's events and markets in the generated world, with all later events of their lives.

A market's claim (`PathClaim`) determines its probability and outcome. The answer is the instant at which the outcome becomes known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from bellwether.sandbox.polymarket.fees import MarketFees
from bellwether.sandbox.polymarket.resolution_steps import NO, YES, Legacy, ResolutionStep, find_close, find_step
from bellwether.sandbox.source import Key
from bellwether.sandbox.timestamps import midnight
from bellwether.sandbox.world.latent_paths import PathClaim
from bellwether.sandbox.world.tape import TradingProfile

#: Bits of the index of an event, and of the position of a market, in the number of a market.
INDEX_BITS, POSITION_BITS = 4, 4
#: Instant from which markets are created on Protocol V2.
V2_SINCE = midnight(date(2026, 10, 1))


def event_number(home: int, index: int) -> int:
    """Return the number that identifies an event. home: number of its day. index: its place in the day."""
    return home << INDEX_BITS | index


def market_number(home: int, index: int, position: int) -> int:
    """Return the number that identifies a market. home, index: as in `event_number`. position: its place in the event."""
    return event_number(home, index) << POSITION_BITS | position


@dataclass(frozen=True, slots=True)
class Tag:
    """Topic of events."""

    id: str
    label: str
    slug: str


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Series of recurring events."""

    id: str
    slug: str
    title: str
    frequency: str


@dataclass(frozen=True, slots=True, eq=False)
class ListedMarket:
    """Market whose outcome number `yes` (0 or 1) wins if its claim comes true.

    starts: start of its game or period. tokens: position ids on Protocol V2. lacks_token: its object states only one token, which is
    invalid. hides_prices: its object has no prices while it trades.
    """

    key: Key
    number: int
    id: str
    condition_id: str
    question_id: str
    slug: str
    question: str
    description: str
    group_title: str
    outcomes: tuple[str, str]
    tokens: tuple[str, str]
    version: Literal["v1", "v2"]
    yes: int
    claim: PathClaim
    trading: TradingProfile
    created: int
    ends: int | None
    starts: int | None
    steps: tuple[ResolutionStep, ...]
    fees: MarketFees
    recurring: bool
    legacy: Legacy
    hides_prices: bool
    lacks_token: bool

    @property
    def opens(self) -> int:
        """Instant at which trading starts."""
        return self.claim.opens

    @property
    def answered(self) -> int:
        """Instant at which the answer to the market's question becomes known."""
        return self.claim.closes

    @property
    def truth(self) -> int | None:
        """Final value of YES in tenths of a cent; None for a market that never resolves."""
        return self.steps[-1].value

    @property
    def closes(self) -> int:
        """Instant at which the market closes, and trading ends."""
        return find_close(self.steps)

    def step(self, at: int) -> ResolutionStep | None:
        """Return the state of the market's resolution at an instant; None before the first step, such as a proposal."""
        return find_step(self.steps, at)

    def closed(self, at: int) -> bool:
        """Return True if the market is closed at an instant."""
        return at >= self.closes

    def winner(self, at: int) -> int | None:
        """Return the number of the outcome that has won by an instant; None before the resolution, or if none has won."""
        step = self.step(at)
        if step is None or not step.final or step.value not in (YES, NO):
            return None
        return self.yes if step.value == YES else 1 - self.yes

    @property
    def tick(self) -> int:
        """Price step in tenths of a cent."""
        return 10 if self.trading.grid == "linear_cent" else 1


@dataclass(frozen=True, slots=True, eq=False)
class ListedEvent:
    """Event with its markets. group: id of mutually exclusive markets; empty for other events."""

    key: Key
    number: int
    id: str
    slug: str
    title: str
    description: str
    source: str
    tags: tuple[Tag, ...]
    group: str
    recurrence: Recurrence | None
    created: int
    markets: tuple[ListedMarket, ...] = field(repr=False)

    @property
    def opens(self) -> int:
        """Instant at which its first market starts trading."""
        return min(market.opens for market in self.markets)

    @property
    def ends(self) -> int | None:
        """Latest announced end; None if a market announces none."""
        ends = [market.ends for market in self.markets if market.ends is not None]
        return max(ends) if len(ends) == len(self.markets) else None

    @property
    def closes(self) -> int:
        """Instant at which its last market closes."""
        return max(market.closes for market in self.markets)

    @property
    def final(self) -> int:
        """Instant from which the event no longer changes."""
        return max(market.steps[-1].at for market in self.markets)
