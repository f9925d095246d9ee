"""Identifiers of weeks, cohorts, agents, decisions and trades, and the order of decisions. All follow from the arguments, without a clock or
random draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from bellwether.errors import ConfigError

WEEK = timedelta(days=7)
#: A Sunday from which weeks are counted.
_FIRST = date(1970, 1, 4)
_SUNDAY = 6


def week_of(at: datetime) -> date:
    """Return the Sunday (UTC) on which the week of an aware instant starts."""
    if at.tzinfo is None:
        raise ConfigError(f"finding the week of {at.isoformat()}: the time has no time zone; add one")
    day = at.astimezone(UTC).date()
    return day - timedelta(days=(day.weekday() - _SUNDAY) % 7)


def week_start(week: date) -> datetime:
    """Return the start of a week, Sunday 00:00 UTC. Raises `ConfigError` if `week` is not a Sunday."""
    if week.weekday() != _SUNDAY:
        raise ConfigError(f"finding the start of a week: {week} is not a Sunday; weeks start on Sunday (UTC)")
    return datetime.combine(week, time(), UTC)


def week_number(start: datetime, now: datetime) -> int:
    """Return which week of a cohort contains `now`, counted from 1. The first week begins at 00:00 UTC on the day of `start`."""
    days = (now.astimezone(UTC).date() - start.astimezone(UTC).date()).days
    return days // 7 + 1


@dataclass(frozen=True, slots=True, order=True)
class AgentKey:
    """Key of an agent: its cohort (the Sunday of its first week) and family."""

    cohort: date
    family: str

    @property
    def agent_id(self) -> str:
        """Id in the form `cohort/family`."""
        return f"{self.cohort}/{self.family}"


@dataclass(frozen=True, slots=True, order=True)
class DecisionKey:
    """Key of an agent's decision in a week. week: its Sunday."""

    agent: AgentKey
    week: date

    @property
    def decision_id(self) -> str:
        """Id in the form `cohort/family/week`."""
        return f"{self.agent.agent_id}/{self.week}"

    def trade_id(self, leg: int) -> str:
        """Return the id of the trade of a leg, `cohort/family/week/leg`; repeated executions give the same id. leg: number of the bet or sale,
        from 1.
        """
        return f"{self.decision_id}/{leg}"


def decision_of_trade(trade_id: str) -> str:
    """Return the id of the decision to which a trade belongs."""
    return trade_id.rpartition("/")[0]


def week_of_trade(trade_id: str) -> date:
    """Return the week (Sunday) of the decision to which a trade belongs."""
    return date.fromisoformat(decision_of_trade(trade_id).rpartition("/")[2])


def decision_order(families: Iterable[str], week: date) -> list[str]:
    """Return the families of a cohort in the order in which they decide: by name, but starting one name later each week, for fairness."""
    names = sorted(set(families))
    if not names:
        return []
    first = ((week - _FIRST).days // 7) % len(names)
    return names[first:] + names[:first]
