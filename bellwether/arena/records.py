"""What the records of a decision store, as JSON: the prompt, the decision as it was read, and what came of its execution."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from bellwether.arena.decision import Action, Bet, Decision, Problem, Sell
from bellwether.arena.facts import Trade
from bellwether.arena.refusals import Reason, Refusal
from bellwether.forecasting.prompt import Message
from bellwether.units import MicroDollars


@dataclass(frozen=True)
class Plan:
    """What an agent is asked: fixed before the first call, so that every later run asks the same.

    cash: micro-dollars before the decision. place: in the order of its cohort, from 1. digest: of the universe.
    """

    model: str
    messages: Sequence[Message]
    cash: MicroDollars
    place: int
    prompt_hash: str
    prompt_version: str
    digest: str
    planned_at: datetime


@dataclass(frozen=True)
class Intent:
    """A decision as it was read, and the calls that brought it, in order. cost: micro-dollars of all attempts; None when a part is not known."""

    decision: Decision
    calls: tuple[str, ...]
    cost: int | None


@dataclass(frozen=True)
class Execution:
    """What came of executing a decision once."""

    trades: tuple[Trade, ...]
    refusals: tuple[Refusal, ...]
    executed_at: datetime


Record = Plan | Intent | Execution


def encoded(record: Record) -> bytes:
    """A record as JSON in UTF-8; the same record gives the same bytes."""
    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    if isinstance(record, Intent):
        fields["decision"] = asdict(record.decision)
    if isinstance(record, Execution):
        fields["trades"] = [trade._asdict() for trade in record.trades]
        fields["refusals"] = [asdict(refusal) for refusal in record.refusals]
    return json.dumps(fields, default=_plain, sort_keys=True, separators=(",", ":")).encode()


def plan_of(body: bytes) -> Plan:
    """The plan that a record holds."""
    said = json.loads(body)
    return Plan(**{**said, "planned_at": datetime.fromisoformat(said["planned_at"])})


def intent_of(body: bytes) -> Intent:
    """The intent that a record holds."""
    said = json.loads(body)
    return Intent(_decision(said["decision"]), tuple(said["calls"]), said["cost"])


def execution_of(body: bytes) -> Execution:
    """The execution that a record holds."""
    said = json.loads(body)
    refusals = tuple(Refusal(one["leg"], Reason(one["reason"]), one["message"]) for one in said["refusals"])
    return Execution(tuple(map(_trade, said["trades"])), refusals, datetime.fromisoformat(said["executed_at"]))


def _decision(said: Mapping[str, Any]) -> Decision:
    return Decision(
        action=Action(said["action"]),
        bets=tuple(Bet(**bet) for bet in said["bets"]),
        sells=tuple(Sell(**sell) for sell in said["sells"]),
        reasoning=said["reasoning"],
        problem=None if said["problem"] is None else Problem(said["problem"]),
        message=said["message"],
        tolerated=said["tolerated"],
    )


def _trade(said: Mapping[str, Any]) -> Trade:
    times = {name: datetime.fromisoformat(said[name]) for name in ("executed_at", "quoted_at") if said[name] is not None}
    return Trade(**{**said, **times})


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a record holds a {type(value).__name__}, which JSON does not have")
