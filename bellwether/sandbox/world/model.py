"""Markets and events of the generated world, with all later events of their lives.

A market's determination is the decision about its result, which precedes its settlement. Days are numbered from 2025-01-01, which is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from bellwether.sandbox.timestamps import DAY, midnight
from bellwether.sandbox.world.latent_paths import PathClaim
from bellwether.sandbox.world.tape import MarketTape, TradingProfile, record_tape

#: First UTC day on which events of the world close.
FIRST_DAY = date(2025, 1, 1)

#: Sort key of a row in a listing; listings are in ascending order.
Key = tuple[int, ...]


def to_day_number(at: int) -> int:
    """Return the number of the UTC day of an instant; 0 is 2025-01-01, earlier days are negative."""
    return (at - midnight(FIRST_DAY)) // DAY


@dataclass(frozen=True, slots=True)
class Life:
    """Instants of the life of an event's markets, from their creation to their settlement.

    scheduled: close that is announced until the market closes. disputed: None without a dispute. corrected: instant of a second settlement
    with another result; None without one.
    """

    created: int
    opens: int
    closes: int
    scheduled: int
    determined: int
    disputed: int | None
    settled: int
    corrected: int | None

    def status(self, at: int) -> str:
        """Return the venue's status of the market at an instant."""
        if at < self.opens:
            return "initialized"
        if at < self.closes:
            return "active"
        if at < self.determined:
            return "closed"
        if at >= self.settled:
            return "finalized"
        return "disputed" if self.disputed is not None and at >= self.disputed else "determined"

    def announced_close(self, at: int) -> int:
        """Return the close that the market states at an instant: the scheduled close until the market has closed, then the actual one."""
        return self.closes if at >= self.closes else self.scheduled

    def settlement(self, at: int) -> int | None:
        """Return the instant of the last settlement up to `at`; None before the first."""
        if self.corrected is not None and at >= self.corrected:
            return self.corrected
        return self.settled if at >= self.settled else None

    def updated(self, at: int) -> int:
        """Return the instant of the last status change up to `at`."""
        changes = (self.corrected, self.settled, self.disputed, self.determined, self.closes)
        return next((change for change in changes if change is not None and change <= at), self.created)

    @property
    def final(self) -> int:
        """Instant from which the market's object no longer changes."""
        return max(self.settled, self.corrected or 0, self.closes + DAY)


@dataclass(frozen=True, slots=True)
class Determination:
    """End of a market: result, value of YES in 1/10000 dollar (None if void), and text of the outcome."""

    result: str
    value: int | None
    expiration_value: str


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """Market of the generated world. latent: claim that determines its probability. terms: fields of its JSON object that never change.

    determination: how it ends. mistaken: the first determination of a market that is corrected; None for others.
    """

    key: Key
    ticker: str
    event_ticker: str
    series_ticker: str
    latent: PathClaim
    trading: TradingProfile
    life: Life
    determination: Determination
    mistaken: Determination | None
    terms: dict[str, Any]

    def tape(self) -> MarketTape:
        """Return the market's quotes and trades."""
        return record_tape(self.latent, self.trading)

    def determined(self, at: int) -> Determination | None:
        """Return the determination that is valid at an instant; None before the first."""
        if at < self.life.determined:
            return None
        return self.mistaken if self.life.corrected is not None and at < self.life.corrected else self.determination


@dataclass(frozen=True, slots=True, eq=False)
class WorldEvent:
    """Event of the generated world. body: its JSON object without markets. home: number of the day of its close. index: its number in that
    day.

    key: sort key in listings, latest creation day first; it does not reveal the day of the close.
    """

    home: int
    index: int
    key: Key
    ticker: str
    series_ticker: str
    created: int
    body: dict[str, Any]
    markets: tuple[Market, ...]
