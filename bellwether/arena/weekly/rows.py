"""Rows of a week's tables from its stored decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise
from operator import itemgetter
from typing import Any

import polars as pl

from bellwether.arena.decision import DecisionState
from bellwether.arena.frames import agents_frame, frame_from_millionths, trades_frame
from bellwether.arena.records import Execution, FrozenCohort, FrozenUniverse, list_messages, load_archives, load_closures, load_records
from bellwether.arena.weekly.context import WeekContext, cohort_methodology
from bellwether.arena.weekly.decisions import DecisionOutcome, WeekDecisions, outcome_of_execution
from bellwether.arena.weekly.model_calls import Task
from bellwether.journal import Journal
from bellwether.journal.values import NOT_STATED
from bellwether.models.client import served_by
from bellwether.tables.arena import AGENTS, DECISION_VERSIONS, DECISIONS, REFUSALS, TOKENS
from bellwether.tables.arena_messages import MESSAGES
from bellwether.tables.exports import redact_rows


def agents_rows(context: WeekContext, cohort: FrozenCohort | None) -> pl.DataFrame:
    """Build rows of arena/agents of a cohort; empty without a cohort."""
    if cohort is None:
        return AGENTS.empty()
    return agents_frame(
        cohort.agents(cohort_methodology(context, cohort)),
        cohort.members,
        cohort.week,
        cohort.started_at,
        lineup=cohort.lineup,
        reconstructed=cohort.reconstructed,
        closed=load_closures(context.records),
        terms=cohort.terms,
        archived=load_archives(context.records).get(cohort.week.isoformat()),
    )


#: A row of arena/decisions or arena/decision_versions.
_State = dict[str, Any]
_TIMES = ("known_at", "changed_at", "superseded_at")


def decisions_rows(context: WeekContext, done: WeekDecisions) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build rows of arena/decisions and arena/decision_versions for all agents that decide in the week; credentials are redacted.

    A state that differs from the stored one, or belongs to a later execution, is recorded with its time; the stored one becomes a version.
    Versions missing in the lake are rebuilt from earlier executions in the journal.
    """
    stored, made = _load_states(context, done.week), _journal_states(context, done)
    current, versions = list[_State](), list[_State]()
    for task, one in done.decisions:
        executed_at = None if one.execution is None else one.execution.executed_at
        now = _record_time(context, done.universes[task.methodology.venue])
        states = _merge_states(stored.pop(one.decision_id, []), made[one.decision_id], executed_at, now)
        current.append(states[-1] | {"known_at": states[0]["changed_at"], "superseded_at": None})
        versions += _earlier_versions(states)
    for states in stored.values():  # agents closed before their prompt was made
        versions += _earlier_versions(
            [*states, {"changed_at": states[-1]["superseded_at"] or max(_record_time(context, one) for one in done.universes.values())}]
        )
    return (
        DECISIONS.validate(DECISION_VERSIONS.frame(current).select(DECISIONS.names).sort(DECISIONS.order)),
        DECISION_VERSIONS.validate(DECISION_VERSIONS.frame(versions).sort(DECISION_VERSIONS.order)),
    )


def _record_time(context: WeekContext, universe: FrozenUniverse) -> datetime:
    """Return the time at which a state is recorded; in a reconstructed week the time of its universe."""
    return universe.at if universe.reconstructed else context.now()


def _load_states(context: WeekContext, week: date) -> dict[str, list[_State]]:
    """Load the readable states of the week's decisions from the lake, by decision, current one last."""
    found: dict[str, list[_State]] = {}
    for table in (DECISION_VERSIONS, DECISIONS):
        stored = context.lake.slice(table, [(week.isoformat(),)], missing="skip")
        rows = redact_rows(table.name, stored.exclude(set(stored.damaged())).read())
        for row in rows.sort(table.order).iter_rows(named=True):
            state = {"superseded_at": None, **row, "changed_at": row["changed_at"] or row["known_at"]}
            found.setdefault(row["decision_id"], []).append(state)
    return found


def _journal_states(context: WeekContext, done: WeekDecisions) -> dict[str, list[_State]]:
    """Return the states of the week's decisions from the journal, by decision: one per execution, current one last."""
    rows = list[_State]()
    for task, one in done.decisions:
        states = dict[datetime, DecisionOutcome]()
        if one.execution is None or one.intent is None:
            states[_record_time(context, done.universes[task.methodology.venue])] = one
        else:
            for each in load_records(context.records, Execution, one.decision_id):
                states[each.executed_at] = outcome_of_execution(one.decision_id, one.plan, one.intent, each, over=False)
            states[one.execution.executed_at] = one
        served = _served_models(context.journal, one) | _count_tokens(context.journal, one)
        rows += [_decision_row(done, task, state) | served | dict.fromkeys(_TIMES, at) for at, state in states.items()]
    found: dict[str, list[_State]] = {}
    for row in redact_rows(DECISIONS.name, frame_from_millionths(DECISION_VERSIONS, rows, "cash", "cost")).iter_rows(named=True):
        found.setdefault(row["decision_id"], []).append(row)
    return found


