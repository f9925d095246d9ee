"""Fees of fills and orders in exact decimal arithmetic, independent of the compiled engine.

A market's terms determine the trade fee of a fill. Kalshi also charges for rounding each change of the balance, and rebates these charges
per order once they add up: https://docs.kalshi.com/getting_started/fee_rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from math import ceil
from typing import Any, Literal

from bellwether.errors import ConfigError
from bellwether.replay.rules import terms as kinds
from bellwether.replay.rules.ruleset import RuleSet
from bellwether.replay.rules.terms import fee_terms
from bellwether.replay.units import CENT_MICROS, dollars
from bellwether.units import MicroDollars

Role = Literal["taker", "maker"]
Action = Literal["buy", "sell"]

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


def kalshi_fee(
    rules: RuleSet, contracts: Decimal | str | int, price: Decimal | str, fee: Mapping[str, Any] | None = None, *, role: Role = "taker"
) -> Decimal:
    """Compute Kalshi's trade fee of one fill in dollars. fee: the market's fee terms (see `fee_terms`).

    It is multiplier × coefficient × contracts × price × (1 − price), rounded up to the rules' unit.
    """
    return trade_fee(rules, fee_terms(rules, fee).tolist(), Decimal(contracts), Decimal(price), role)


def trade_fee(rules: RuleSet, terms: Sequence[int], contracts: Decimal, price: Decimal, role: Role) -> Decimal:
    """Compute the fee of a fill in dollars, before rounding of the balance and without waivers. terms: a row of `fee_terms`.

    Accepts prices and sizes finer than the engine's $0.0001 and lots. Raises `ConfigError` for a size below 0 or a price outside [0, 1].
    """
    if not (contracts.is_finite() and contracts >= 0 and price.is_finite() and 0 <= price <= 1):
        raise ConfigError(f"computing a fee: {contracts} contracts at {price} dollars; a size is 0 or more and a price in [0, 1]")
    kind, numerator, denominator = terms[:3] if role == "taker" else terms[3:6]
    if kind == kinds.FREE:
        return _ZERO
    if kind == kinds.FLOAT:
        return _float_fee(numerator / denominator, contracts, price)
    with localcontext(prec=_DIGITS):
        curve = price * (1 - price)
        if kind == kinds.QUADRATIC:
            return _round_up(numerator * contracts * curve, denominator, rules.fee_unit)
        exponent, by_value = kinds.CURVE_OF[kind]
        power = curve.sqrt() if exponent.denominator == 2 else curve**exponent.numerator if exponent else 1
        return _round_half_up(numerator * contracts * power * (price if by_value else 1), denominator, rules.fee_unit)


def _float_fee(coefficient: float, contracts: Decimal, price: Decimal) -> Decimal:
    """Compute PredictionMarketBench's fee in floats, with the same order of operations, so that it overcharges equally."""
    cents = float(price * 100)
    charged = ceil(coefficient * float(contracts) * (cents / 100.0) * (1 - cents / 100.0) * 100)
    return dollars(MicroDollars(CENT_MICROS * charged))


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
