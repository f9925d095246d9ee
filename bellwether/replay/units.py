"""Units of the simulator: integers everywhere, so that no sum is rounded.

A price is a number of mills (a tenth of a cent) of the side it is quoted for, a size a number of lots (a hundredth of a contract), money a number
of micro-dollars, and time nanoseconds since 1970, UTC. A mill times a lot is ten micro-dollars: `cost`. Type checkers keep `Mills`, `Lots` and
`MicroDollars` apart (`bellwether.units`); compiled code and arrays have int64.
"""

from __future__ import annotations

from decimal import Decimal

from bellwether.errors import SchemaError
from bellwether.units import Lots, MicroDollars, Mills

#: Mills that a contract pays.
DOLLAR = 1000
#: Mills in a cent.
CENT = 10
#: Lots in a contract.
CONTRACT = 100
#: Micro-dollars in a dollar.
MICROS = 1_000_000
#: Micro-dollars in a cent.
CENT_MICROS = 10_000
#: Micro-dollars in the product of a mill and a lot.
MILL_LOT = 10
#: Nanoseconds in a millisecond.
MILLISECOND = 1_000_000
#: Nanoseconds in a second.
SECOND = 1_000_000_000
#: Nanoseconds in a minute.
MINUTE = 60_000_000_000

#: The side that pays when the answer is yes.
YES = 0
#: The side that pays when the answer is no.
NO = 1
#: The action of an order that takes contracts.
BUY = 0
#: The action of an order that gives contracts.
SELL = 1


def mills(dollars: Decimal | str | int) -> Mills:
    """Dollars per contract in mills. Raises `SchemaError` for what is finer than a mill; nothing is rounded."""
    return Mills(_whole(dollars, DOLLAR, "a price", "a tenth of a cent"))


def lots(contracts: Decimal | str | int) -> Lots:
    """Contracts in lots. Raises `SchemaError` for what is finer than a hundredth; nothing is rounded."""
    return Lots(_whole(contracts, CONTRACT, "a size", "a hundredth of a contract"))


def _whole(value: Decimal | str | int, units: int, what: str, unit: str) -> int:
    scaled = Decimal(value) * units
    if scaled != scaled.to_integral_value():
        raise SchemaError(f"reading {what}: {value} is finer than {unit}")
    return int(scaled)


def cost(price: Mills, lots: Lots) -> MicroDollars:
    """Cost of lots at a price, without fees."""
    return MicroDollars(MILL_LOT * price * lots)


def dollars(micros: MicroDollars) -> Decimal:
    """Micro-dollars in dollars, exactly."""
    return Decimal(micros).scaleb(-6)