def _merge_states(stored: list[_State], made: list[_State], executed_at: datetime | None, now: datetime) -> list[_State]:
    """Merge the states of a decision in order: stored ones, earlier executions, and the current one if it differs or belongs to a later execution.

    executed_at: of the last execution. now: time of the current state otherwise.
    """
    *earlier, current = made
    known = {state["changed_at"] for state in stored}
    states = sorted([*stored, *(state for state in earlier if state["changed_at"] not in known)], key=itemgetter("changed_at"))
    if not states or (executed_at is not None and executed_at > states[-1]["changed_at"]):
        return [*states, current]
    if _drop(current, *_TIMES, *TOKENS) == _drop(states[-1], *_TIMES, *TOKENS):
        return [*states[:-1], states[-1] | {name: current[name] for name in TOKENS}]
    return [*states, current | {"changed_at": max(now, states[-1]["changed_at"])}]


def _earlier_versions(states: Sequence[_State]) -> list[_State]:
    """Return rows of arena/decision_versions: all states but the last. States without a duration are omitted."""
    first = {"known_at": states[0]["changed_at"]}
    return [
        one | first | {"superseded_at": after["changed_at"]} for one, after in pairwise(states) if one["changed_at"] < after["changed_at"]
    ]


def _drop(state: _State, *names: str) -> _State:
    return {name: value for name, value in state.items() if name not in names}


def _decision_row(done: WeekDecisions, task: Task, one: DecisionOutcome) -> dict[str, object]:
    plan, intent = one.plan, one.intent
    if intent is not None:
        decision, calls, cost = intent.decision, intent.calls, intent.cost
    else:
        # Without a plan no request was sent and nothing was paid.
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
    }


def _served_models(journal: Journal, one: DecisionOutcome) -> dict[str, object]:
    """Return requested and served model of the decision's last call, from the journal."""
    calls = one.intent.calls if one.intent is not None else one.calls
    call = journal.status(calls[-1]) if calls and one.plan is not None else None
    if call is None or one.plan is None:
        return dict.fromkeys(("model", "served_model", "system_fingerprint", "served_by"))
    answered = journal.answer(call.key)
    served = served_by(answered.reply) if answered is not None else NOT_STATED
    model = call.model.removesuffix(f"@{one.plan.model}")
    return {"model": model, "served_model": served.model, "system_fingerprint": served.system_fingerprint, "served_by": served.by}


def _count_tokens(journal: Journal, one: DecisionOutcome) -> dict[str, int | None]:
    """Sum the tokens of all attempts of the decision's calls, from the journal; null if those of a call are unknown."""
    calls = one.intent.calls if one.intent is not None else one.calls
    used = [journal.used(key) for key in calls] if one.plan is not None else []
    totals = []
    for name in ("prompt_tokens", "completion_tokens"):
        tokens = [getattr(usage, name) if attempts else None for attempts, usage in used]
        totals.append(None if None in tokens else sum(tokens))
    return dict(zip(TOKENS, totals, strict=True))


def messages_rows(context: WeekContext, done: WeekDecisions, *states: pl.DataFrame) -> pl.DataFrame:
    """Build rows of arena/messages of the week's decisions. states: rows of arena/decisions and arena/decision_versions.

    A prompt is known with the first state that has one, an answer with the first state in which it was read.
    """
    recorded = pl.concat([rows.select("decision_id", "changed_at", "prompt_hash", "action") for rows in states]).sort("changed_at")
    asked, read = (
        dict(
            recorded.filter(pl.col(name).is_not_null())
            .unique("decision_id", keep="first", maintain_order=True)
            .select("decision_id", "changed_at")
            .iter_rows()
        )
        for name in ("prompt_hash", "action")
    )
    rows = [
        {
            "week": done.week,
            "decision_id": one.decision_id,
            "number": number,
            "role": role,
            "content": content,
            "known_at": (read if role == "assistant" else asked)[one.decision_id],
        }
        for _, one in done.decisions
        for number, role, content in list_messages(context.journal, one.plan, one.intent)
    ]
    return MESSAGES.validate(MESSAGES.frame(rows).sort(MESSAGES.order))


def refusals_rows(context: WeekContext, done: WeekDecisions) -> pl.DataFrame:
    """Build rows of arena/refusals for all executions; credentials are redacted."""
    rows: list[Mapping[str, Any]] = [
        {
            "week": done.week,
            "decision_id": one.decision_id,
            "leg": refusal.leg,
            "reason": str(refusal.reason),
            "message": refusal.message,
            "known_at": execution.executed_at,
            "superseded_at": after and after.executed_at,
        }
        for _, one in done.decisions
        if one.execution is not None
        for execution, after in pairwise([*load_records(context.records, Execution, one.decision_id), None])
        if execution is not None and (after is None or execution.executed_at < after.executed_at)
        for refusal in execution.refusals
    ]
    return REFUSALS.validate(redact_rows(REFUSALS.name, REFUSALS.frame(rows).sort(REFUSALS.order)))


def trades_rows(done: WeekDecisions) -> pl.DataFrame:
    """Build rows of arena/trades."""
    return trades_frame([trade for _, one in done.decisions if one.execution is not None for trade in one.execution.trades])


def count_states(decisions: Sequence[tuple[Task, DecisionOutcome]]) -> dict[str, int]:
    """Count decisions by state, and finished ones that are INVALID."""
    found: dict[str, int] = {}
    for _, one in decisions:
        invalid = one.intent is not None and one.intent.decision.problem is not None
        word = "invalid" if invalid and one.state is DecisionState.FINISHED else str(one.state)
        found[word] = found.get(word, 0) + 1
    return found
