"""Polymarket's events and markets of the generated world, with everything that will ever happen to them."""

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

#: Day number, index and position take so many bits in the number of a market.
INDEX_BITS, POSITION_BITS = 4, 4
#: Instant from which markets are created on Protocol V2.
V2_SINCE = midnight(date(2026, 10, 1))


def event_number(home: int, index: int) -> int:
    """The number of an event: its day's number and its index in it."""
    return home << INDEX_BITS | index


def market_number(home: int, index: int, position: int) -> int:
    """The number of a market: its event's number and its position in it."""
    return event_number(home, index) << POSITION_BITS | position


@dataclass(frozen=True, slots=True)
class Tag:
    """A subject of events."""

    id: str
    label: str
    slug: str


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The series of a recurring event."""

    id: str
    slug: str
    title: str
    word: str


@dataclass(frozen=True, slots=True, eq=False)
class ListedMarket:
    """A market. Outcome number `yes` pays when the claim does. `starts` is the beginning of the game or window that it is about.

    One that `lacks_token` names one of its two tokens only, so that its object does not fit. The tokens of a Protocol V2 market are position ids.
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
        """Instant from which it trades."""
        return self.claim.opens

    @property
    def answered(self) -> int:
        """Instant at which its question has its answer."""
        return self.claim.closes

    @property
    def truth(self) -> int | None:
        """The final value of yes in tenths of a cent; None for a market that never resolves."""
        return self.steps[-1].value

    @property
    def closes(self) -> int:
        """Instant at which it closes, and its book ends."""
        return find_close(self.steps)

    def step(self, at: int) -> ResolutionStep | None:
        """The state of its resolution at an instant."""
        return find_step(self.steps, at)

    def closed(self, at: int) -> bool:
        """True if it is closed at an instant."""
        return at >= self.closes

    def winner(self, at: int) -> int | None:
        """The outcome that has won by an instant; None where none has, or none ever will."""
        step = self.step(at)
        if step is None or not step.final or step.value not in (YES, NO):
            return None
        return self.yes if step.value == YES else 1 - self.yes

    @property
    def tick(self) -> int:
        """The step of its prices in tenths of a cent."""
        return 10 if self.trading.grid == "linear_cent" else 1


@dataclass(frozen=True, slots=True, eq=False)
class ListedEvent:
    """An event. `group` is the id that its markets share when they exclude each other; empty where they do not."""

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
        """Instant from which its first market trades."""
        return min(market.opens for market in self.markets)

    @property
    def ends(self) -> int | None:
        """The latest announced end; None where a market announces none."""
        ends = [market.ends for market in self.markets if market.ends is not None]
        return max(ends) if len(ends) == len(self.markets) else None

    @property
    def closes(self) -> int:
        """Instant at which its last market closes."""
        return max(market.closes for market in self.markets)

    @property
    def final(self) -> int:
        """Instant from which nothing of it changes any more."""
        return max(market.steps[-1].at for market in self.markets)
