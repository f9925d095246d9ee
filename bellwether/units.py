"""Types for integer amounts, which type checkers tell apart. At run time they are plain `int`, and so is every result of arithmetic.

Prices in $0.0001, lots and micro-dollars are the units of a replay (`bellwether.replay.units`); micro-dollars, micro-shares and prices of a share those
of the arena (`bellwether.arena.units`).
"""

from __future__ import annotations

from typing import NewType

#: A price of a contract in hundredths of a cent ($0.0001), of the side it is quoted for.
CentiCents = NewType("CentiCents", int)
#: A number of contracts in hundredths of one.
Lots = NewType("Lots", int)
#: An amount of money in millionths of a dollar.
MicroDollars = NewType("MicroDollars", int)
#: A number of shares in millionths of one.
MicroShares = NewType("MicroShares", int)
#: A price of a share in millionths of a dollar.
SharePrice = NewType("SharePrice", int)
