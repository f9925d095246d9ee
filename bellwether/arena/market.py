"""Markets of the arena, their quotes, and Kalshi's taker fees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.rules import OrderFees, fee_terms, rule_set, rules_for
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FREE, FeeSchedule, Regime, Side

#: Default fee type, if event and series state none.
GENERAL = "quadratic"


@dataclass(frozen=True, slots=True)
class KalshiFees:
    """Taker fees of a market at Kalshi. rules: name of the rule set in force. kind: the venue's fee type. multiplier: factor on the formula, as
    decimal text.
    """

    rules: str
    kind: str = GENERAL
    multiplier: str = "1"

    def order_fees(self, fills: Iterable[tuple[Decimal, Decimal]], side: Side) -> list[Decimal]:
        """Return the net fee in dollars of each fill of one order, after rounding and rebate. fills: (contracts, dollars per contract)."""
        order = OrderFees(rule_set(self.rules), {"type": self.kind, "multiplier": self.multiplier})
        return [order.fill(contracts, price, action=side).net for contracts, price in fills]


@dataclass(frozen=True, slots=True)
class UnknownFees:
    """Fees whose terms cannot be parsed, with the reason. Methodologies that charge fees refuse trades on such a market."""

    reason: str


def kalshi_fees(event: Mapping[str, Any] | None, series: Mapping[str, Any] | None, at: datetime) -> KalshiFees | UnknownFees:
    """Return the fees of a market as of an instant. event, series: its rows of raw/kalshi_events and raw/kalshi_series. Fee terms of the event
    take precedence.

    The date selects the formula. Without a stated fee type the general fee applies.
    """
    rules = rules_for("kalshi", at.date())
    terms: dict[str, Any] = {}
    for row, kind, multiplier in (
        (series or {}, "fee_type", "fee_multiplier"),
        (event or {}, "fee_type_override", "fee_multiplier_override"),
    ):
        fields = {"type": row.get(kind), "multiplier": row.get(multiplier)}
        terms |= {name: value for name, value in fields.items() if value is not None}
    try:
        fee_terms(rules, terms)
    except (ConfigError, SchemaError) as unknown:
        return UnknownFees(str(unknown))
    return KalshiFees(rules.name, terms.get("type", GENERAL), _decimal_text(terms.get("multiplier", 1)))


def _decimal_text(multiplier: Any) -> str:
    text = f"{Decimal(str(multiplier)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def encode_fees(fees: FeeSchedule | KalshiFees | UnknownFees) -> str:
    """Encode fee terms as JSON."""
    content = {**asdict(fees), "regime": fees.regime.name} if isinstance(fees, FeeSchedule) else asdict(fees)
    return json.dumps(content, default=str, sort_keys=True, separators=(",", ":"))


def decode_fees(text: str | FeeSchedule | KalshiFees | UnknownFees) -> FeeSchedule | KalshiFees | UnknownFees:
    """Decode fee terms that `encode_fees` encoded."""
    if not isinstance(text, str):
        return text
    content = json.loads(text)
    if "rules" in content:
        return KalshiFees(**content)
    if "reason" in content:
        return UnknownFees(**content)
    # Fractional exponents are text, as all decimals; whole ones are numbers.
    exact = {name: Decimal(content[name]) for name in ("rate", "rebate_rate", "exponent") if isinstance(content[name], str)}
    return FeeSchedule(**{**content, **exact, "regime": Regime[content["regime"]]})


#: Fee terms of a market. In JSON they are the text of `encode_fees`.
Fees = Annotated[FeeSchedule | KalshiFees | UnknownFees, PlainSerializer(encode_fees, when_used="json"), PlainValidator(decode_fees)]

YES, NO = "YES", "NO"


class MarketStatus(StrEnum):
    """Status of a market, in the order of its life cycle. VOID: ended without a winner."""

    ACTIVE = "active"
    CLOSED = "closed"
    PROPOSED = "proposed"
    DISPUTED = "disputed"
    RESOLVED = "resolved"
    VOID = "void"


@lru_cache(maxsize=1 << 16)
def fold_case(name: str) -> str:
    """Return the name of a side or outcome case-folded and stripped, for comparison."""
    return name.strip().casefold()


@lru_cache(maxsize=1 << 16)
def is_binary(outcomes: tuple[str, ...]) -> bool:
    """Return whether the outcomes are exactly yes and no, in either order."""
    return sorted(map(fold_case, outcomes)) == ["no", "yes"]


@lru_cache(maxsize=1 << 16)
def _places(outcomes: tuple[str, ...]) -> Mapping[str, int]:
    """Return the index of each outcome by its folded name; of equal names the first."""
    return {fold_case(name): place for place, name in reversed(tuple(enumerate(outcomes)))}


@dataclass(frozen=True, slots=True)
class Market:
    """A market on which agents bet.

    outcomes: names in the venue's order. prices: of each outcome in micro-dollars per share, None if missing. token_ids: quoted instruments: on
    Polymarket the token of each outcome, on Kalshi the contract of each outcome, or the single contract of a binary market. volume:
    micro-dollars. tick: micro-dollars. min_shares: minimum order in micro-shares. tick and min_shares are None if the venue states none. fees:
    taker fees. Question, category and outcomes are untrusted text.
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
    fees: Fees = FREE

    @property
    def binary(self) -> bool:
        """True if the sides are YES and NO."""
        return is_binary(self.outcomes)

    def place(self, side: str) -> int | None:
        """Return the index of a side among the outcomes, case-insensitively; None if there is no such outcome."""
        return _places(self.outcomes).get(fold_case(side))

    def side(self, text: str) -> str | None:
        """Return the stored name of the side that `text` names: YES or NO in a binary market, else the outcome's spelling; None if there is no
        such outcome.
        """
        place = self.place(text)
        if place is None:
            return None
        return fold_case(text).upper() if self.binary else self.outcomes[place]

    def price(self, side: str) -> SharePrice | None:
        """Return the stored price of a side; None if missing. In a binary market the price of NO is one dollar minus the price of YES."""
        if self.binary:
            yes = self._price_at(_places(self.outcomes)["yes"])
            return yes if yes is None or fold_case(side) == "yes" else complement(yes)
        place = self.place(side)
        return None if place is None else self._price_at(place)

    def _price_at(self, place: int) -> SharePrice | None:
        return self.prices[place] if place < len(self.prices) else None


