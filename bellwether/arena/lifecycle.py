"""Life cycle of cohorts (the agents that start in one week): start, deadlines of decisions, and completion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta

import polars as pl

from bellwether.arena.decision import ANSWERED, DecisionState
from bellwether.arena.identity import WEEK, week_of, week_start
from bellwether.arena.methodology import Methodology

#: Time after Sunday 00:00 UTC in which a scheduled run may start a cohort; later only an operator can.
START_WINDOW = timedelta(hours=1)


def is_start_allowed(now: datetime) -> bool:
    """Return whether a scheduled run may start the cohort of the current week: in the first hour of Sunday."""
    return timedelta(0) <= now - week_start(week_of(now)) < START_WINDOW


def window_end(cohort: date, methodology: Methodology) -> datetime:
    """Return the deadline of the last week in which a cohort decides."""
    return decision_deadline(cohort + (methodology.decision_cohorts - 1) * WEEK, methodology)


def decision_deadline(week: date | datetime, methodology: Methodology) -> datetime:
    """Return the deadline of a week's decisions. week: its Sunday, or the instant at which it starts."""
    start = week if isinstance(week, datetime) else week_start(week)
    return start + timedelta(hours=methodology.deadline_hours)


def is_complete(
    cohort: date,
    methodology: Methodology,
    now: datetime,
    *,
    decisions: Mapping[str, Iterable[DecisionState]],
    open_positions: int,
    closed_by_operator: Iterable[str] = (),
) -> bool:
    """Return whether a cohort is complete: all deadlines have passed, each agent has decided or was closed by an operator, and no position is
    open.

    An agent decided if one of its decisions was executed or refused. decisions: states of every agent's decisions, agents without one included.
    Hence an outage of a provider does not complete a cohort.
    """
    closed = set(closed_by_operator)
    answered = all(agent in closed or ANSWERED & set(states) for agent, states in decisions.items())
    return bool(now >= window_end(cohort, methodology) and decisions and answered and open_positions == 0)


def find_complete_cohorts(
    agents: pl.DataFrame, decisions: pl.DataFrame, open_positions: Mapping[str, int], rules: Mapping[str, Methodology], now: datetime
) -> set[date]:
    """Return the complete cohorts (their Sundays), from rows of arena/agents and arena/decisions.

    open_positions: number of open positions by agent id.
    """
    states: dict[str, set[DecisionState]] = defaultdict(set)
    for name, state in decisions.select("agent_id", "state").iter_rows():
        states[name].add(DecisionState(state))
    complete = set()
    for (week, methodology), rows in agents.group_by("week", "methodology"):
        names = rows["agent_id"].to_list()
        if is_complete(
            week,
            rules[methodology],
            now,
            decisions={name: states[name] for name in names},
            open_positions=sum(open_positions.get(name, 0) for name in names),
            closed_by_operator=rows.filter(pl.col("closed_at").is_not_null())["agent_id"],
        ):
            complete.add(week)
    return complete
