"""Fee terms of a market under a rule set, as a row of integers for the engine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.rules.ruleset import RuleSet
from bellwether.replay.units import DOLLAR, MAX_LOTS
from bellwether.venues.polymarket.fees import schedule_of

if TYPE_CHECKING:
    import numpy as np

#: Columns of a row of terms. The kind is the formula, num/den its reduced rate.
FEE_COLS = ("taker_kind", "taker_num", "taker_den", "maker_kind", "maker_num", "maker_den", "waiver_until")

#: Kinds. FREE: no fee. QUADRATIC: rate × contracts × P × (1 − P) dollars, rounded up to the fee unit. FLOAT: the same as the original benchmark's
#: ceil of a float. BY_SHARES: rate × contracts × (P × (1 − P))^e dollars, BY_VALUE: the same times P, the price of the side that was traded; both
#: rounded half up to the fee unit, and an amount below one unit is nothing; e = 1, or the number in the name: 2, 0, or HALF for a square root.
FREE, QUADRATIC, FLOAT, BY_SHARES, BY_SHARES_2, BY_VALUE, BY_VALUE_2, BY_SHARES_0, BY_VALUE_0, BY_SHARES_HALF, BY_VALUE_HALF = range(11)
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
    if kind in (FREE, FLOAT):
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
    if rules.is_free:
        return _NOTHING, _NOTHING
    if "*" in rules.fees:
        flat = rules.fees["*"]
        return (FLOAT, *flat.taker.as_integer_ratio()), (FLOAT, *flat.maker.as_integer_ratio())
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
    if rules.is_free or schedule.is_free:
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
    since = until - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
