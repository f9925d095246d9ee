"""Names and order: weeks, cohorts, agents, decisions, trades, and who decides first. All follow from what they name, none from a clock or a draw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from bellwether.errors import ConfigError

WEEK = timedelta(days=7)
#: A Sunday: weeks are counted from it.
_FIRST = date(1970, 1, 4)
_SUNDAY = 6


def week_of(at: datetime) -> date:
    """The Sunday (UTC) on which the week of an aware instant starts."""
    if at.tzinfo is None:
        raise ConfigError(f"finding the week of {at.isoformat()}: the time has no zone; give an aware time")
    day = at.astimezone(UTC).date()
    return day - timedelta(days=(day.weekday() - _SUNDAY) % 7)


def start_of(week: date) -> datetime:
    """Sunday 00:00 UTC of a week. Raises `ConfigError` for another day."""
    if week.weekday() != _SUNDAY:
        raise ConfigError(f"finding the start of a week: {week} is no Sunday; weeks start on Sunday, UTC")
    return datetime.combine(week, time(), UTC)


def week_number(start: datetime, now: datetime) -> int:
    """The week of a cohort that `now` lies in, from 1: whole weeks between the UTC midnights of both, so that the hour of the start is no matter."""
    days = (now.astimezone(UTC).date() - start.astimezone(UTC).date()).days
    return days // 7 + 1


@dataclass(frozen=True, slots=True, order=True)
class AgentKey:
    """An agent: its cohort (the Sunday on which that started) and its family."""

    cohort: date
    family: str

    @property
    def agent_id(self) -> str:
        """`cohort/family`."""
        return f"{self.cohort}/{self.family}"


@dataclass(frozen=True, slots=True, order=True)
class DecisionKey:
    """The one decision of an agent in a week (its Sunday)."""

    agent: AgentKey
    week: date

    @property
    def decision_id(self) -> str:
        """`cohort/family/week`."""
        return f"{self.agent.agent_id}/{self.week}"

    def trade_id(self, leg: int) -> str:
        """`cohort/family/week/leg`: the same leg is the same trade, however often it is executed. Legs count from 1."""
        return f"{self.decision_id}/{leg}"


def decision_of(trade_id: str) -> str:
    """The decision that a trade belongs to."""
    return trade_id.rpartition("/")[0]


def week_decided(trade_id: str) -> date:
    """The week of the decision that a trade belongs to."""
    return date.fromisoformat(decision_of(trade_id).rpartition("/")[2])


def deciding_order(families: Iterable[str], week: date) -> list[str]:
    """The order in which the agents of a cohort decide: by name, each week beginning one further on, so that each is first equally often."""
    names = sorted(set(families))
    if not names:
        return []
    first = ((week - _FIRST).days // 7) % len(names)
    return names[first:] + names[:first]
