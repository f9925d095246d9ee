"""Amounts that type checkers keep apart. Each is an `int` of its unit when it runs; arithmetic gives a plain `int`, which says its unit anew.

Mills, lots and micro-dollars are the units of a replay (`bellwether.replay.units`), micro-dollars, micro-shares and prices of a share those of the
arena (`bellwether.arena.units`).
"""

from __future__ import annotations

import math
from typing import NewType, overload

#: A price of a contract in tenths of a cent, of the side it is quoted for.
Mills = NewType("Mills", int)
#: A number of contracts in hundredths of one.
Lots = NewType("Lots", int)
#: An amount of money in millionths of a dollar.
MicroDollars = NewType("MicroDollars", int)
#: A number of shares in millionths of one.
MicroShares = NewType("MicroShares", int)
#: A price of a share in millionths of a dollar.
SharePrice = NewType("SharePrice", int)


@overload
def rounded_down(share: float) -> float: ...
@overload
def rounded_down(share: None) -> None: ...
def rounded_down(share: float | None) -> float | None:
    """A share in whole tenths of a percent, rounded down, so that it never appears to reach a minimum that it misses; None and NaN unchanged."""
    return share if share is None or math.isnan(share) else math.floor(round(share * 1000, 6)) / 1000


def rounded_up(share: float | None) -> float | None:
    """A share in whole tenths of a percent, rounded up, so that it never appears to respect a maximum that it exceeds; None and NaN unchanged."""
    return None if share is None else -rounded_down(-share)


def floor_percent(share: float) -> str:
    """A share that is compared with a minimum, in percent: 269 of 300 is "89.6%", nine of ten is "90%"."""
    return f"{100 * rounded_down(share):.1f}".removesuffix(".0") + "%"
