"""Fee terms of markets as integers for the engine, and fees of fills and orders in exact decimal arithmetic, independent of the compiled engine.

A market's terms determine the trade fee of a fill. Kalshi also charges for rounding each change of the balance, and rebates these charges
per order once they add up: https://docs.kalshi.com/getting_started/fee_rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from decimal import ROUND_FLOOR, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from bellwether.errors import ConfigError, SchemaError
from bellwether.recordings.exchange_times import to_nanoseconds
from bellwether.replay.rules.ruleset import RuleSet
from bellwether.replay.units import DOLLAR, MAX_LOTS, dollars
from bellwether.units import MicroDollars
from bellwether.venues.polymarket.fees import schedule_of

if TYPE_CHECKING:
    import numpy as np

Role = Literal["taker", "maker"]
Action = Literal["buy", "sell"]

#: Kinds. FREE: no fee. QUADRATIC: rate × contracts × P × (1 − P) dollars, rounded up to the fee unit. BY_SHARES: rate × contracts ×
#: (P × (1 − P))^e dollars, BY_VALUE: the same times P, the price of the side that was traded; both rounded half up to the
#: fee unit, and an amount below one unit is nothing; e = 1, or the number in the name: 2, 0, or HALF for a square root.
FREE, QUADRATIC, BY_SHARES, BY_SHARES_2, BY_VALUE, BY_VALUE_2, BY_SHARES_0, BY_VALUE_0, BY_SHARES_HALF, BY_VALUE_HALF = range(10)
#: Exponent of Polymarket's curve -> kinds by shares and by value.
CURVES = {
    Fraction(0): (BY_SHARES_0, BY_VALUE_0),
    Fraction(1, 2): (BY_SHARES_HALF, BY_VALUE_HALF),
    Fraction(1): (BY_SHARES, BY_VALUE),
    Fraction(2): (BY_SHARES_2, BY_VALUE_2),
}
#: Kind -> (exponent, whether it is by value).
CURVE_OF = {kind: (exponent, place == 1) for exponent, kinds in CURVES.items() for place, kind in enumerate(kinds)}

_NOTHING = (FREE, 0, 1)
_DEFAULT_TYPE = "quadratic"


def fee_terms(rules: RuleSet, fee: Mapping[str, Any] | None) -> np.ndarray:
    """Convert a market's fee terms to a row of `Tape.fees`, int64[7]: formula and rate of takers and of makers, end of a waiver.

    fee: terms as stated in episodes: type (the venue's fee type; null: the general one), multiplier (a number or its text; null: 1),
    waiver_until (ISO 8601; no fees before it; null: none). Polymarket's may also have schedule (the market's feeSchedule object), category
    and enabled. The column waiver_until is in ns UTC, 0 for none. Raises `ConfigError` for a fee type that the rules do not know,
    `SchemaError` for an invalid multiplier or time, and for a rate of more digits than the engine's integers can represent.
    """
    fee = fee or {}
    sides = (_polymarket_terms if rules.venue == "polymarket" else _kalshi_terms)(rules, fee)
    if not all(_is_computable(*side, rules.fee_unit) for side in sides):
        stated = {name: value for name, value in fee.items() if name in ("multiplier", "schedule")}
        raise SchemaError(f"reading a market's fees: {stated!r:.120} has more digits than fees can be computed with; give fewer digits")
    import numpy as np

    return np.array([*sides[0], *sides[1], _parse_waiver(fee.get("waiver_until"))], np.int64)


def _is_computable(kind: int, numerator: int, denominator: int, unit: int) -> bool:
    """Return True if int64 arithmetic is exact for every size and price. kind: fee formula. unit: to which fees are rounded, micro-dollars.

    With L lots at p × $0.0001 and w = p × (10000 − p), a fee in micro-dollars is rate × L × w / 10^4 (QUADRATIC) or rate × L × v × w^e /
    10^(8e), where v is p by value and 10^4 by shares.
    """
    if kind == FREE:
        return True
    peak = DOLLAR * DOLLAR // 4
    if kind == QUADRATIC:
        step, most = denominator * DOLLAR * unit, MAX_LOTS * peak
        return numerator * min(step, most) + step < 2**63 and numerator * most // (denominator * DOLLAR) < 2**62
    exponent, _ = CURVE_OF[kind]
    most = 2 * numerator * MAX_LOTS
    return most < 2**62 and most * DOLLAR // 2 ** int(2 * exponent) + 3 * denominator * unit < 2**62


def _kalshi_terms(rules: RuleSet, fee: Mapping[str, Any]) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return (kind of formula, numerator and denominator of the rate) for takers and for makers on Kalshi."""
    kind = fee.get("type") or _DEFAULT_TYPE
    if kind not in rules.fees:
        types = ", ".join(rules.fees)
        raise ConfigError(f"reading a market's fees: {rules.name} has no fee type {kind!r:.60}; choose one of {types}, or other rules")
    multiplier = _parse_multiplier(fee.get("multiplier"))
    rates = rules.fees[kind].taker * multiplier, rules.fees[kind].maker * multiplier
    taker, maker = ((QUADRATIC, *rate.as_integer_ratio()) if rate else _NOTHING for rate in rates)
    return taker, maker


