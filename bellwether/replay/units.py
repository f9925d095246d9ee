"""Units of the simulator. All amounts are integers, so that sums are exact.

Prices are in $0.0001 of the side that they name, sizes in lots (0.01 contract), money in micro-dollars, times in nanoseconds since 1970, UTC.
The product of a price and a size is an amount in micro-dollars: `cost`. Type checkers
distinguish `CentiCents`, `Lots` and `MicroDollars` (`bellwether.units`); compiled code and arrays use int64.
"""

from __future__ import annotations

from decimal import Decimal

from bellwether.errors import SchemaError
from bellwether.units import CentiCents, Lots, MicroDollars

#: Payout of a contract as a price: one dollar.
DOLLAR = 10_000
#: One cent as a price.
CENT = 100
#: A tenth of a cent as a price.
MILL = 10
#: Lots in a contract.
CONTRACT = 100
#: Maximum size of a level, print or fill, in lots.
MAX_LOTS = 2**31 - 1
#: Micro-dollars in a dollar.
MICROS = 1_000_000
#: Micro-dollars in a cent.
CENT_MICROS = 10_000
#: Nanoseconds in a millisecond.
MILLISECOND = 1_000_000
#: Nanoseconds in a second.
SECOND = 1_000_000_000
#: Nanoseconds in a minute.
MINUTE = 60_000_000_000

#: Side that pays if the outcome is yes.
YES = 0
#: Side that pays if the outcome is no.
NO = 1
#: Action of an order that buys contracts.
BUY = 0
#: Action of an order that sells contracts.
SELL = 1


def centicents(dollars: Decimal | str | int) -> CentiCents:
    """Convert dollars per contract to units of $0.0001. Raises `SchemaError` if the value is not a whole number of them."""
    return CentiCents(_to_units(dollars, DOLLAR, "a price", "a hundredth of a cent"))


def lots(contracts: Decimal | str | int) -> Lots:
    """Convert contracts to lots of 0.01 contract. Raises `SchemaError` if the value is not a whole number of lots."""
    return Lots(_to_units(contracts, CONTRACT, "a size", "a hundredth of a contract"))


def _to_units(value: Decimal | str | int, units: int, kind: str, unit: str) -> int:
    scaled = Decimal(value) * units
    if scaled != scaled.to_integral_value():
        raise SchemaError(f"reading {kind}: {value} is finer than {unit}")
    return int(scaled)


def cost(price: CentiCents, lots: Lots) -> MicroDollars:
    """Return the cost of lots at a price, without fees."""
    return MicroDollars(price * lots)


def dollars(micros: MicroDollars) -> Decimal:
    """Convert micro-dollars to dollars, exactly."""
    return Decimal(micros).scaleb(-6)
