"""Markets and events of the generated world, with their whole future."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from bellwether.sandbox.source import Key
from bellwether.sandbox.timestamps import DAY, midnight
from bellwether.sandbox.world.latent_paths import Latent
from bellwether.sandbox.world.tape import MarketTape, TradingProfile, record_tape

#: The first UTC day on which events of the world close.
FIRST_DAY = date(2025, 1, 1)


def to_day_number(at: int) -> int:
    """Return the number of the UTC day of an instant; 0 is the world's first, earlier days are negative."""
    return (at - midnight(FIRST_DAY)) // DAY


@dataclass(frozen=True, slots=True)
class Life:
    """Instants of a market's life.

    scheduled: the close that it announces until it closes. disputed: None for most markets.
    """

    created: int
    opens: int
    closes: int
    scheduled: int
    determined: int
    disputed: int | None
    settled: int

    def status(self, at: int) -> str:
        """Return the venue's name of the market's state."""
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
        """Return the close time that the market shows, which becomes the actual one when it closes."""
        return self.closes if at >= self.closes else self.scheduled

    def updated(self, at: int) -> int:
        """Return the last change of state up to this instant."""
        changes = (self.settled, self.disputed, self.determined, self.closes, self.created)
        return next(change for change in changes if change is not None and (change <= at or change == self.created))


@dataclass(frozen=True, slots=True)
class Determination:
    """End of a market: the venue's result, the value of YES in 1/10000 dollars (None for a void), and its free text."""

    result: str
    value: int | None
    expiration_value: str


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """Market; `terms` are the fields of its wire object that never change."""

    key: Key
    ticker: str
    event_ticker: str
    series_ticker: str
    latent: Latent
    trading: TradingProfile
    life: Life
    determination: Determination
    terms: dict[str, Any]
    is_combo: bool = False

    def tape(self) -> MarketTape:
        """Return the market's quotes and trades."""
        return record_tape(self.latent, self.trading)


@dataclass(frozen=True, slots=True, eq=False)
class WorldEvent:
    """Event; `body` is its wire object without markets, `home` the number of the day of its last close, `index` its number in that day.

    `key` is its place in listings: latest creation day first, which reveals nothing about its end.
    """

    home: int
    index: int
    key: Key
    ticker: str
    series_ticker: str
    created: int
    body: dict[str, Any]
    markets: tuple[Market, ...]
    is_combo: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class WorldDay:
    """All events whose last market closes on one UTC day."""

    events: tuple[WorldEvent, ...]
    by_event: dict[str, WorldEvent]
    by_market: dict[str, Market]

    @classmethod
    def of(cls, events: tuple[WorldEvent, ...]) -> WorldDay:
        """Index the events and their markets."""
        markets = {market.ticker: market for event in events for market in event.markets}
        return cls(events, {event.ticker: event for event in events}, markets)
