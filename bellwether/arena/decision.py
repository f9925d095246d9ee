"""Decisions of agents: actions, legs (single bets or sales), states, problems of unusable answers, reasons for refused legs, and the JSON Schema
of answers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bellwether.arena.units import dollars
from bellwether.units import MicroDollars


class Action(StrEnum):
    """Action that a decision takes. INVALID: the model's answer was unusable; nothing is traded, as with HOLD, but the decision is counted
    separately.
    """

    BET = "BET"
    SELL = "SELL"
    HOLD = "HOLD"
    INVALID = "INVALID"


class Problem(StrEnum):
    """Reason why an answer is unusable."""

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
    """One bet of a decision with the action BET. amount: micro-dollars. probability: the model's probability that this side wins; None if not
    stated.
    """

    market_id: str
    side: str
    amount: MicroDollars
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Sell:
    """One sale of a decision with the action SELL. percentage: part of the held shares to sell, in millionths of a percent (100,000,000 is all)."""

    position_id: str
    percentage: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision of an agent for one week, parsed from an answer.

    reasoning: text of the model, untrusted. problem, message: why and where the answer is INVALID; None otherwise. tolerated: the answer
    contained more than the requested object, such as prose around it.
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
        """Number of bets or sales that the decision requests."""
        return len(self.bets) + len(self.sells)

    def to_json(self) -> str:
        """Return an answer (JSON text) from which the parser makes an equal decision. An INVALID decision becomes HOLD."""
        answer: dict[str, object] = {"action": Action.HOLD.value if self.action is Action.INVALID else self.action.value}
        if self.action is Action.BET:
            answer["bets"] = [
                {"market_id": bet.market_id, "side": bet.side, "amount": _json_number(bet.amount)}
                | ({} if bet.probability is None else {"probability": bet.probability})
                for bet in self.bets
            ]
        if self.action is Action.SELL:
            answer["sells"] = [{"position_id": sell.position_id, "percentage": _json_number(sell.percentage)} for sell in self.sells]
        return json.dumps(answer | {"reasoning": self.reasoning or (self.message or "")})


def invalid_decision(problem: Problem, message: str, *, tolerated: bool = False) -> Decision:
    """Build the INVALID decision of an unusable answer. message: what is wrong and where. tolerated: the answer contained more than the requested
    object.
    """
    return Decision(Action.INVALID, problem=problem, message=message, tolerated=tolerated)


def _json_number(millionths: int) -> int | float:
    number = dollars(millionths)
    return int(number) if number == int(number) else float(number)


class DecisionState(StrEnum):
    """State of a decision: how far it has got between OPEN and one of the final states FINISHED, REFUSED and FAILED.

    OPEN: no answer yet. READ: the answer is stored, no leg is executed yet. FINISHED: a leg was
    executed, or the decision has no legs. BLOCKED: no call can succeed now (credit, key, budget, network). Final without a trade: REFUSED
    (every leg was refused) and FAILED (the model gave no usable response).
    """

    OPEN = "open"
    READ = "read"
    FINISHED = "finished"
    REFUSED = "refused"
    FAILED = "failed"
    BLOCKED = "blocked"


#: States with a parsed answer and a complete execution.
ANSWERED = frozenset({DecisionState.FINISHED, DecisionState.REFUSED})
#: States that no later run changes.
FINAL = ANSWERED | {DecisionState.FAILED}


def response_format() -> dict[str, Any]:
    """Return `response_format` of a model call: a strict schema in which all fields are required and unused ones are null."""
    return {"type": "json_schema", "json_schema": {"name": "decision", "strict": True, "schema": answer_schema()}}


def answer_schema() -> dict[str, Any]:
    """Return the JSON Schema of an answer. Minimum and maximum amounts are left to the parser, because strict providers refuse schemas with
    limits.
    """
    bet = _object_schema(
        market_id={"type": "string", "description": "id of the market, as listed"},
        side={"type": "string", "description": "YES or NO, or the exact name of the outcome"},
        amount={"type": "number", "description": "dollars"},
        probability={"type": ["number", "null"], "description": "your probability that this side wins, from 0 to 1"},
    )
    sell = _object_schema(
        position_id={"type": "string", "description": "id of the position, as listed"},
        percentage={"type": "number", "description": "percent of its shares, from 1 to 100"},
    )
    return _object_schema(
        action={"type": "string", "enum": ["BET", "SELL", "HOLD"]},
        bets={"type": ["array", "null"], "items": bet, "description": "for BET, else null"},
        sells={"type": ["array", "null"], "items": sell, "description": "for SELL, else null"},
        reasoning={"type": "string", "description": "why"},
    )


def _object_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


class Reason(StrEnum):
    """Why a leg (one bet or sale) was refused. In this order: reasons for bets and sales, for sales only, and those that follow from the fill."""

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
    NO_MIDPOINT = "no midpoint"
    PRICE = "price not usable"
    OFF_TICK = "price between two ticks"
    TOO_SMALL = "below the smallest order"
    DEPTH = "not enough in the book"
    FEE_ABOVE_CASH = "fee above the cash"
    FEES = "fee terms unknown"
    BATCH = "another leg was refused"


#: Reasons that concern limits and cash. If the methodology limits the decision as a whole, they refuse all of its bets.
LIMITS = frozenset(
    (
        *(Reason.BANKRUPT, Reason.TOTAL_ABOVE_LIMIT, Reason.TOTAL_ABOVE_CASH),
        *(Reason.NOT_POSITIVE, Reason.ABOVE_LIMIT, Reason.ABOVE_CASH, Reason.FEE_ABOVE_CASH),
    )
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused leg of a decision. leg: number of the bet or sale, from 1. message: the reason with names and values."""

    leg: int
    reason: Reason
    message: str


class LegRefused(Exception):
    """Refusal of a leg while it is executed. reason, message: as in `Refusal`."""

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason, self.message = reason, message
