"""The state machines of cohorts, markets and positions: pure functions of what is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

import polars as pl

from bellwether.arena.account import Position, PositionStatus
from bellwether.arena.decision_state import ANSWERED, DecisionState
from bellwether.arena.facts import Result
from bellwether.arena.identity import WEEK, start_of, week_of
from bellwether.arena.market import MarketStatus
from bellwether.arena.methodology import Methodology

#: A cohort may be started by a tick until so long after Sunday 00:00 UTC; later it must be asked for.
START_WINDOW = timedelta(hours=1)


class CohortStatus(StrEnum):
    """COMPLETED: nothing of it can change any more, but for corrections."""

    ACTIVE = "active"
    COMPLETED = "completed"


class CohortRole(StrEnum):
    """Whether a cohort still decides, or only holds what it has."""

    DECIDING = "decisioning"
    TRACKING = "tracking_only"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Cohort:
    """A cohort as far as its state goes. number: from 1, in the order of weeks. archived: kept out of rankings and decisions by an operator."""

    number: int
    start: datetime
    methodology: str
    completed_at: datetime | None = None
    archived: bool = False


def may_start(now: datetime, *, forced: bool = False) -> bool:
    """Whether the cohort of the week of `now` may be started: in the first hour of Sunday, or when it is asked for."""
    return forced or timedelta(0) <= now - start_of(week_of(now)) < START_WINDOW


def role(cohort: Cohort, latest: int, methodology: Methodology) -> CohortRole:
    """What a cohort does, `latest` being the newest number. Completed and archived cohorts count, so that none takes their place."""
    if cohort.completed_at is not None:
        return CohortRole.COMPLETED
    window = cohort.number >= max(1, latest - methodology.decision_cohorts + 1)
    return CohortRole.DECIDING if window and not cohort.archived else CohortRole.TRACKING


def deciding(cohorts: Sequence[Cohort], methodologies: Mapping[str, Methodology]) -> list[Cohort]:
    """The cohorts that decide, the newest first."""
    latest = max((cohort.number for cohort in cohorts), default=0)
    found = [one for one in cohorts if role(one, latest, methodologies[one.methodology]) is CohortRole.DECIDING]
    return sorted(found, key=lambda cohort: -cohort.number)


def window_ends(cohort: Cohort, methodology: Methodology) -> datetime:
    """When the last week in which a cohort decides is over, its deadline included."""
    return cohort.start + (methodology.decision_cohorts - 1) * WEEK + timedelta(hours=methodology.deadline_hours)


def decisions_due(week_start: datetime, methodology: Methodology) -> datetime:
    """Until when the decisions of a week may be made."""
    return week_start + timedelta(hours=methodology.deadline_hours)


def cohort_status(
    cohort: Cohort,
    methodology: Methodology,
    now: datetime,
    *,
    decisions: Mapping[str, Iterable[DecisionState]],
    open_positions: int,
    closed_by_operator: Iterable[str] = (),
) -> CohortStatus:
    """Whether a cohort is complete: its decisions are over, each agent has finished one or was closed by an operator, and no position is open.

    decisions: the states of every agent's decisions, agents without one included. A provider's outage, a week of HOLD or agents without positions
    therefore complete nothing.
    """
    if cohort.completed_at is not None:
        return CohortStatus.COMPLETED
    closed = set(closed_by_operator)
    finished = all(agent in closed or ANSWERED & set(states) for agent, states in decisions.items())
    over = now >= window_ends(cohort, methodology)
    return CohortStatus.COMPLETED if over and decisions and finished and open_positions == 0 else CohortStatus.ACTIVE


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
        closed = rows.filter(pl.col("closed_at").is_not_null())["agent_id"]
        status = cohort_status(
            Cohort(1, start_of(week), methodology),
            rules[methodology],
            now,
            decisions={name: states[name] for name in names},
            open_positions=sum(open_positions.get(name, 0) for name in names),
            closed_by_operator=closed,
        )
        if status is CohortStatus.COMPLETED:
            found.add(week)
    return found


_ORDER = {
    MarketStatus.ACTIVE: 0,
    MarketStatus.CLOSED: 1,
    MarketStatus.PROPOSED: 2,
    MarketStatus.DISPUTED: 2,
    MarketStatus.RESOLVED: 3,
    MarketStatus.VOID: 3,
}


@dataclass(frozen=True, slots=True)
class Advance:
    """What an observation does to the status of a market. incident: what it said, when it was not followed."""

    status: MarketStatus
    incident: str | None = None


def advance(current: MarketStatus, observed: MarketStatus) -> Advance:
    """The status of a market after it was seen as `observed`: it goes forward and never back; what would is an incident.

    RESOLVED and VOID are left only by a corrected resolution (`bellwether.arena.resolution`), which is no matter of the status.
    """
    back = _ORDER[observed] < _ORDER[current] or (_ORDER[current] == _ORDER[MarketStatus.RESOLVED] and observed is not current)
    return Advance(current, f"{current} market was seen {observed}") if back else Advance(observed)


class Label(StrEnum):
    """What became of a position, in words."""

    PENDING = "PENDING"
    EXITED = "EXITED"
    WON = "WON"
    LOST = "LOST"
    SPLIT = "SPLIT"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Past:
    """A position in an agent's history. payout, profit: micro-dollars; None while nothing is certain."""

    label: Label
    payout: int | None
    profit: int | None


def history(position: Position, market: MarketStatus) -> Past:
    """What became of a position: sold, settled, or open; open on a market that is resolved is UNKNOWN, which is a fault to look into.

    payout: what sales and settlement brought. profit: that, less what all its shares cost.
    """
    if position.status is PositionStatus.OPEN:
        over = _ORDER[market] == _ORDER[MarketStatus.RESOLVED]
        return Past(Label.UNKNOWN if over else Label.PENDING, None, None)
    payout = position.sold + (position.paid or 0)
    if position.status is PositionStatus.CLOSED:
        label = Label.EXITED
    elif position.result is Result.WON:
        label = Label.WON if position.won else Label.LOST
    else:
        label = Label.SPLIT if position.result is Result.SPLIT else Label.CANCELLED
    return Past(label, payout, position.realized)
