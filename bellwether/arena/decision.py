"""Decisions of agents: actions, why an answer cannot be used, why a leg is refused, the states of a decision, and the JSON Schema of an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bellwether.arena.units import dollars
from bellwether.units import MicroDollars


class Action(StrEnum):
    """The choice of an agent. INVALID: its answer cannot be used, with the effect of HOLD; counted apart."""

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
    """A parsed answer.

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
        """Number of trades in it."""
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


class DecisionState(StrEnum):
    """State of a decision.

    OPEN: no answer yet. IN_PROGRESS: another worker holds its lease. READ: the answer is stored, none of its legs is executed yet. FINISHED: a leg
    was executed, or there is none. BLOCKED: no call can succeed now (credit, key, budget, network). Final without a trade are REFUSED, every leg
    was refused, and FAILED, the model gave no usable response.
    """

    OPEN = "open"
    IN_PROGRESS = "in progress"
    READ = "read"
    FINISHED = "finished"
    REFUSED = "refused"
    FAILED = "failed"
    BLOCKED = "blocked"


#: States in which an answer was read and nothing more is executed.
ANSWERED = frozenset({DecisionState.FINISHED, DecisionState.REFUSED})
#: States that a further run does not change.
FINAL = ANSWERED | {DecisionState.FAILED}


def response_format() -> dict[str, Any]:
    """The parameter `response_format`: a strict schema, in which every field is required and what does not apply is null."""
    return {"type": "json_schema", "json_schema": {"name": "decision", "strict": True, "schema": schema()}}


def schema() -> dict[str, Any]:
    """The schema alone. Limits are not in it: strict providers know no bounds, and the parser checks them."""
    bet = _object(
        market_id={"type": "string", "description": "id of the market, as listed"},
        side={"type": "string", "description": "YES or NO, or the exact name of the outcome"},
        amount={"type": "number", "description": "dollars"},
        probability={"type": ["number", "null"], "description": "your probability that this side wins, from 0 to 1"},
    )
    sell = _object(
        position_id={"type": "string", "description": "id of the position, as listed"},
        percentage={"type": "number", "description": "percent of its shares, from 1 to 100"},
    )
    return _object(
        action={"type": "string", "enum": ["BET", "SELL", "HOLD"]},
        bets={"type": ["array", "null"], "items": bet, "description": "for BET, else null"},
        sells={"type": ["array", "null"], "items": sell, "description": "for SELL, else null"},
        reasoning={"type": "string", "description": "why"},
    )


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


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