def complement(price: SharePrice) -> SharePrice:
    """Return the price of the other side of a binary market: one dollar minus `price`."""
    other: Any = 1_000_000 - price
    return other


@dataclass(frozen=True, slots=True)
class Level:
    """Resting shares (micro-shares) at a price (micro-dollars per share)."""

    price: SharePrice
    shares: MicroShares


@dataclass(frozen=True, slots=True)
class Quote:
    """Quote of one outcome: best bid, midpoint and best ask in micro-dollars per share; None if missing.

    at: time of the quote. source: its source. bids, asks: resting orders, best first; empty if only the best prices are known. tick: price step
    of the book in micro-dollars. skipped: unusable levels of the book.
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

    def opposite(self) -> Quote:
        """Return the quote of the other side of a binary market, whose ask is one dollar minus the bid of this side."""
        return Quote(
            mid=_complement_price(self.mid),
            bid=_complement_price(self.ask),
            ask=_complement_price(self.bid),
            at=self.at,
            source=self.source,
            bids=tuple(Level(complement(level.price), level.shares) for level in self.asks),
            asks=tuple(Level(complement(level.price), level.shares) for level in self.bids),
            tick=self.tick,
            skipped=self.skipped,
        )

    def without(self, taken: Iterable[Level]) -> Quote:
        """Return the quote with the sizes of its levels reduced by those that were `taken`."""
        sizes: dict[SharePrice, int] = {level.price: level.shares for level in taken}
        bids, asks = (
            tuple(Level(level.price, MicroShares(level.shares - sizes.get(level.price, 0))) for level in side)
            for side in (self.bids, self.asks)
        )
        return replace(self, bids=bids, asks=asks)


def _complement_price(price: SharePrice | None) -> SharePrice | None:
    return None if price is None else complement(price)


#: Quotes of one market by index of the outcome.
Quotes = Mapping[int, Quote]


def find_quote(market: Market, side: str, quotes: Quotes) -> Quote | None:
    """Return the quote of a side; None if missing. In a binary market the quote of NO is derived from that of YES."""
    if market.binary:
        yes = market.place(YES)
        quote = None if yes is None else quotes.get(yes)
        return quote if quote is None or fold_case(side) == "yes" else quote.opposite()
    place = market.place(side)
    return None if place is None else quotes.get(place)


def find_quoted_tokens(markets: Mapping[str, Market], market_ids: Iterator[str] | list[str]) -> dict[str, tuple[str, int]]:
    """Return the tokens whose quotes are needed to trade the given markets, mapped to (market id, index of the outcome): YES in a binary market,
    else every outcome.
    """
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