def _polymarket_terms(rules: RuleSet, fee: Mapping[str, Any]) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return (kind of formula, numerator and denominator of the rate) for takers and for makers on Polymarket."""
    unknown = sorted({"feeType", "feeSchedule", "feesEnabled"} & fee.keys())
    if fee.get("multiplier") is not None:
        unknown.append("multiplier")
    if unknown:
        raise SchemaError(
            f"reading a market's fees: unknown term {unknown[0]} of a Polymarket episode; use type, category, schedule and enabled"
        )
    market = {"id": fee.get("source"), "feeType": fee.get("type"), "feeSchedule": fee.get("schedule"), "feesEnabled": fee.get("enabled")}
    schedule = schedule_of(market, datetime.combine(rules.since, time(), UTC), category=fee.get("category"))
    if schedule.is_free:
        return _NOTHING, _NOTHING
    exponent = Fraction(schedule.exponent)
    if exponent not in CURVES:
        raise ConfigError(f"reading a market's fees: unsupported exponent {schedule.exponent}; use 0, 0.5, 1 or 2")
    rate = Fraction(schedule.rate)
    taker = CURVES[exponent][schedule.regime.by_value], rate.numerator, rate.denominator
    return taker, _NOTHING if schedule.taker_only else taker


def _parse_multiplier(value: Any) -> Fraction:
    """Parse a multiplier of fees; 1 if missing. Raises `SchemaError` for an invalid one."""
    if value is None:
        return Fraction(1)
    try:
        multiplier = Decimal(str(value))
    except InvalidOperation:
        multiplier = Decimal("NaN")
    if isinstance(value, bool) or not multiplier.is_finite() or multiplier < 0:
        raise SchemaError(f"reading a market's fees: the multiplier is {value!r:.60}; give a number of 0 or more")
    return Fraction(multiplier)


def _parse_waiver(value: Any) -> int:
    """Parse the time until which fees are waived to ns UTC; 0 if missing. Raises `SchemaError` for an invalid time."""
    if value is None:
        return 0
    try:
        until = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise SchemaError(f"reading a market's fees: waiver_until is {value!r:.60}; give an ISO 8601 time") from None
    if until.tzinfo is None:
        raise SchemaError(f"reading a market's fees: waiver_until {value} has no zone; give an aware time")
    return to_nanoseconds(until)


#: More digits than any product of a size, a price and a rate.
_DIGITS = 60
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class FillFee:
    """Fees of one fill in dollars: trade fee, charge for rounding the balance, and rebate of the order's earlier rounding charges."""

    trade: Decimal
    rounding: Decimal = _ZERO
    rebate: Decimal = _ZERO

    @property
    def net(self) -> Decimal:
        """Total fee: trade + rounding - rebate, never negative."""
        return self.trade + self.rounding - self.rebate


