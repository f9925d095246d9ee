"""Interface through which weekly runs of the arena read markets, prices and evidence of a venue."""

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
    """Markets that are not in the week's universe, but on which positions are open. prices: last known prices. quotes: by market, as of a past
    instant; empty in a live week.
    """

    markets: Mapping[str, Market] = field(default_factory=dict)
    prices: Mapping[PriceKey, HeldPrice] = field(default_factory=dict)
    quotes: Mapping[str, Quotes] = field(default_factory=dict)


class VenueData(Protocol):
    """Markets, prices and evidence (what the venue states about resolutions) of one venue. Tokens are the quoted instruments, named by a market's
    `token_ids`.
    """

    def fetch_universe(self, limit: int, now: datetime) -> FrozenUniverse:
        """Fetch the current universe (the markets offered to agents): the open markets with the largest volume."""
        ...

    def reconstruct_universe(self, at: datetime, limit: int) -> FrozenUniverse:
        """Reconstruct the universe as of a past instant from the venue's records, without later information."""
        ...

    def fetch_held_markets(self, market_ids: Sequence[str], at: datetime, *, past: bool) -> HeldMarkets:
        """Fetch markets outside the universe: status and last prices. past: `at` lies in a reconstructed week; quotes as of `at` are returned,
        too.
        """
        ...

    def fetch_quotes(self, markets: Mapping[str, Market], now: datetime) -> tuple[dict[str, MarketStatus], dict[str, Quotes]]:
        """Fetch current statuses and quotes of markets, by market id. Unknown markets are omitted."""
        ...

    def reconstruct_quotes(self, markets: Mapping[str, Market], at: datetime) -> dict[str, Quotes]:
        """Return the quotes of markets of a reconstructed universe, as of a past instant."""
        ...

    def fetch_evidence(self, market_ids: Sequence[str], now: datetime) -> list[dict[str, Any]]:
        """Fetch current evidence of open and closed markets, as rows for `frames.evidence_frame`."""
        ...

    def reconstruct_evidence(self, market_ids: Sequence[str], until: datetime, rules: Mapping[str, Methodology]) -> list[dict[str, Any]]:
        """Reconstruct the rows of evidence that polls up to `until` would have given. rules: methodologies by name."""
        ...

    def fetch_midpoints(self, tokens: Iterable[str]) -> dict[str, PriceObservation]:
        """Fetch current midpoints by token; outcomes unknown to the venue are omitted."""
        ...

    def fetch_listed_prices(self, keys: Sequence[PriceKey], now: datetime) -> dict[PriceKey, SharePrice]:
        """Fetch listed prices by (market, outcome), to compare with `fetch_midpoints`; empty if the venue has no second source of prices."""
        ...

    def fetch_past_prices(self, spans: Mapping[str, tuple[datetime, datetime]]) -> dict[str, Points]:
        """Fetch hourly prices by token, earliest first. spans: start and end of each token's prices."""
        ...


def find_last_prices(
    markets: Iterable[Market], points: Mapping[str, Sequence[tuple[datetime, SharePrice | None]]], at: datetime
) -> dict[PriceKey, HeldPrice]:
    """Return the last known price of each outcome as of an instant; of binary markets only YES. points: past prices by token."""
    prices: dict[PriceKey, HeldPrice] = {}
    for market in markets:
        for place, token in enumerate(market.token_ids):
            past = [(when, price) for when, price in points.get(token, ()) if price is not None and when <= at]
            if not past or (market.binary and place != market.place(YES)):
                continue
            when, price = past[-1]
            name = YES if market.binary else fold_case(market.outcomes[place])
            source = PriceSource.LIVE if at - when <= FRESH else PriceSource.PRIOR
            prices[market.market_id, name] = HeldPrice(market.market_id, name, at, price, source, when)
    return prices
