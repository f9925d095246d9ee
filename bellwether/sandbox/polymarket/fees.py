"""Choice of a market's fees by its category and its creation, in the venue's three regimes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from bellwether.sandbox.polymarket.source import Object
from bellwether.sandbox.timestamps import midnight

_CRYPTO_ONLY = midnight(date(2026, 1, 1))
_SPORTS_TOO = midnight(date(2026, 3, 6))
_SCHEDULES = midnight(date(2026, 4, 1))
_SPORTS_RAISED = midnight(date(2026, 7, 1))

#: Category of the generated world -> name in the venue's fee types, and rate of the schedule.
_RATES: dict[str, tuple[str, float]] = {
    "Sports": ("sports", 0.03),
    "Crypto": ("crypto", 0.07),
    "Financials": ("finance", 0.04),
    "Companies": ("finance", 0.04),
    "Politics": ("politics", 0.04),
    "Elections": ("politics", 0.04),
    "Mentions": ("mentions", 0.04),
    "Science and Technology": ("tech", 0.04),
    "Economics": ("economics", 0.05),
    "Entertainment": ("culture", 0.05),
    "Climate and Weather": ("weather", 0.05),
    "World": ("geopolitics", 0.0),
}
_OTHERS = ("general", 0.05)

#: The base fee of markets that charge one, in basis points.
BASE_FEE = 1000


@dataclass(frozen=True, slots=True)
class MarketFees:
    """Fees of a market. type: name of the fee type; None without fees. rate, rebate: terms that the object states since April 2026."""

    type: str | None = None
    rate: float | None = None
    rebate: float = 0.25

    @property
    def base(self) -> int:
        """Base fee in basis points."""
        return BASE_FEE if self.type else 0

    def fields(self) -> Object:
        """Return the fields of a Gamma object that state the fees."""
        if self.type is None:
            return {"feesEnabled": False, "feeType": None}
        fields: Object = {"makerBaseFee": BASE_FEE, "takerBaseFee": BASE_FEE, "feesEnabled": True, "feeType": self.type}
        if self.rate is not None:
            fields["feeSchedule"] = {"rate": self.rate, "exponent": 1, "takerOnly": True, "rebateRate": self.rebate}
            fields["makerRebatesFeeShareBps"] = 10_000
        return fields


def choose_fees(category: str, created: int, recurring: bool) -> MarketFees:
    """Choose the fees of a market. category: in the generated world. created: instant of the market's creation. recurring: True for a short
    crypto market.
    """
    name, rate = _RATES.get(category, _OTHERS)
    if created >= _SPORTS_RAISED and name == "sports":
        return MarketFees("sports_fees_v2", 0.05, 0.15)
    if created >= _SCHEDULES:
        return MarketFees("crypto_fees_v2", rate, 0.2) if name == "crypto" else MarketFees(f"{name}_fees", rate) if rate else MarketFees()
    if created >= _SPORTS_TOO and name in ("crypto", "sports"):
        return MarketFees(f"{name}_fees")
    return MarketFees("crypto_15_min") if created >= _CRYPTO_ONLY and recurring else MarketFees()
