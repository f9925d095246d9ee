"""Markets, quotes and Kalshi's taker fees: what the universe of a run freezes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.rules.fees import OrderFees
from bellwether.replay.rules.ruleset import rule_set, rules_for
from bellwether.replay.rules.terms import fee_terms
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FREE, FeeSchedule, Side

#: Fee type of a market whose event and series state none.
GENERAL = "quadratic"


@dataclass(frozen=True, slots=True)
class KalshiFees:
    """Taker fees of a market. rules: name of the rule set in force. kind: the venue's fee type. multiplier: on the formula, as decimal text."""

    rules: str
    kind: str = GENERAL
    multiplier: str = "1"

    def of_order(self, fills: Iterable[tuple[Decimal, Decimal]], side: Side) -> list[Decimal]:
        """Dollars that each fill (contracts, dollars per contract) of one order costs, what rounds the balance and what is given back included."""
        order = OrderFees(rule_set(self.rules), {"type": self.kind, "multiplier": self.multiplier})
        return [order.fill(contracts, price, action=side).net for contracts, price in fills]


@dataclass(frozen=True, slots=True)
class UnknownFees:
    """Terms that cannot be read: a methodology that charges fees refuses trades. reason: what is wrong with them."""

    reason: str


def fees_of(event: Mapping[str, Any] | None, series: Mapping[str, Any] | None, at: datetime) -> KalshiFees | UnknownFees:
    """The terms at an instant, from rows of raw/kalshi_events and raw/kalshi_series; what the event states wins over its series.

    The instant decides on the formula. Where neither states a fee type the general fee is charged.
    """
    rules = rules_for("kalshi", at.date())
    stated: dict[str, Any] = {}
    for row, kind, multiplier in (
        (series or {}, "fee_type", "fee_multiplier"),
        (event or {}, "fee_type_override", "fee_multiplier_override"),
    ):
        found = {"type": row.get(kind), "multiplier": row.get(multiplier)}
        stated |= {name: value for name, value in found.items() if value is not None}
    try:
        fee_terms(rules, stated)
    except (ConfigError, SchemaError) as unknown:
        return UnknownFees(str(unknown))
    return KalshiFees(rules.name, stated.get("type", GENERAL), _plain(stated.get("multiplier", 1)))


def _plain(multiplier: Any) -> str:
    text = f"{Decimal(str(multiplier)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


YES, NO = "YES", "NO"
#: Sources of a price other than a book: the venue's own midpoint, and the market's listing.
MIDPOINT, LISTING = "midpoint", "listing"


class MarketStatus(StrEnum):
    """Status of a market, in order. VOID: over without a winner."""

    ACTIVE = "active"
    CLOSED = "closed"
    PROPOSED = "proposed"
    DISPUTED = "disputed"
    RESOLVED = "resolved"
    VOID = "void"


@lru_cache(maxsize=1 << 16)
def folded(name: str) -> str:
    """A side or an outcome as it is compared: without case and outer spaces."""
    return name.strip().casefold()


def is_binary(outcomes: tuple[str, ...]) -> bool:
    """Return whether the outcomes are exactly yes and no, in either order."""
    return sorted(map(folded, outcomes)) == ["no", "yes"]


@dataclass(frozen=True, slots=True)
class Market:
    """One market of a universe.

    outcomes: their names in the venue's order. prices: micro-dollars per share of each, None if missing. token_ids: what is quoted: the token of
    each outcome on Polymarket; on Kalshi the contract of each, or the one of a market with the sides YES and NO.
    volume: micro-dollars traded. tick: micro-dollars; min_shares: micro-shares of the smallest order; both None where the venue states none.
    fees: what takers pay. Question, category and outcomes are untrusted text.
    """

    market_id: str
    question: str
    outcomes: tuple[str, ...]
    prices: tuple[SharePrice | None, ...] = ()
    token_ids: tuple[str, ...] = ()
    category: str | None = None
    event_id: str | None = None
    volume: MicroDollars | None = None
    closes_at: datetime | None = None
    status: MarketStatus = MarketStatus.ACTIVE
    tick: SharePrice | None = None
    min_shares: MicroShares | None = None
    fees: FeeSchedule | KalshiFees | UnknownFees = FREE
    _sides: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places: dict[str, int] = {}
        for place, name in enumerate(self.outcomes):
            places.setdefault(folded(name), place)
        object.__setattr__(self, "_sides", places)

    @property
    def binary(self) -> bool:
        """Return whether its sides are YES and NO."""
        return is_binary(self.outcomes)

    def place(self, side: str) -> int | None:
        """Position of a side among the outcomes, case-insensitive; None if it is not an outcome."""
        return self._sides.get(folded(side))

    def side(self, text: str) -> str | None:
        """Stored form of a side: YES or NO in a binary market, otherwise the outcome's own spelling; None if it is not an outcome."""
        place = self.place(text)
        if place is None:
            return None
        return folded(text).upper() if self.binary else self.outcomes[place]

    def price(self, side: str) -> SharePrice | None:
        """The price of a side in the universe; NO costs what YES leaves of a dollar."""
        if self.binary:
            yes = self._price_at(self._sides["yes"])
            return yes if yes is None or folded(side) == "yes" else complement(yes)
        place = self.place(side)
        return None if place is None else self._price_at(place)

    def _price_at(self, place: int) -> SharePrice | None:
        return self.prices[place] if place < len(self.prices) else None


