"""Why a leg of a decision is not executed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Reasons in the order in which they are looked for: first those of bets, then those that only sells have, then those of a fill."""

    AGENT_UNKNOWN = "agent unknown"
    BANKRUPT = "bankrupt"
    TOTAL_ABOVE_LIMIT = "total above the limit"
    TOTAL_ABOVE_CASH = "total above the cash"
    MARKET_UNKNOWN = "market unknown"
    MARKET_NOT_ACTIVE = "market not active"
    NOT_POSITIVE = "amount not positive"
    ABOVE_LIMIT = "above the limit"
    ABOVE_CASH = "above the cash"
    SIDE = "no such side"
    POSITION_UNKNOWN = "position unknown"
    NOT_OWNER = "position of another agent"
    NOT_OPEN = "position not open"
    PERCENTAGE = "percentage out of range"
    NO_SHARES = "nothing to sell"
    NO_PRICE = "no price"
    PRICE = "price not usable"
    OFF_TICK = "price between two ticks"
    TOO_SMALL = "below the smallest order"
    DEPTH = "not enough in the book"
    FEE_ABOVE_CASH = "fee above the cash"
    FEES = "fee terms unknown"
    BATCH = "another leg was refused"


#: Reasons that concern the limits and the cash of a decision; where the methodology limits the decision as a whole they refuse all of its bets.
LIMITS = frozenset(
    {
        Reason.BANKRUPT,
        Reason.TOTAL_ABOVE_LIMIT,
        Reason.TOTAL_ABOVE_CASH,
        Reason.NOT_POSITIVE,
        Reason.ABOVE_LIMIT,
        Reason.ABOVE_CASH,
        Reason.FEE_ABOVE_CASH,
    }
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A leg that was not executed. leg: from 1. message: what was found, with names and values."""

    leg: int
    reason: Reason
    message: str
