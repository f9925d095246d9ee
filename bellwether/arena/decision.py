"""A decision as it was read: what an agent wants to do, or why its answer cannot be used."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from bellwether.arena.units import dollars
from bellwether.units import MicroDollars


class Action(StrEnum):
    """What an agent does. INVALID: its answer cannot be used, with the effect of HOLD; counted apart."""

    BET = "BET"
    SELL = "SELL"
    HOLD = "HOLD"
    INVALID = "INVALID"


class Problem(StrEnum):
    """Why an answer cannot be used."""

    EMPTY = "empty answer"
    CUT_OFF = "cut off"
    NOT_JSON = "no JSON"
    NOT_AN_OBJECT = "no JSON object"
    SEVERAL = "several decisions"
    NO_ACTION = "no action"
    UNKNOWN_ACTION = "unknown action"
    NO_REASONING = "no reasoning"
    NO_BETS = "no bets"
    NO_SELLS = "no sells"
    NOT_A_LEG = "leg is no object"
    NO_MARKET = "no market_id"
    NO_SIDE = "no side"
    NO_POSITION = "no position_id"
    NOT_A_NUMBER = "not a number"
    BELOW_MINIMUM = "below the minimum"
    ABOVE_LIMIT = "above the limit"
    TOTAL_ABOVE_LIMIT = "total above the limit"
    TOTAL_ABOVE_CASH = "total above the cash"
    PERCENTAGE = "percentage out of range"
    PROBABILITY = "probability out of range"


@dataclass(frozen=True, slots=True)
class Bet:
    """One leg of a BET. amount: micro-dollars. probability: that this side wins, as the model stated it; None where it did not."""

    market_id: str
    side: str
    amount: MicroDollars
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Sell:
    """One leg of a SELL. percentage: of the shares held, in millionths of a percent (100,000,000 is all)."""

    position_id: str
    percentage: int


@dataclass(frozen=True, slots=True)
class Decision:
    """One answer as it was read.

    reasoning: the model's own words, untrusted. problem, message: why the answer is INVALID, and where; None otherwise. tolerated: there was more
    than the object that was asked for, such as prose around it.
    """

    action: Action
    bets: tuple[Bet, ...] = ()
    sells: tuple[Sell, ...] = ()
    reasoning: str = ""
    problem: Problem | None = None
    message: str | None = None
    tolerated: bool = False

    @property
    def legs(self) -> int:
        """How many trades it asks for."""
        return len(self.bets) + len(self.sells)

    def to_json(self) -> str:
        """The decision in the form that agents answer in; reading it again gives the same. An INVALID one has none: it gives its effect, HOLD."""
        said: dict[str, object] = {"action": Action.HOLD.value if self.action is Action.INVALID else self.action.value}
        if self.action is Action.BET:
            said["bets"] = [_bet(bet) for bet in self.bets]
        if self.action is Action.SELL:
            said["sells"] = [{"position_id": sell.position_id, "percentage": _number(sell.percentage)} for sell in self.sells]
        return json.dumps(said | {"reasoning": self.reasoning or (self.message or "")})


def invalid(problem: Problem, message: str, *, tolerated: bool = False) -> Decision:
    """An answer that cannot be used."""
    return Decision(Action.INVALID, problem=problem, message=message, tolerated=tolerated)


def _bet(bet: Bet) -> dict[str, object]:
    stated = {} if bet.probability is None else {"probability": bet.probability}
    return {"market_id": bet.market_id, "side": bet.side, "amount": _number(bet.amount), **stated}


def _number(millionths: int) -> int | float:
    number = dollars(millionths)
    return int(number) if number == int(number) else float(number)
