"""Rows of the arena's tables from the decisions of a week.

The state of a decision changes when it is answered or executed. arena/decisions has the last state, arena/decision_versions the earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise
from operator import itemgetter
from typing import Any

import polars as pl

from bellwether.arena.decision import DecisionState
from bellwether.arena.frames import to_frame, trades_frame
from bellwether.arena.records import Execution, FrozenCohort, FrozenUniverse, InterventionKind, load_by_subject, load_records
from bellwether.arena.units import micros
from bellwether.arena.weekly.context import WeekContext, cohort_methodology
from bellwether.arena.weekly.decisions import DecisionOutcome, WeekDecisions, outcome_of_execution
from bellwether.arena.weekly.model_calls import Task
from bellwether.formatting import redact
from bellwether.journal.journal import Journal
from bellwether.journal.tables import sum_if_known
from bellwether.journal.values import NOT_STATED, Answered, CallKey
from bellwether.tables.arena import AGENTS, DECISION_VERSIONS, DECISIONS, MESSAGES, REFUSALS, TOKENS
from bellwether.tables.exports import redact_rows


def build_agents_rows(context: WeekContext, cohort: FrozenCohort | None) -> pl.DataFrame:
    """Build rows of arena/agents of a cohort; empty without a cohort."""
    if cohort is None:
        return AGENTS.empty()
    agents, closed = cohort.agents(cohort_methodology(context, cohort)), load_by_subject(context.records, InterventionKind.CLOSE)
    closures = [closed.get(agent.agent_id) for agent in agents]
    archived = load_by_subject(context.records, InterventionKind.ARCHIVE).get(cohort.week.isoformat())
    terms = [cohort.terms.get(agent.family) for agent in agents]
    return to_frame(
        AGENTS,
        agents,
        week=cohort.week,
        model=[cohort.members[agent.family] for agent in agents],
        model_id=[term and term.model_id for term in terms],
        input_price=[term and micros(term.input_price) for term in terms],
        output_price=[term and micros(term.output_price) for term in terms],
        lineup=cohort.lineup,
        closed_at=[closure and closure.at for closure in closures],
        closed_by=[closure and closure.author for closure in closures],
        archived_at=archived and archived.at,
        archived_by=archived and archived.author,
        reconstructed=cohort.reconstructed,
        known_at=cohort.started_at,
    )


#: Content of an answer that is not in the journal.
MISSING = "(not in this journal)"
#: A row of arena/decisions or arena/decision_versions.
_State = dict[str, Any]
_TIMES = ("known_at", "changed_at", "superseded_at")


def build_decisions_rows(context: WeekContext, decided: WeekDecisions) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build rows of arena/decisions and arena/decision_versions for all agents that decide in the week; credentials are redacted.

    A state that differs from the stored one, or belongs to a later execution, is added with its time; the stored one becomes a version.
    Versions missing in the lake are rebuilt from earlier executions in the journal.
    """
    stored, journaled = _load_states(context, decided.week), _journal_states(context, decided)
    current, versions = list[_State](), list[_State]()
    for task, outcome in decided.decisions:
        executed_at = None if outcome.execution is None else outcome.execution.executed_at
        now = _record_time(context, decided.universes[task.methodology.venue])
        states = _merge_states(stored.pop(outcome.decision_id, []), journaled[outcome.decision_id], executed_at, now)
        current.append(states[-1] | {"known_at": states[0]["changed_at"], "superseded_at": None})
        versions += _earlier_versions(states)
    for states in stored.values():  # agents closed before their prompt was made
        versions += _earlier_versions(
            [
                *states,
                {
                    "changed_at": states[-1]["superseded_at"]
                    or max(_record_time(context, outcome) for outcome in decided.universes.values())
                },
            ]
        )
    return (
        DECISIONS.validate(DECISION_VERSIONS.frame(current).select(DECISIONS.names).sort(DECISIONS.order)),
        DECISION_VERSIONS.validate(DECISION_VERSIONS.frame(versions).sort(DECISION_VERSIONS.order)),
    )


def _record_time(context: WeekContext, universe: FrozenUniverse) -> datetime:
    """Return the time to record for a new state: now, or the time of the universe in a reconstructed week."""
    return universe.at if universe.reconstructed else context.now()