class Accumulator:
    """Rounding charges of one order over its fills. held: charges not yet rebated, in dollars."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self.held = _ZERO

    def add(self, revenue: Decimal, trade_fee: Decimal) -> FillFee:
        """Add a fill and return its fees. revenue: dollars received, negative for a buyer. trade_fee: dollars, rounded by the rules."""
        if not self._rules.balance_unit:
            return FillFee(trade_fee)
        with localcontext(prec=_DIGITS):
            change = revenue - trade_fee
            unit = dollars(self._rules.balance_unit)
            rounding = change - (change / unit).to_integral_value(ROUND_FLOOR) * unit
            self.held += rounding
            rebate = self._rebate(trade_fee + rounding)
            self.held -= rebate
        return FillFee(trade_fee, rounding, rebate)

    def _rebate(self, charged: Decimal) -> Decimal:
        """Return the rebate due in whole rebate units. charged: total charge for the current fill, which limits the rebate."""
        unit = dollars(self._rules.rebate_unit)
        units = self.held // unit
        if self._rules.rebate_above and units and self.held == units * unit:
            units -= 1
        return unit * min(units, charged // unit)


class OrderFees:
    """Fees of one order, computed fill by fill, under a rule set and a market's fee terms (see `fee_terms`)."""

    def __init__(self, rules: RuleSet, fee: Mapping[str, Any] | None = None) -> None:
        self._rules = rules
        self._terms = fee_terms(rules, fee).tolist()
        self._accumulator = Accumulator(rules)

    def fill(self, contracts: Decimal | str | int, price: Decimal | str, *, action: Action = "buy", role: Role = "taker") -> FillFee:
        """Add a fill of `contracts` at `price` dollars each and return its fees. Raises `ConfigError` for an invalid size or price."""
        size, at = Decimal(contracts), Decimal(price)
        trade = trade_fee(self._rules, self._terms, size, at, role)
        with localcontext(prec=_DIGITS):
            return self._accumulator.add(size * at if action == "sell" else -size * at, trade)


def trade_fee(rules: RuleSet, terms: Sequence[int], contracts: Decimal, price: Decimal, role: Role) -> Decimal:
    """Compute the fee of a fill in dollars, before rounding of the balance and without waivers. terms: a row of `fee_terms`.

    Accepts prices and sizes finer than the engine's $0.0001 and lots. Raises `ConfigError` for a size below 0 or a price outside [0, 1].
    """
    if not (contracts.is_finite() and contracts >= 0 and price.is_finite() and 0 <= price <= 1):
        raise ConfigError(f"computing a fee: {contracts} contracts at {price} dollars; a size is 0 or more and a price in [0, 1]")
    kind, numerator, denominator = terms[:3] if role == "taker" else terms[3:6]
    if kind == FREE:
        return _ZERO
    with localcontext(prec=_DIGITS):
        curve = price * (1 - price)
        if kind == QUADRATIC:
            return _round_up(numerator * contracts * curve, denominator, rules.fee_unit)
        exponent, by_value = CURVE_OF[kind]
        power = curve.sqrt() if exponent.denominator == 2 else curve**exponent.numerator if exponent else 1
        return _round_half_up(numerator * contracts * power * (price if by_value else 1), denominator, rules.fee_unit)


def _round_up(value: Decimal, divisor: int, unit: MicroDollars) -> Decimal:
    """Return value / divisor dollars, rounded up to whole units."""
    step = dollars(unit) * divisor
    whole = value // step
    return (whole + (value > whole * step)) * dollars(unit)


def _round_half_up(value: Decimal, divisor: int, unit: MicroDollars) -> Decimal:
    """Return value / divisor dollars, rounded half up to whole units; 0 below one unit."""
    step = dollars(unit) * divisor
    whole, rest = divmod(value, step)
    return (whole + (2 * rest >= step)) * dollars(unit) if whole else _ZERO
