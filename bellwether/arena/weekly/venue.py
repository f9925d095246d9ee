"""Interface of a venue for the arena's weeks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from bellwether.arena.history import FRESH, Points
from bellwether.arena.market import YES, Market, MarketStatus, Quotes, fold_case
from bellwether.arena.marks import HeldPrice, PriceKey, PriceObservation, PriceSource
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import FrozenUniverse
from bellwether.units import SharePrice


@dataclass(frozen=True)
class HeldMarkets:
    """Held markets outside the universe. prices: last known ones. quotes: as of a past instant; empty in a live week."""

    markets: Mapping[str, Market] = field(default_factory=dict)
    prices: Mapping[PriceKey, HeldPrice] = field(default_factory=dict)
    quotes: Mapping[str, Quotes] = field(default_factory=dict)


class VenueData(Protocol):
    """Markets, prices and evidence of one venue. Quoted instruments are named by a market's `token_ids`."""

    def fetch_universe(self, limit: int, now: datetime) -> FrozenUniverse:
        """Fetch the present universe: the open markets with the largest volume."""
        ...

    def reconstruct_universe(self, at: datetime, limit: int) -> FrozenUniverse:
        """Reconstruct the universe as of a past instant from the venue's records, without later information."""
        ...

    def fetch_held_markets(self, market_ids: Sequence[str], at: datetime, *, past: bool) -> HeldMarkets:
        """Fetch markets outside the universe: status, last prices and, for a past week, quotes."""
        ...

    def fetch_quotes(self, markets: Mapping[str, Market], now: datetime) -> tuple[dict[str, MarketStatus], dict[str, Quotes]]:
        """Fetch the present statuses of markets as far as known, and their quotes with listed prices."""
        ...

    def reconstruct_quotes(self, markets: Mapping[str, Market], at: datetime) -> dict[str, Quotes]:
        """Return past quotes of markets of a reconstructed universe."""
        ...

    def fetch_evidence(self, market_ids: Sequence[str], now: datetime) -> list[dict[str, Any]]:
        """Observe each market, open or not: rows in the format of `frames.evidence_frame`."""
        ...

    def reconstruct_evidence(self, market_ids: Sequence[str], until: datetime, rules: Mapping[str, Methodology]) -> list[dict[str, Any]]:
        """Reconstruct the observations that could have been made by an instant, with their times."""
        ...

    def fetch_midpoints(self, tokens: Iterable[str]) -> dict[str, PriceObservation]:
        """Fetch present midpoints; outcomes unknown to the venue are omitted."""
        ...

    def fetch_listed_prices(self, keys: Sequence[PriceKey], now: datetime) -> dict[PriceKey, SharePrice]:
        """Fetch listed prices, a second source next to `fetch_midpoints`; empty if the venue has none."""
        ...

    def fetch_past_prices(self, spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, Points]:
        """Fetch hourly prices in spans of time, earliest first."""
        ...


def last_prices(
    markets: Iterable[Market], points: Mapping[str, Sequence[tuple[datetime, SharePrice | None]]], at: datetime
) -> dict[PriceKey, HeldPrice]:
    """Return the last known price of each outcome as of an instant, for binary markets of YES only. points: past prices by token."""
    found: dict[PriceKey, HeldPrice] = {}
    for market in markets:
        for place, token in enumerate(market.token_ids):
            known = [(when, price) for when, price in points.get(token, ()) if price is not None and when <= at]
            if not known or (market.binary and place != market.place(YES)):
                continue
            when, price = known[-1]
            name = YES if market.binary else fold_case(market.outcomes[place])
            source = PriceSource.LIVE if at - when <= FRESH else PriceSource.PRIOR
            found[market.market_id, name] = HeldPrice(market.market_id, name, at, price, source, when)
    return found