def _load_states(context: WeekContext, week: date) -> dict[str, list[_State]]:
    """Load the states of the week's decisions from undamaged rows of the lake, by decision, in order of time."""
    states_by_decision: dict[str, list[_State]] = {}
    for table in (DECISION_VERSIONS, DECISIONS):
        stored = context.lake.slice(table, [(week.isoformat(),)], missing="skip")
        rows = redact_rows(table.name, stored.exclude(set(stored.damaged())).read())
        for row in rows.sort(table.order).iter_rows(named=True):
            states_by_decision.setdefault(row["decision_id"], []).append({"superseded_at": None, **row})
    return states_by_decision


def _journal_states(context: WeekContext, decided: WeekDecisions) -> dict[str, list[_State]]:
    """Build the states of the week's decisions from the journal, by decision, in order of time: one per execution."""
    rows = list[_State]()
    for task, outcome in decided.decisions:
        states = dict[datetime, DecisionOutcome]()
        if outcome.execution is None or outcome.intent is None:
            states[_record_time(context, decided.universes[task.methodology.venue])] = outcome
        else:
            for execution in load_records(context.records, Execution, outcome.decision_id):
                states[execution.executed_at] = outcome_of_execution(
                    outcome.decision_id, outcome.plan, outcome.intent, execution, over=False
                )
            states[outcome.execution.executed_at] = outcome
        served = _served_models(context.journal, outcome) | _count_tokens(context.journal, outcome)
        rows += [_decision_row(decided, task, state) | served | dict.fromkeys(_TIMES, at) for at, state in states.items()]
    states_by_decision: dict[str, list[_State]] = {}
    for row in redact_rows(DECISIONS.name, to_frame(DECISION_VERSIONS, rows)).iter_rows(named=True):
        states_by_decision.setdefault(row["decision_id"], []).append(row)
    return states_by_decision


def _merge_states(stored: list[_State], journaled: list[_State], executed_at: datetime | None, now: datetime) -> list[_State]:
    """Merge the states of a decision from the lake (stored) and the journal (journaled) by time. The journal's last state is added if it differs
    from the lake's or belongs to a later execution.

    executed_at: time of the last execution. now: time of a current state without a new execution.
    """
    *earlier, current = journaled
    stored_times = {state["changed_at"] for state in stored}
    states = sorted([*stored, *(state for state in earlier if state["changed_at"] not in stored_times)], key=itemgetter("changed_at"))
    if not states or (executed_at is not None and executed_at > states[-1]["changed_at"]):
        return [*states, current]
    if _drop_times(current) == _drop_times(states[-1]):
        return states
    return [*states, current | {"changed_at": max(now, states[-1]["changed_at"])}]


def _earlier_versions(states: Sequence[_State]) -> list[_State]:
    """Return all states but the last as rows of arena/decision_versions. States that lasted no time are omitted."""
    first = {"known_at": states[0]["changed_at"]}
    return [
        state | first | {"superseded_at": following["changed_at"]}
        for state, following in pairwise(states)
        if state["changed_at"] < following["changed_at"]
    ]


def _drop_times(state: _State) -> _State:
    return {name: value for name, value in state.items() if name not in _TIMES}


def _decision_row(decided: WeekDecisions, task: Task, outcome: DecisionOutcome) -> dict[str, object]:
    plan, intent = outcome.plan, outcome.intent
    if intent is not None:
        decision, cost = intent.decision, intent.cost
    else:
        # Without a plan no request was sent and nothing was paid.
        decision, cost = None, outcome.cost if plan is not None else 0
    return {
        "week": decided.week,
        "decision_id": outcome.decision_id,
        "agent_id": task.key.agent.agent_id,
        "place": plan.place if plan else task.place,
        "state": outcome.state,
        "action": decision and decision.action,
        "problem": decision and decision.problem,
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
        "attempts": len(outcome.call_keys),
        "call_keys": list(outcome.call_keys),
        "cost": cost,
        "reason": outcome.reason or None,
        "reconstructed": decided.universes[task.methodology.venue].reconstructed,
        "methodology": task.methodology.name,
    }


