"""Lifecycle of cohorts: when one starts, until when it decides, and when it is complete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta

import polars as pl

from bellwether.arena.decision import ANSWERED, DecisionState
from bellwether.arena.identity import WEEK, start_of, week_of
from bellwether.arena.methodology import Methodology

#: A cohort may be started by a tick until so long after Sunday 00:00 UTC; later only an operator starts it.
START_WINDOW = timedelta(hours=1)


def may_start(now: datetime) -> bool:
    """Return whether a tick may start the cohort of the week of `now`: in the first hour of Sunday."""
    return timedelta(0) <= now - start_of(week_of(now)) < START_WINDOW


def window_ends(cohort: date, methodology: Methodology) -> datetime:
    """End of the last week in which a cohort decides, its deadline included."""
    return decisions_due(cohort + (methodology.decision_cohorts - 1) * WEEK, methodology)


def decisions_due(week: date | datetime, methodology: Methodology) -> datetime:
    """Deadline of the decisions of a week (its Sunday, or its start)."""
    start = week if isinstance(week, datetime) else start_of(week)
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
    """Return whether a cohort is complete: its decisions are over, each agent has an executed or refused one or was closed by an operator, and no position is open.

    decisions: the states of every agent's decisions, agents without one included. A provider's outage, a week of HOLD or agents without positions
    therefore complete nothing.
    """
    closed = set(closed_by_operator)
    answered = all(agent in closed or ANSWERED & set(states) for agent, states in decisions.items())
    return bool(now >= window_ends(cohort, methodology) and decisions and answered and open_positions == 0)


def completed(
    agents: pl.DataFrame, decisions: pl.DataFrame, open_positions: Mapping[str, int], rules: Mapping[str, Methodology], now: datetime
) -> set[date]:
    """The cohorts (their Sundays) that are complete at an instant, from rows of arena/agents and arena/decisions.

    open_positions: how many each agent holds, by id.
    """
    states: dict[str, set[DecisionState]] = defaultdict(set)
    for name, state in decisions.select("agent_id", "state").iter_rows():
        states[name].add(DecisionState(state))
    found = set()
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
            found.add(week)
    return found