def within(price: SharePrice, bid: SharePrice | None, ask: SharePrice | None) -> SharePrice:
    """A price moved to the nearest of the quoted sides that it contradicts: never below the bid or above the ask."""
    low = price if bid is None else max(price, bid)
    return low if ask is None else min(low, ask)


def complement(price: SharePrice) -> SharePrice:
    """Price of the other side of a binary market."""
    other: Any = 1_000_000 - price
    return other


@dataclass(frozen=True, slots=True)
class Level:
    """Shares (micro-shares) that rest at a price (micro-dollars per share)."""

    price: SharePrice
    shares: MicroShares


@dataclass(frozen=True, slots=True)
class Quote:
    """Quote of one outcome: best bid, midpoint and best ask, in micro-dollars per share; None if missing.

    at: when. source: where the quote comes from. bids, asks: resting orders, best first; empty where only the best prices are known.
    tick: the step of prices that the book itself states, in micro-dollars. skipped: levels of the book that were left out as unusable.
    listed: the price of the listing at the same time, for methodologies that fall back on it where there is no midpoint.
    """

    mid: SharePrice | None
    bid: SharePrice | None = None
    ask: SharePrice | None = None
    at: datetime | None = None
    source: str = "clob"
    bids: tuple[Level, ...] = ()
    asks: tuple[Level, ...] = ()
    tick: SharePrice | None = None
    skipped: int = 0
    listed: SharePrice | None = None

    def opposite(self) -> Quote:
        """The same quote from the other side of a binary market: its ask is what the bid leaves of a dollar."""
        return Quote(
            mid=_turned(self.mid),
            bid=_turned(self.ask),
            ask=_turned(self.bid),
            at=self.at,
            source=self.source,
            bids=tuple(Level(complement(level.price), level.shares) for level in self.asks),
            asks=tuple(Level(complement(level.price), level.shares) for level in self.bids),
            tick=self.tick,
            skipped=self.skipped,
            listed=_turned(self.listed),
        )

    def at_listing(self) -> Quote:
        """The quote with the listing's price in the place of a missing midpoint; unchanged where there is a midpoint or no listed price."""
        return self if self.mid is not None or self.listed is None else replace(self, mid=self.listed, source=LISTING)


def _turned(price: SharePrice | None) -> SharePrice | None:
    return None if price is None else complement(price)


#: The quotes of one market by position of the outcome.
Quotes = Mapping[int, Quote]


def quote_of(market: Market, side: str, quotes: Quotes) -> Quote | None:
    """The quote of a side. In a binary market it comes from YES alone, found by its name and never by its position."""
    if market.binary:
        yes = market.place(YES)
        quote = None if yes is None else quotes.get(yes)
        return quote if quote is None or folded(side) == "yes" else quote.opposite()
    place = market.place(side)
    return None if place is None else quotes.get(place)


def wanted_tokens(markets: Mapping[str, Market], market_ids: Iterator[str] | list[str]) -> dict[str, tuple[str, int]]:
    """The tokens whose quotes a decision needs -> (market, position of the outcome): of YES in binary markets, of every outcome in others."""
    tokens: dict[str, tuple[str, int]] = {}
    for market_id in dict.fromkeys(market_ids):
        market = markets.get(market_id)
        if market is None:
            continue
        places = [market.place(YES)] if market.binary else range(len(market.outcomes))
        for place in places:
            if place is not None and place < len(market.token_ids) and market.token_ids[place]:
                tokens[market.token_ids[place]] = market_id, place
    return tokens
