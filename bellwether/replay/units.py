"""Units of the simulator: integers everywhere, so that no sum is rounded.

A price is an integer of $0.0001 of the side it is quoted for, a size a number of lots (a hundredth of a contract), money a number of micro-dollars, and
time nanoseconds since 1970, UTC. The product of a price and a size is an amount in micro-dollars: `cost`. Type checkers keep `CentiCents`, `Lots` and
`MicroDollars` apart (`bellwether.units`); compiled code and arrays have int64.
"""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any

from bellwether.errors import SchemaError
from bellwether.units import CentiCents, Lots, MicroDollars

#: Price that a contract pays: one dollar.
DOLLAR = 10_000
#: One cent as a price.
CENT = 100
#: A tenth of a cent as a price, the unit of agents before `api = 3`.
MILL = 10
#: Lots in a contract.
CONTRACT = 100
#: The largest size of a level, print or fill, in lots.
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

#: The side that pays when the answer is yes.
YES = 0
#: The side that pays when the answer is no.
NO = 1
#: The action of an order that takes contracts.
BUY = 0
#: The action of an order that gives contracts.
SELL = 1


def centicents(dollars: Decimal | str | int) -> CentiCents:
    """Convert dollars per contract to a price. Raises `SchemaError` for a value finer than $0.0001; nothing is rounded."""
    return CentiCents(_whole(dollars, DOLLAR, "a price", "a hundredth of a cent"))


def lots(contracts: Decimal | str | int) -> Lots:
    """Convert contracts to lots. Raises `SchemaError` for what is finer than a hundredth; nothing is rounded."""
    return Lots(_whole(contracts, CONTRACT, "a size", "a hundredth of a contract"))


def _whole(value: Decimal | str | int, units: int, what: str, unit: str) -> int:
    scaled = Decimal(value) * units
    if scaled != scaled.to_integral_value():
        raise SchemaError(f"reading {what}: {value} is finer than {unit}")
    return int(scaled)


def cost(price: CentiCents, lots: Lots) -> MicroDollars:
    """Cost of lots at a price, without fees."""
    return MicroDollars(price * lots)


def dollars(micros: MicroDollars) -> Decimal:
    """Micro-dollars in dollars, exactly."""
    return Decimal(micros).scaleb(-6)


def __getattr__(name: str) -> Any:
    if name == "Mills":
        warnings.warn("Mills is deprecated until 0.4: prices are CentiCents, integers of $0.0001", DeprecationWarning, stacklevel=2)
        return CentiCents
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
