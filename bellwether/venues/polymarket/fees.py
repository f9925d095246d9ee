"""Polymarket's fee of a fill, by the terms of its market and the time of the trade.

Three regimes, by the venue's documentation (https://docs.polymarket.com/trading/fees and its earlier versions):

1. until March 2026: no fees, except on 15-minute crypto markets since January;
2. from 2026-03-06 on, crypto and sports: shares × price × rate × (price × (1 − price))^exponent, 4 decimals, withheld in shares from buys;
3. from April 2026: shares × rate × (price × (1 − price))^exponent, 5 decimals, in dollars.

Rates and exponents come from the market's own `feeSchedule`; the exponent may be fractional (0.5 in weather and economics until April
2026). Since July 2026 the default of sports is 0.05 instead of 0.03, with a rebate of 15 instead of 25 % for makers.

A fee is rounded once, half up, to the decimals of its regime; a fee below one unit is zero. Intermediate results are not rounded: whole
powers are exact products, square roots are correctly rounded to 220 digits and other fractional powers to 200 digits.

Takers pay; makers pay nothing and receive a share of the takers' fees. The base fee of 1000 basis points, which /fee-rate and older market
objects state, is not a rate: it only marks markets that charge fees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from enum import Enum
from math import prod
from typing import Any, Literal

from bellwether.errors import ConfigError, SchemaError
from bellwether.venues.wire.columns import format_number

Side = Literal["buy", "sell"]
#: Source of the terms: the market's own object, a table by category (an estimate), or none for a time or market without fees.
Source = Literal["market", "category", "none"]

#: More digits than any product of a size, a price and a rate has, so that nothing is rounded before the end.
_DIGITS = 200
_NUMBER = re.compile(r"-?[0-9]{1,6}(\.[0-9]{1,18})?")


class Regime(Enum):
    """Fee formula that applies from `since` on; fees are rounded to `decimals` decimals."""

    NONE = datetime(2020, 1, 1, tzinfo=UTC), 5
    SHORT_CRYPTO = datetime(2026, 1, 1, tzinfo=UTC), 4
    BY_VALUE = datetime(2026, 3, 6, tzinfo=UTC), 4
    BY_SHARES = datetime(2026, 4, 1, tzinfo=UTC), 5

    def __init__(self, since: datetime, decimals: int) -> None:
        self.since = since
        self.decimals = decimals

    @classmethod
    def at(cls, at: datetime) -> Regime:
        """Return the regime that applies at an aware time. Raises `ConfigError` for a time without a zone.

        The venue states the first and last change only to the month.
        """
        if at.tzinfo is None:
            raise ConfigError(f"choosing a fee regime: the time {at.isoformat()} has no zone; give an aware time")
        return max((regime for regime in cls if regime.since <= at), key=lambda regime: regime.since, default=cls.NONE)

    @property
    def by_value(self) -> bool:
        """True if the regime's formula has the price as an additional factor, and fees are withheld in shares from buys."""
        return self in (Regime.SHORT_CRYPTO, Regime.BY_VALUE)


