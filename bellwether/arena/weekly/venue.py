"""Interface of a venue to the weeks of the arena."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from bellwether.arena.history import FRESH, Points
from bellwether.arena.market import YES, Market, MarketStatus, Quotes, fold_case
from bellwether.arena.marks import Price, PriceKey, PriceObservation, PriceSource
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import FrozenUniverse
from bellwether.units import SharePrice


@dataclass(frozen=True)
class HeldMarkets:
    """Markets that are held and in no universe. prices: the last of each. quotes: as of a past instant; empty for now."""

    markets: Mapping[str, Market] = field(default_factory=dict)
    prices: Mapping[PriceKey, Price] = field(default_factory=dict)
    quotes: Mapping[str, Quotes] = field(default_factory=dict)


class VenueData(Protocol):
    """Markets, prices and evidence of one venue. What is quoted is named by a market's `token_ids`."""

    def present(self, limit: int, now: datetime) -> FrozenUniverse:
        """The universe as it is now: the open markets of the largest volume."""
        ...

    def past(self, at: datetime, limit: int) -> FrozenUniverse:
        """The universe as of a past instant, from what the venue keeps; nothing in it became known later."""
        ...

    def held(self, market_ids: Sequence[str], at: datetime, *, past: bool) -> HeldMarkets:
        """Markets outside of the universe: whether they can be sold, the last price of each, and in the past what they were quoted at."""
        ...

    def look(self, markets: Mapping[str, Market], now: datetime) -> tuple[dict[str, MarketStatus], dict[str, Quotes]]:
        """The present status of markets, as far as the venue states it, and their quotes, each with the price of the listing."""
        ...

    def past_quotes(self, markets: Mapping[str, Market], at: datetime) -> dict[str, Quotes]:
        """Past quotes of markets of a reconstructed universe."""
        ...

    def evidence(self, market_ids: Sequence[str], now: datetime) -> list[dict[str, Any]]:
        """One look at each market, open or not: rows as `frames.evidence_frame` takes them."""
        ...

    def past_evidence(self, market_ids: Sequence[str], until: datetime, rules: Mapping[str, Methodology]) -> list[dict[str, Any]]:
        """Looks at markets as they could have been made by an instant, dated so."""
        ...

    def midpoints(self, tokens: Iterable[str]) -> dict[str, PriceObservation]:
        """Present midpoints; outcomes unknown to the venue are left out."""
        ...

    def listed(self, keys: Sequence[PriceKey], now: datetime) -> dict[PriceKey, SharePrice]:
        """Prices of the listings, a second source next to `midpoints`; empty where the venue has none."""
        ...

    def past_prices(self, spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, Points]:
        """Hourly prices in a span of time, the earliest first."""
        ...


def last_prices(
    markets: Iterable[Market], points: Mapping[str, Sequence[tuple[datetime, SharePrice | None]]], at: datetime
) -> dict[PriceKey, Price]:
    """The last known price of each outcome as of an instant, of binary markets of YES alone. points: past prices of what quotes an outcome."""
    found: dict[PriceKey, Price] = {}
    for market in markets:
        for place, token in enumerate(market.token_ids):
            known = [(when, price) for when, price in points.get(token, ()) if price is not None and when <= at]
            if not known or (market.binary and place != market.place(YES)):
                continue
            when, price = known[-1]
            name = YES if market.binary else fold_case(market.outcomes[place])
            source = PriceSource.LIVE if at - when <= FRESH else PriceSource.PRIOR
            found[market.market_id, name] = Price(market.market_id, name, at, price, source, when)
    return found
