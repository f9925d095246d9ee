"""Where the one decision of an agent in a week stands, and what a run has to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bellwether.arena.decision import Action


class DecisionState(StrEnum):
    """OPEN: nobody is at it. IN_PROGRESS: a worker holds its lease. READ: the answer was read and stored, and is not executed yet. FINISHED: executed,
    or nothing to execute. FAILED: the model gave no answer that counts, for good. BLOCKED: no call can succeed now (credit, key, budget, network)."""

    OPEN = "open"
    IN_PROGRESS = "in progress"
    READ = "read"
    FINISHED = "finished"
    FAILED = "failed"
    BLOCKED = "blocked"


class Step(StrEnum):
    """What a run does next. ASK: call the model. EXECUTE: execute what is stored, without a call. SKIP: nothing."""

    ASK = "ask"
    EXECUTE = "execute"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Stored:
    """A decision as it is stored. lease_until: of an IN_PROGRESS one. trades: how many it has. failed_legs: an execution left legs without a trade."""

    state: DecisionState
    lease_until: datetime | None = None
    action: Action | None = None
    trades: int = 0
    failed_legs: int = 0


@dataclass(frozen=True, slots=True)
class Next:
    """What to do and why; `problem` is to be reported again when nothing is done."""

    step: Step
    reason: str
    problem: bool = False


def next_step(stored: Stored | None, now: datetime, *, deadline: datetime, bankrupt: bool = False) -> Next:
    """What a run does about a decision. stored: None when there is none yet. deadline: after which no model is asked any more.

    A decision with a trade is never asked for again, whatever its state; what was read is executed before anything is asked.
    """
    if stored is not None and stored.state is DecisionState.READ:
        return Next(Step.EXECUTE, "read and not executed")
    if bankrupt:
        return Next(Step.SKIP, "bankrupt")
    if stored is None:
        return _ask(now, deadline, "new")
    if stored.state is DecisionState.FINISHED:
        return _finished(stored)
    if stored.trades:
        return Next(Step.SKIP, f"{stored.state} with {stored.trades} trades", problem=True)
    return _again(stored, now, deadline)


def _again(stored: Stored, now: datetime, deadline: datetime) -> Next:
    if stored.state is not DecisionState.IN_PROGRESS:
        return _ask(now, deadline, str(stored.state))
    held = stored.lease_until is not None and stored.lease_until > now
    return Next(Step.SKIP, "in progress") if held else _ask(now, deadline, "stale")


def _finished(stored: Stored) -> Next:
    if stored.action in (Action.BET, Action.SELL) and not stored.trades:
        return Next(Step.EXECUTE, "no trades", problem=True)
    if stored.failed_legs:
        return Next(Step.SKIP, f"{stored.failed_legs} legs have no trade", problem=True)
    return Next(Step.SKIP, "finished")


def _ask(now: datetime, deadline: datetime, reason: str) -> Next:
    return Next(Step.ASK, reason) if now < deadline else Next(Step.SKIP, "past the deadline", problem=True)