def _served_models(journal: Journal, outcome: DecisionOutcome) -> dict[str, object]:
    """Return the requested and the served model of a decision's last call, as columns."""
    calls = outcome.call_keys
    call = journal.status(calls[-1]) if calls and outcome.plan is not None else None
    if call is None or outcome.plan is None:
        return dict.fromkeys(("model", "served_model", "system_fingerprint", "served_by"))
    answer = journal.answer(call.key)
    served = answer.reply.served if answer is not None else NOT_STATED
    model = call.model.removesuffix(f"@{outcome.plan.model}")
    return {"model": model, "served_model": served.model, "system_fingerprint": served.system_fingerprint, "served_by": served.by}


def _count_tokens(journal: Journal, outcome: DecisionOutcome) -> dict[str, int | None]:
    """Sum the tokens of all attempts of a decision's calls; None if the tokens of a call are unknown."""
    usages = [usage for _, usage in map(journal.used, outcome.call_keys)]
    counts = ([usage.prompt_tokens for usage in usages], [usage.completion_tokens for usage in usages])
    return dict(zip(TOKENS, map(sum_if_known, counts), strict=True))


def build_messages_rows(context: WeekContext, decided: WeekDecisions, *states: pl.DataFrame) -> pl.DataFrame:
    """Build rows of arena/messages of the week's decisions. states: rows of arena/decisions and arena/decision_versions.

    A prompt is known at the time of the first state with a prompt, an answer at the time of the first state with an action.
    """
    recorded = pl.concat([rows.select("decision_id", "changed_at", "prompt_hash", "action") for rows in states]).sort("changed_at")
    prompted, read = (
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
            "week": decided.week,
            "decision_id": outcome.decision_id,
            "number": number,
            "role": role,
            "content": content,
            "known_at": (read if role == "assistant" else prompted)[outcome.decision_id],
        }
        for _, outcome in decided.decisions
        for number, (role, content) in enumerate(_list_messages(context.journal, outcome), start=1)
    ]
    return to_frame(MESSAGES, rows)


def _list_messages(journal: Journal, outcome: DecisionOutcome) -> Iterator[tuple[str, str]]:
    """Yield (role, text) of each message of a decision, with credentials removed: the prompt, then one answer per call.

    Retry requests, which repeat the prompt, are omitted.
    """
    for message in outcome.plan.messages if outcome.plan else ():
        yield message["role"], redact(message["content"])
    for call in outcome.intent.calls if outcome.intent else ():
        answer = journal.look(CallKey(call))
        yield "assistant", redact(answer.content) if isinstance(answer, Answered) else MISSING


def build_refusals_rows(context: WeekContext, decided: WeekDecisions) -> pl.DataFrame:
    """Build rows of arena/refusals for all executions of the week's decisions; credentials are redacted."""
    rows: list[Mapping[str, Any]] = [
        {
            "week": decided.week,
            "decision_id": outcome.decision_id,
            "leg": refusal.leg,
            "reason": refusal.reason,
            "message": refusal.message,
            "known_at": execution.executed_at,
            "superseded_at": following and following.executed_at,
        }
        for _, outcome in decided.decisions
        if outcome.execution is not None
        for execution, following in pairwise([*load_records(context.records, Execution, outcome.decision_id), None])
        if execution is not None and (following is None or execution.executed_at < following.executed_at)
        for refusal in execution.refusals
    ]
    return redact_rows(REFUSALS.name, to_frame(REFUSALS, rows))


def build_trades_rows(decided: WeekDecisions) -> pl.DataFrame:
    """Build rows of arena/trades for the week's decisions."""
    return trades_frame([trade for _, outcome in decided.decisions if outcome.execution is not None for trade in outcome.execution.trades])


def count_states(decisions: Sequence[tuple[Task, DecisionOutcome]]) -> dict[str, int]:
    """Count decisions by state; finished decisions that are INVALID count as "invalid"."""
    counts: dict[str, int] = {}
    for _, outcome in decisions:
        invalid = outcome.intent is not None and outcome.intent.decision.problem is not None
        label = "invalid" if invalid and outcome.state is DecisionState.FINISHED else str(outcome.state)
        counts[label] = counts.get(label, 0) + 1
    return counts
