"""Units of the arena: integers in millionths, and their rounding.

Money is micro-dollars, prices are micro-dollars per share (0 to 1,000,000), positions are micro-shares. Formulas are computed exactly and
rounded once, half to even (`divide_half_even`). Type checkers distinguish `MicroDollars`, `SharePrice` and `MicroShares` (`bellwether.units`).
"""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any

from bellwether.errors import SchemaError
from bellwether.units import MicroDollars, MicroShares, SharePrice

#: Micro-dollars per dollar, payout of a winning share in micro-dollars, and micro-shares per share.
MICROS = 1_000_000
#: Micro-dollars per cent.
CENT = 10_000

#: Maximum amount, price or size in whole units; larger values are rejected before conversion.
LARGEST = Decimal(10) ** 15
_EXACT = Context(prec=80)


def divide_half_even(numerator: int, denominator: int) -> int:
    """Return numerator / denominator rounded half to even. denominator: above 0."""
    quotient, rest = divmod(numerator, denominator)
    twice = 2 * rest
    return quotient + (twice > denominator or (twice == denominator and quotient & 1))


def share_value(shares: MicroShares, price: SharePrice) -> MicroDollars:
    """Return the value of shares (micro-shares) at a price, in micro-dollars."""
    value: Any = divide_half_even(shares * price, MICROS)
    return value


def shares_for(amount: MicroDollars, price: SharePrice) -> MicroShares:
    """Return the micro-shares that an amount (micro-dollars) buys at a price above 0."""
    return MicroShares(divide_half_even(amount * MICROS, price))


def midpoint(bid: SharePrice | None, ask: SharePrice | None) -> SharePrice | None:
    """Return the midpoint in micro-dollars; None if a side is not quoted."""
    return SharePrice(divide_half_even(bid + ask, 2)) if bid is not None and ask is not None else None


def micros(value: Decimal | str | int) -> int:
    """Convert dollars or shares to millionths, rounded half to even. Raises `SchemaError` if the value is not a number up to `LARGEST`."""
    try:
        number = Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        raise SchemaError(f"reading an amount: {value!r:.80} is not a decimal number") from None
    if not (number.is_finite() and -LARGEST <= number <= LARGEST):
        raise SchemaError(f"reading an amount: {value!s:.80} is not a number from {-LARGEST:f} to {LARGEST:f}")
    return int(_EXACT.multiply(number, MICROS).to_integral_value(ROUND_HALF_EVEN, _EXACT))


def price_micros(value: Decimal | str | int | float | None) -> SharePrice | None:
    """Convert a venue's price in dollars to micro-dollars per share; None unless it is a number from 0 to 1.

    A price strictly between 0 and 1 is never rounded to 0 or 1.
    """
    if value is None or isinstance(value, bool):
        return None
    try:
        number = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        return None
    if not number.is_finite() or not 0 <= number <= 1:
        return None
    return SharePrice(int(number) * MICROS if number in (0, 1) else min(max(micros(number), 1), MICROS - 1))


def dollars(amount: int) -> Decimal:
    """Convert millionths to a decimal number, exactly."""
    return Decimal(amount).scaleb(-6, _EXACT)


def money_text(amount: MicroDollars) -> str:
    """Format micro-dollars with two decimals and thousands separators, rounded towards zero so that a printed limit is valid."""
    return f"{dollars(amount).quantize(Decimal('0.01'), ROUND_DOWN, _EXACT):,}"


def percent_text(price: SharePrice) -> str:
    """Format a price as a percentage with at least one decimal: 435000 gives 43.5, 400 gives 0.04."""
    text = f"{Decimal(price).scaleb(-4):f}".rstrip("0")
    return text + "0" if text.endswith(".") else text if "." in text else f"{text or '0'}.0"
