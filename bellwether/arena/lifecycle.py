"""Life cycle of cohorts (the agents that start in one week): start, deadlines of decisions, and completion."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta

import polars as pl

from bellwether.arena.decision import ANSWERED
from bellwether.arena.identity import WEEK, week_of, week_start
from bellwether.arena.methodology import Methodology

#: Time after Sunday 00:00 UTC in which a scheduled run may start a cohort; later only an operator can.
START_WINDOW = timedelta(hours=1)


def is_start_allowed(now: datetime) -> bool:
    """Return whether a scheduled run may start the cohort of the current week: in the first hour of Sunday."""
    return timedelta(0) <= now - week_start(week_of(now)) < START_WINDOW


def decision_deadline(week: date | datetime, methodology: Methodology) -> datetime:
    """Return the deadline of a week's decisions. week: its Sunday, or the instant at which it starts."""
    start = week if isinstance(week, datetime) else week_start(week)
    return start + timedelta(hours=methodology.deadline_hours)


def find_complete_cohorts(
    agents: pl.DataFrame, decisions: pl.DataFrame, open_positions: Mapping[str, int], rules: Mapping[str, Methodology], now: datetime
) -> set[date]:
    """Return the complete cohorts (their Sundays), from rows of arena/agents and arena/decisions.

    A cohort is complete if all its deadlines have passed, each agent has decided or was closed by an operator, and no position is open. An agent
    decided if one of its decisions was executed or refused: an outage of a provider does not complete a cohort. open_positions: number of open
    positions by agent id.
    """
    decided = set(decisions.filter(pl.col("state").is_in(sorted(ANSWERED)))["agent_id"])
    complete = set()
    for (week, methodology), rows in agents.group_by("week", "methodology"):
        last = week + (rules[methodology].decision_cohorts - 1) * WEEK
        awaited = rows.filter(pl.col("closed_at").is_null())["agent_id"]
        is_held = any(open_positions.get(name, 0) for name in rows["agent_id"])
        if now >= decision_deadline(last, rules[methodology]) and decided.issuperset(awaited) and not is_held:
            complete.add(week)
    return complete