#: Rate and exponent by kind of market, where its own object does not state them; known kinds that are not listed pay nothing.
_TABLES: Mapping[Regime, Mapping[str, tuple[Decimal, int]]] = {
    Regime.NONE: {},
    Regime.SHORT_CRYPTO: {"crypto_15_min": (Decimal("0.25"), 2)},
    Regime.BY_VALUE: {"crypto": (Decimal("0.25"), 2), "sports": (Decimal("0.0175"), 1)},
    Regime.BY_SHARES: {
        "crypto": (Decimal("0.07"), 1),
        "sports": (Decimal("0.03"), 1),
        **dict.fromkeys(("finance", "politics", "mentions", "tech"), (Decimal("0.04"), 1)),
        **dict.fromkeys(("economics", "culture", "weather", "other"), (Decimal("0.05"), 1)),
    },
}
_KINDS = frozenset(
    {"crypto", "sports", "finance", "politics", "mentions", "tech", "economics", "culture", "weather", "geopolitics", "general"}
)
_REBATES = {"crypto": Decimal("0.20"), "crypto_15_min": Decimal("0.20")}
_REBATE = Decimal("0.25")
#: Kind -> (since when, rate, exponent, makers' part): changes of defaults within a regime.
_CHANGES = {"sports": (datetime(2026, 7, 1, tzinfo=UTC), Decimal("0.05"), 1, Decimal("0.15"))}
#: From this day to the next regime, kinds other than crypto and sports paid by terms of which only those with a fractional exponent are known.
_EXTENDED = datetime(2026, 3, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FeeSchedule:
    """Fee terms of a market.

    regime: the formula. rate, exponent: its constants; a whole exponent is an int. taker_only: makers pay nothing. rebate_rate: the makers'
    share of the fees. source: market, category (a fallback from a table) or none. rounding: a mode of `decimal`; the venue does not state
    one. A fee below one unit of the last decimal is zero.
    """

    regime: Regime = Regime.NONE
    rate: Decimal = Decimal(0)
    exponent: int | Decimal = 1
    taker_only: bool = True
    rebate_rate: Decimal = Decimal(0)
    source: Source = "none"
    rounding: str = ROUND_HALF_UP

    @property
    def is_free(self) -> bool:
        """True if fills cost nothing."""
        return not self.rate

    def fee(self, shares: Decimal | int, price: Decimal | int, side: Side) -> Decimal:
        """Compute the taker's fee of a fill of `shares` at `price` dollars, in dollars, rounded to the regime's decimals.

        Raises `ConfigError` for a negative size, a price outside [0, 1], a float, or an invalid side.
        """
        size, at = _exact("shares", shares), _exact("price", price)
        if at > 1:
            raise ConfigError(f"computing a fee: the price {at} is outside [0, 1]; give dollars per share")
        if side not in ("buy", "sell"):
            raise ConfigError(f"computing a fee: the side is {side!r}; give buy or sell")
        with localcontext(prec=_DIGITS):
            value = size * (at if self.regime.by_value else 1) * self.rate * _power(at * (1 - at), self.exponent)
            unit = Decimal(1).scaleb(-self.regime.decimals)
            return value.quantize(unit, rounding=self.rounding) if value >= unit else Decimal(0)


FREE = FeeSchedule()


def _power(base: Decimal, exponent: int | Decimal) -> Decimal:
    """Compute base^exponent: exactly for a whole exponent, else to at least `_DIGITS` digits."""
    if exponent == int(exponent):
        return prod([base] * int(exponent), start=Decimal(1))
    with localcontext(prec=_DIGITS + 20):
        if 2 * exponent == int(2 * exponent):
            return prod([base.sqrt()] * int(2 * exponent), start=Decimal(1))
        power = base**exponent
    with localcontext(prec=_DIGITS):
        return +power


def schedule_of(market: Mapping[str, Any], at: datetime, *, category: str | None = None) -> FeeSchedule:
    """Return the fee terms of a trade at the aware time `at`. market: object of Gamma. category: of the market's event, for objects that
    state no fee type.

    The object's own `feeSchedule` is used if it belongs to the regime of `at`; otherwise a table by category, and `source` states so.
    Raises `SchemaError` for invalid terms, and for fees charged by unknown terms.
    """
    regime = Regime.at(at)
    if regime is Regime.NONE or not _charges(market):
        return FREE
    if market.get("feeSchedule") is not None and regime is not Regime.SHORT_CRYPTO:
        stated = _stated(market, market["feeSchedule"], regime)
        # Only the regime by value had fractional exponents, so a market with one states terms of that time.
        if regime is Regime.BY_SHARES or not isinstance(stated.exponent, int):
            return stated
    kind = _kind(market, category, regime)
    if regime is Regime.BY_VALUE and kind not in _TABLES[regime] and (kind == "other" or (at >= _EXTENDED and kind != "geopolitics")):
        raise _unfit(market, "feeType", market.get("feeType"), f"which has no known terms on {at.date()}")
    return _by_kind(kind, regime, at)


def _by_kind(kind: str, regime: Regime, at: datetime) -> FeeSchedule:
    """Return the terms that the tables of a regime have for a kind of market, such as crypto, at a time."""
    if regime is Regime.BY_SHARES and kind in _CHANGES and at >= _CHANGES[kind][0]:
        _, rate, exponent, rebate = _CHANGES[kind]
    else:
        rate, exponent = _TABLES[regime].get(kind, (Decimal(0), 1))
        rebate = _REBATES.get(kind, _REBATE) if rate else Decimal(0)
    return FeeSchedule(regime, rate, exponent, rebate_rate=rebate, source="category")


def _charges(market: Mapping[str, Any]) -> bool:
    """Return True if the market has fees, by the first field that states it."""
    enabled = market.get("feesEnabled")
    if enabled is not None:
        return bool(enabled)
    return bool(market.get("feeSchedule") or market.get("feeType") or market.get("takerBaseFee"))


def _stated(market: Mapping[str, Any], stated: Any, regime: Regime) -> FeeSchedule:
    """Parse the terms that the market's own `feeSchedule` states."""
    if not isinstance(stated, Mapping):
        raise _unfit(market, "feeSchedule", stated, "no JSON object")
    exponent = _ratio(market, stated, "exponent", most=10)
    if exponent is None:
        exponent = Decimal(1)
    rate = _ratio(market, stated, "rate")
    if rate is None:
        raise _unfit(market, "feeSchedule.rate", None, "missing")
    taker_only = True if stated.get("takerOnly") is None else stated["takerOnly"]
    if not isinstance(taker_only, bool):
        raise _unfit(market, "feeSchedule.takerOnly", taker_only, "not true or false")
    rebate = _ratio(market, stated, "rebateRate") or Decimal(0)
    whole = int(exponent) if exponent == int(exponent) else exponent.normalize()
    return FeeSchedule(regime, rate, whole, taker_only, rebate, source="market")


def _ratio(market: Mapping[str, Any], stated: Mapping[str, Any], name: str, *, most: int = 1) -> Decimal | None:
    """Parse field `name` of a stated fee schedule as a number in [0, most]; None if missing. Raises `SchemaError` otherwise."""
    value = stated.get(name)
    if value is None:
        return None
    text = format_number(value) if type(value) in (int, float) else f"{value.normalize():f}" if type(value) is Decimal else value
    if type(text) is not str or not _NUMBER.fullmatch(text):
        raise _unfit(market, f"feeSchedule.{name}", value, "no number")
    ratio = Decimal(text)
    if not 0 <= ratio <= most:
        raise _unfit(market, f"feeSchedule.{name}", value, f"outside [0, {most}]")
    return ratio


def _kind(market: Mapping[str, Any], category: str | None, regime: Regime) -> str:
    """Return the market's key in the rate tables, by its fee type (such as crypto_fees_v2), else by its category."""
    fee_type = str(market.get("feeType") or "")
    if regime is Regime.SHORT_CRYPTO:
        return fee_type
    names = (fee_type.split("_", maxsplit=1)[0], str(category or market.get("category") or "").strip().lower())
    kind = next((name for name in names if name in _KINDS), "other")
    return "other" if kind == "general" and regime is Regime.BY_SHARES else kind


def _exact(name: str, value: Decimal | int) -> Decimal:
    """Return the argument `name` as a finite Decimal of 0 or more. Raises `ConfigError` otherwise."""
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        raise ConfigError(f"computing a fee: {name} is {value!r}, a {type(value).__name__}; give a Decimal, so that no digit is lost")
    exact = Decimal(value)
    if not exact.is_finite() or exact < 0:
        raise ConfigError(f"computing a fee: {name} is {value}; give 0 or more")
    return exact


def _unfit(market: Mapping[str, Any], field: str, value: Any, reason: str) -> SchemaError:
    return SchemaError(f"reading the fees of market {market.get('id')!r}: {field} is {value!r:.80}, {reason}; look at the stored object")
