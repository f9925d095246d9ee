"""Rows of a week's tables from what its decisions stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import polars as pl

from bellwether.arena.deciding import Decided, Task
from bellwether.arena.decision_state import DecisionState
from bellwether.arena.frames import agents_frame, millionths, trades_frame, universe_frame
from bellwether.arena.frozen import FrozenCohort, FrozenUniverse
from bellwether.arena.interventions import archives, closures
from bellwether.arena.messages import said
from bellwether.arena.weekly.deciding import WeekDecided
from bellwether.arena.weekly.means import World, rules_of
from bellwether.journal import Journal
from bellwether.journal.facts import NOT_STATED
from bellwether.models.client import served_by
from bellwether.redacted import redacted
from bellwether.tables.arena import AGENTS, DECISIONS, REFUSALS, UNIVERSE
from bellwether.tables.arena_messages import MESSAGES


def universe_rows(week: date, *universes: FrozenUniverse) -> pl.DataFrame:
    """Rows of arena/universe: of one venue or of several."""
    rows = [
        universe_frame(one.universe, week, one.at, venue=one.venue, reconstructed=one.reconstructed, source=one.source) for one in universes
    ]
    return UNIVERSE.validate(pl.concat(rows).sort(UNIVERSE.order))


def agents_rows(world: World, cohort: FrozenCohort | None) -> pl.DataFrame:
    """Rows of arena/agents: those of a cohort; none when it was not started."""
    if cohort is None:
        return AGENTS.empty()
    return agents_frame(
        cohort.agents(rules_of(world, cohort)),
        cohort.members,
        cohort.week,
        cohort.started_at,
        lineup=cohort.lineup,
        reconstructed=cohort.reconstructed,
        closed=closures(world.steps),
        terms=cohort.terms,
        archived=archives(world.steps).get(cohort.week.isoformat()),
    )


def decisions_rows(world: World, done: WeekDecided) -> pl.DataFrame:
    """Rows of arena/decisions: one for each agent that decides in the week, without credentials; the journal keeps what came."""
    rows = [_decision(done, task, one) | _served(world.journal, one) for task, one in done.decisions]
    return redacted(DECISIONS.name, millionths(DECISIONS, rows, "cash", "cost"))


def _decision(done: WeekDecided, task: Task, one: Decided) -> dict[str, object]:
    plan, intent = one.plan, one.intent
    if intent is not None:
        decision, calls, cost = intent.decision, intent.calls, intent.cost
    else:
        # Without a plan nothing was asked, and nothing paid.
        decision, calls, cost = None, one.calls, one.cost if plan is not None else 0
    return {
        "week": done.week,
        "decision_id": one.decision_id,
        "agent_id": task.key.agent.agent_id,
        "place": plan.place if plan else task.place,
        "state": str(one.state),
        "action": decision and str(decision.action),
        "problem": decision and decision.problem and str(decision.problem),
        "message": decision and decision.message,
        "tolerated": decision and decision.tolerated,
        "legs": decision.legs if decision else 0,
        "decision": decision and decision.to_json(),
        "reasoning": decision and decision.reasoning,
        "cash": plan and plan.cash,
        "planned_at": plan and plan.planned_at,
        "prompt_hash": plan and plan.prompt_hash,
        "prompt_version": plan and plan.prompt_version,
        "universe_digest": plan and plan.digest,
        "attempts": len(calls),
        "call_keys": list(calls),
        "cost": cost,
        "reason": one.reason or None,
        "reconstructed": done.universes[task.methodology.venue].reconstructed,
        "methodology": task.methodology.name,
        "known_at": _known_at(done, task, one),
    }


def _served(journal: Journal, one: Decided) -> dict[str, object]:
    """Requested and served model of the decision's last call, from the journal."""
    calls = one.intent.calls if one.intent is not None else one.calls
    call = journal.status(calls[-1]) if calls and one.plan is not None else None
    if call is None or one.plan is None:
        return dict.fromkeys(("model", "served_model", "system_fingerprint", "served_by"))
    answered = journal.answer(call.key)
    served = served_by(answered.reply) if answered is not None else NOT_STATED
    model = call.model.removesuffix(f"@{one.plan.model}")
    return {"model": model, "served_model": served.model, "system_fingerprint": served.system_fingerprint, "served_by": served.by}


def _known_at(done: WeekDecided, task: Task, one: Decided) -> datetime:
    """When the decision was executed, else when its prompt was made, else as of when the week's universe is."""
    return one.execution.executed_at if one.execution else one.plan.planned_at if one.plan else done.universes[task.methodology.venue].at


def messages_rows(world: World, done: WeekDecided) -> pl.DataFrame:
    """Rows of arena/messages: what was said in the week's decisions."""
    rows = [
        {
            "week": done.week,
            "decision_id": one.decision_id,
            "number": number,
            "role": role,
            "content": content,
            "known_at": _known_at(done, task, one),
        }
        for task, one in done.decisions
        for number, role, content in said(world.journal, one.plan, one.intent)
    ]
    return MESSAGES.validate(MESSAGES.frame(rows).sort(MESSAGES.order))


def refusals_rows(done: WeekDecided) -> pl.DataFrame:
    """Rows of arena/refusals, without credentials."""
    rows: list[Mapping[str, Any]] = [
        {
            "week": done.week,
            "decision_id": one.decision_id,
            "leg": refusal.leg,
            "reason": str(refusal.reason),
            "message": refusal.message,
            "known_at": one.execution.executed_at,
        }
        for _, one in done.decisions
        if one.execution is not None
        for refusal in one.execution.refusals
    ]
    return REFUSALS.validate(redacted(REFUSALS.name, REFUSALS.frame(rows).sort(REFUSALS.order)))


def trades_rows(done: WeekDecided) -> pl.DataFrame:
    """Rows of arena/trades."""
    return trades_frame([trade for _, one in done.decisions if one.execution is not None for trade in one.execution.trades])


def counts(decisions: Sequence[tuple[Task, Decided]]) -> dict[str, int]:
    """How many decisions are in which state, and how many finished ones are INVALID."""
    found: dict[str, int] = {}
    for _, one in decisions:
        invalid = one.intent is not None and one.intent.decision.problem is not None
        word = "invalid" if invalid and one.state is DecisionState.FINISHED else str(one.state)
        found[word] = found.get(word, 0) + 1
    return found
