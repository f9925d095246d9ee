"""The world in which a week runs, its budgets, and what is frozen once: the universe, the cohorts, and the agents that decide in a week."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from pathlib import Path

from bellwether.arena.facts import Agent
from bellwether.arena.identity import WEEK, week_start
from bellwether.arena.lifecycle import decision_deadline, is_start_allowed
from bellwether.arena.lineup import current_terms, load_lineup
from bellwether.arena.methodology import Methodology, Venue, load_methodology, methodologies
from bellwether.arena.prompt import VERSION
from bellwether.arena.records import FrozenCohort, FrozenUniverse, load_record, store_once
from bellwether.arena.units import MICROS
from bellwether.arena.weekly.kalshi import Kalshi, KalshiRunner
from bellwether.arena.weekly.polymarket import Polymarket, PolymarketRunner
from bellwether.arena.weekly.venue import VenueData
from bellwether.errors import ConfigError
from bellwether.forecasting.forecaster import Models
from bellwether.journal import Budget, Journal, Scope
from bellwether.journal.records import Records
from bellwether.lake import Lake, Slice
from bellwether.tables.arena import AGENTS, EVIDENCE, UNIVERSE

#: What the journal calls the calls that ask for decisions.
PURPOSE = "arena/decisions"


@dataclass(frozen=True)
class WeekBudgets:
    """Dollars of a week: of all models, and of each. None is no limit."""

    week: Decimal | None = None
    model: Decimal | None = None

    def of(self, week: date, model: str) -> tuple[Budget, ...]:
        """The budgets that a call of the model (the journal's name of it) must fit into, the week's first."""
        limits = ((self.week, week_scope(week)), (self.model, week_scope(week, model)))
        return tuple(Budget(_to_micros(limit), scope) for limit, scope in limits if limit is not None)


@dataclass(frozen=True)
class Spending:
    """Cost of a week, or of a model in it. spent, reserved: dollars: known costs, and what calls without a known cost may have cost at most.
    left: of the budget; None without one."""

    spent: float
    reserved: float
    left: float | None


def week_scope(week: date, model: str | None = None) -> Scope:
    """The calls for decisions of a week, of all cohorts: their scope is the decision, cohort/family/week."""
    return Scope(purpose=PURPOSE, model=model, scope_end=f"/{week.isoformat()}")


def week_spending(journal: Journal, week: date, budgets: WeekBudgets) -> tuple[Spending, dict[str, Spending]]:
    """The cost of a week, and of each model called in it, by the journal's name."""
    used = journal.usage("model", of=week_scope(week))
    names = sorted(used["model"])
    return _scope_spending(journal, week_scope(week), budgets.week), {
        name: _scope_spending(journal, week_scope(week, name), budgets.model) for name in names
    }


def _scope_spending(journal: Journal, scope: Scope, limit: Decimal | None) -> Spending:
    found = journal.spent(scope)
    left = None if limit is None else max(_to_micros(limit) - found.committed, 0) / MICROS
    return Spending(found.spent / MICROS, found.reserved / MICROS, left)


def _to_micros(dollars: Decimal) -> int:
    return int((dollars * MICROS).to_integral_value(ROUND_FLOOR))


#: Decisions are made as of so long after the start of a week.
DECISION = timedelta(minutes=5)
#: Longer than a step takes: a model's answer included.
LEASE = timedelta(minutes=30)


@dataclass(frozen=True)
class WeekContext:
    """The environment of the arena.

    venue: queries Polymarket. models: calls language models; None where no call is allowed. now: of the venue's clock. run: who pays, and whose leases
    they are. lineup: that new cohorts get. registry: the user's folder. kalshi: asks Kalshi; None where no cohort bets there. methodology: of new
    cohorts; their lineup's when None. budgets: of every week.
    """

    journal: Journal
    lake: Lake
    venue: PolymarketRunner
    models: Models | None
    now: Callable[[], datetime]
    run: str
    lineup: str
    registry: Path | None = None
    kalshi: KalshiRunner | None = None
    methodology: str | None = None
    budgets: WeekBudgets = WeekBudgets()

    @property
    def records(self) -> Records:
        """Records that are made once."""
        return Records(self.journal, LEASE, run=self.run)

    @cached_property
    def rules(self) -> Mapping[str, Methodology]:
        """The methodologies by name."""
        return methodologies(self.registry)

    @property
    def chosen(self) -> Methodology:
        """The methodology of new cohorts. Raises `ConfigError` for a name that no methodology has."""
        return load_methodology(self.methodology or load_lineup(self.lineup, self.registry).methodology, self.registry)

    def data(self, venue: Venue) -> VenueData:
        """The markets of a venue. Raises `ConfigError` for Kalshi without a client."""
        if venue == "polymarket":
            return Polymarket(self.venue)
        if self.kalshi is None:
            raise ConfigError("asking Kalshi: a cohort bets there, and no client of Kalshi was given")
        return Kalshi(self.kalshi)

    def by_venue(self, agents: Iterable[Agent]) -> dict[Venue, list[Agent]]:
        """Agents by the venue on which they bet; those whose methodology is no longer there are left out."""
        found: dict[Venue, list[Agent]] = {}
        for agent in agents:
            if agent.methodology in self.rules:
                found.setdefault(self.rules[agent.methodology].venue, []).append(agent)
        return dict(sorted(found.items()))


def decision_time(week: date) -> datetime:
    """As of when a reconstructed week is decided."""
    return week_start(week) + DECISION


def is_past(week: date, now: datetime, rules: Methodology) -> bool:
    """Return whether the decisions of a week can only be reconstructed. Raises `ConfigError` for a week that has not begun."""
    if now < decision_time(week):
        raise ConfigError(f"running the week {week}: it begins at {decision_time(week).isoformat()}, and it is {now.isoformat()}")
    return now >= decision_deadline(week_start(week), rules)


def freeze_universe(world: WeekContext, week: date, venue: Venue) -> FrozenUniverse:
    """The week's universe on a venue, the same in every run: taken now, or reconstructed when its decisions are past."""
    return store_once(world.records, FrozenUniverse, _universe_name(week, venue), lambda: _build_universe(world, week, venue))


def preview_universe(world: WeekContext, week: date, venue: Venue) -> FrozenUniverse:
    """The week's universe on a venue, without freezing it: the stored one, or as it would be taken now."""
    return load_record(world.records, FrozenUniverse, _universe_name(week, venue)) or _build_universe(world, week, venue)


def list_venues(world: WeekContext, week: date) -> list[Venue]:
    """The venues on which cohorts decide in a week: that of the cohort which starts in it, and those of earlier ones that still decide."""
    own = load_cohort(world.records, week)
    first = world.chosen.venue if own is None else cohort_methodology(world, own).venue
    earlier = {cohort_methodology(world, cohort).venue for cohort in _young_cohorts(world, week)}
    return [first, *sorted(earlier - {first})]


def _universe_name(week: date, venue: Venue) -> str:
    return week.isoformat() if venue == "polymarket" else f"{week.isoformat()}/{venue}"


def _build_universe(world: WeekContext, week: date, venue: Venue) -> FrozenUniverse:
    rules, now = world.chosen, world.now()
    if rules.venue != venue:
        rules = next(found for cohort in _young_cohorts(world, week) if (found := cohort_methodology(world, cohort)).venue == venue)
    data = world.data(venue)
    return data.past(decision_time(week), rules.universe) if is_past(week, now, rules) else data.present(rules.universe, now)


def load_cohort(records: Records, week: date) -> FrozenCohort | None:
    """The cohort that started in a week; None when none did."""
    return load_record(records, FrozenCohort, week.isoformat())


def is_all_reconstructed(world: WeekContext) -> bool:
    """Return whether every cohort that started in a stored week is reconstructed: its rows in the lake can then be rebuilt."""
    # Of a damaged manifest the place alone is known.
    weeks = {date.fromisoformat(week) for one in (AGENTS, UNIVERSE) for (week,) in world.lake.partitions(one)}
    cohorts = (load_cohort(world.records, week) for week in weeks)
    return all(cohort is None or cohort.reconstructed for cohort in cohorts)


def drop_damaged(world: WeekContext, rows: Slice, found_again: Collection[date] | None = None) -> Slice:
    """Stored rows by week or day, without those that are damaged where all cohorts are reconstructed, for they are found again.

    found_again: the weeks or days of which damaged rows are left out; all when None.
    """
    lost = {place for place in rows.damaged() if found_again is None or date.fromisoformat(place[0]) in found_again}
    return rows.exclude(lost) if lost and is_all_reconstructed(world) else rows


def load_evidence(world: WeekContext, found_again: Collection[date] | None = ()) -> Slice:
    """Rows of arena/evidence. found_again: weeks whose evidence is rebuilt, as in `drop_damaged`."""
    return drop_damaged(world, world.lake.slice(EVIDENCE, missing="skip"), found_again)


def freeze_cohort(world: WeekContext, week: date, *, reconstructed: bool, forced: bool = True) -> FrozenCohort | None:
    """The cohort of a week, started now when it was not. forced: also later than in the first hour; else None then."""
    if not reconstructed and not forced and not is_start_allowed(world.now()) and load_cohort(world.records, week) is None:
        return None
    return store_once(world.records, FrozenCohort, week.isoformat(), lambda: build_cohort(world, week, reconstructed=reconstructed))


def build_cohort(world: WeekContext, week: date, *, reconstructed: bool) -> FrozenCohort:
    """A week's cohort as it would be started now: the lineup of the registry, on the terms in force."""
    chosen = load_lineup(world.lineup, world.registry)
    at = decision_time(week) if reconstructed else world.now()
    terms = current_terms(chosen, world.registry)
    return FrozenCohort(week, chosen.name, world.chosen.name, reconstructed, chosen.members, at, terms, VERSION)


def deciding_cohorts(world: WeekContext, week: date, *, reconstructed: bool, venue: Venue | None = None) -> list[FrozenCohort]:
    """The cohorts that decide in a week, the newest first: those of the last weeks that are live, or reconstructed, as the week is; on one venue
    or on all."""
    return [
        cohort
        for cohort in _young_cohorts(world, week)
        if cohort.reconstructed == reconstructed and venue in (None, cohort_methodology(world, cohort).venue)
    ]


def _young_cohorts(world: WeekContext, week: date) -> list[FrozenCohort]:
    """The cohorts that are young enough to decide in a week, the newest first."""
    found = []
    for age in range(max(one.decision_cohorts for one in world.rules.values())):
        cohort = load_cohort(world.records, week - age * WEEK)
        if cohort is not None and age < cohort_methodology(world, cohort).decision_cohorts:
            found.append(cohort)
    return found


def cohort_methodology(world: WeekContext, cohort: FrozenCohort) -> Methodology:
    """The methodology of a cohort. Raises `ConfigError` when it is no longer in the registry."""
    if cohort.methodology not in world.rules:
        raise ConfigError(f"the cohort {cohort.week} has the methodology {cohort.methodology!r}, which is no longer there; put it back")
    return world.rules[cohort.methodology]
