"""Units of the arena: integers everywhere, and the one rule by which they are rounded.

Money is a number of micro-dollars, a price a number of micro-dollars per share (0 to 1,000,000), a position a number of micro-shares. A formula is
computed exactly and rounded once, at its end, half to even: `divided`. All are millionths, so type checkers keep `MicroDollars`, `SharePrice` and
`MicroShares` apart (`bellwether.units`).
"""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal, InvalidOperation, localcontext
from typing import Any

from bellwether.errors import SchemaError
from bellwether.units import MicroDollars, MicroShares, SharePrice

#: Micro-dollars in a dollar, micro-dollars that a winning share pays, and micro-shares in a share.
MICROS = 1_000_000
#: Micro-dollars in a cent.
CENT = 10_000

#: No amount, price or size that the arena meets is larger, in whole units: what is, is refused before it is made an integer.
LARGEST = Decimal(10) ** 15
_DIGITS = 80


def divided(numerator: int, denominator: int) -> int:
    """numerator / denominator, rounded half to even; the denominator is above 0."""
    quotient, rest = divmod(numerator, denominator)
    twice = 2 * rest
    return quotient + (twice > denominator or (twice == denominator and quotient & 1))


def value_of(shares: MicroShares, price: SharePrice) -> MicroDollars:
    """Micro-dollars that `shares` micro-shares are worth at `price`."""
    value: Any = divided(shares * price, MICROS)
    return value


def shares_for(amount: MicroDollars, price: SharePrice) -> MicroShares:
    """Micro-shares that `amount` micro-dollars buy at `price`, which is above 0."""
    return MicroShares(divided(amount * MICROS, price))


def middle(bid: SharePrice | None, ask: SharePrice | None) -> SharePrice | None:
    """The midpoint in micro-dollars where both sides are quoted."""
    return SharePrice(divided(bid + ask, 2)) if bid is not None and ask is not None else None


def micros(value: Decimal | str | int, what: str = "an amount") -> int:
    """Dollars or shares as millionths, rounded half to even. Raises `SchemaError` for what is no number, infinite or above `LARGEST`."""
    try:
        number = Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        raise SchemaError(f"reading {what}: {value!r:.80} is no decimal number") from None
    if not (number.is_finite() and -LARGEST <= number <= LARGEST):
        raise SchemaError(f"reading {what}: {value!s:.80} is no number from {-LARGEST:f} to {LARGEST:f}")
    with localcontext(prec=_DIGITS):
        return int((number * MICROS).to_integral_value(ROUND_HALF_EVEN))


def price_micros(value: Decimal | str | int | float | None) -> SharePrice | None:
    """A price of the wire in micro-dollars per share; None for what is no price from 0 to 1, NaN and infinities included.

    A price between 0 and 1 never becomes 0 or 1: what is closer than half a millionth to either is one millionth away from it.
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
    """Millionths as a decimal number, exactly."""
    return Decimal(amount).scaleb(-6)


def money_text(amount: MicroDollars) -> str:
    """Micro-dollars with two decimals and thousands separators, cut towards zero: an upper limit that is printed so is never above the true one."""
    return f"{dollars(amount).quantize(Decimal('0.01'), rounding=ROUND_DOWN):,}"


def percent_text(price: SharePrice) -> str:
    """A price as a percentage with all the decimals it has, one at least: 435000 is 43.5, 400 is 0.04."""
    text = f"{Decimal(price).scaleb(-4):f}".rstrip("0")
    return text + "0" if text.endswith(".") else text if "." in text else f"{text or '0'}.0"
