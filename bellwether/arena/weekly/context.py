"""The world in which a week runs, its budgets, and what is frozen once: the universe, the cohorts, and the agents that decide in a week."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from pathlib import Path

from bellwether.arena.facts import Agent
from bellwether.arena.identity import WEEK, start_of
from bellwether.arena.lineup import lineup, terms_of
from bellwether.arena.methodology import Methodology, Venue, methodologies, methodology
from bellwether.arena.prompt import VERSION
from bellwether.arena.records import FrozenCohort, FrozenUniverse, once, stored
from bellwether.arena.states import decisions_due, may_start
from bellwether.arena.units import MICROS
from bellwether.arena.weekly.kalshi import AskKalshi, Kalshi
from bellwether.arena.weekly.polymarket import AskPolymarket, Polymarket
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
        limits = ((self.week, scope_of(week)), (self.model, scope_of(week, model)))
        return tuple(Budget(_micros(limit), scope) for limit, scope in limits if limit is not None)


@dataclass(frozen=True)
class Spent:
    """Cost of a week, or of a model in it. spent, reserved: dollars: known costs, and what calls without a known cost may have cost at most.
    left: of the budget; None without one."""

    spent: float
    reserved: float
    left: float | None


def scope_of(week: date, model: str | None = None) -> Scope:
    """The calls for decisions of a week, of all cohorts: their scope is the decision, cohort/family/week."""
    return Scope(purpose=PURPOSE, model=model, scope_end=f"/{week.isoformat()}")


def spending_of(journal: Journal, week: date, budgets: WeekBudgets) -> tuple[Spent, dict[str, Spent]]:
    """The cost of a week, and of each model called in it, by the journal's name."""
    used = journal.usage("model", of=scope_of(week))
    names = sorted(used["model"])
    return _spent(journal, scope_of(week), budgets.week), {name: _spent(journal, scope_of(week, name), budgets.model) for name in names}


def _spent(journal: Journal, scope: Scope, limit: Decimal | None) -> Spent:
    found = journal.spent(scope)
    left = None if limit is None else max(_micros(limit) - found.committed, 0) / MICROS
    return Spent(found.spent / MICROS, found.reserved / MICROS, left)


def _micros(dollars: Decimal) -> int:
    return int((dollars * MICROS).to_integral_value(ROUND_FLOOR))


#: Decisions are made as of so long after the start of a week.
DECISION = timedelta(minutes=5)
#: Longer than a step takes: a model's answer included.
LEASE = timedelta(minutes=30)


@dataclass(frozen=True)
class World:
    """The environment of the arena.

    venue: queries Polymarket. models: calls language models; None where no call is allowed. now: of the venue's clock. run: who pays, and whose leases
    they are. lineup: that new cohorts get. registry: the user's folder. kalshi: asks Kalshi; None where no cohort bets there. methodology: of new
    cohorts; their lineup's when None. budgets: of every week.
    """

    journal: Journal
    lake: Lake
    venue: AskPolymarket
    models: Models | None
    now: Callable[[], datetime]
    run: str
    lineup: str
    registry: Path | None = None
    kalshi: AskKalshi | None = None
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
        return methodology(self.methodology or lineup(self.lineup, self.registry).methodology, self.registry)

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


def decided_at(week: date) -> datetime:
    """As of when a reconstructed week is decided."""
    return start_of(week) + DECISION


def is_past(week: date, now: datetime, rules: Methodology) -> bool:
    """Return whether the decisions of a week can only be reconstructed. Raises `ConfigError` for a week that has not begun."""
    if now < decided_at(week):
        raise ConfigError(f"running the week {week}: it begins at {decided_at(week).isoformat()}, and it is {now.isoformat()}")
    return now >= decisions_due(start_of(week), rules)


def frozen_universe(world: World, week: date, venue: Venue) -> FrozenUniverse:
    """The week's universe on a venue, the same in every run: taken now, or reconstructed when its decisions are past."""
    return once(world.records, FrozenUniverse, _universe_name(week, venue), lambda: _seen(world, week, venue))


def seen_universe(world: World, week: date, venue: Venue) -> FrozenUniverse:
    """The week's universe on a venue, without freezing it: the stored one, or as it would be taken now."""
    return stored(world.records, FrozenUniverse, _universe_name(week, venue)) or _seen(world, week, venue)


def venues_of(world: World, week: date) -> list[Venue]:
    """The venues on which cohorts decide in a week: that of the cohort which starts in it, and those of earlier ones that still decide."""
    own = stored_cohort(world.records, week)
    first = world.chosen.venue if own is None else rules_of(world, own).venue
    earlier = {rules_of(world, cohort).venue for cohort in _still_deciding(world, week)}
    return [first, *sorted(earlier - {first})]


def _universe_name(week: date, venue: Venue) -> str:
    return week.isoformat() if venue == "polymarket" else f"{week.isoformat()}/{venue}"


def _seen(world: World, week: date, venue: Venue) -> FrozenUniverse:
    rules, now = world.chosen, world.now()
    if rules.venue != venue:
        rules = next(found for cohort in _still_deciding(world, week) if (found := rules_of(world, cohort)).venue == venue)
    data = world.data(venue)
    return data.past(decided_at(week), rules.universe) if is_past(week, now, rules) else data.present(rules.universe, now)


def stored_cohort(records: Records, week: date) -> FrozenCohort | None:
    """The cohort that started in a week; None when none did."""
    return stored(records, FrozenCohort, week.isoformat())


def all_reconstructed(world: World) -> bool:
    """Return whether every cohort that started in a stored week is reconstructed: its rows in the lake can then be rebuilt."""
    # Of a damaged manifest the place alone is known.
    weeks = {date.fromisoformat(week) for one in (AGENTS, UNIVERSE) for (week,) in world.lake.partitions(one)}
    cohorts = (stored_cohort(world.records, week) for week in weeks)
    return all(cohort is None or cohort.reconstructed for cohort in cohorts)


def without_lost(world: World, rows: Slice, found_again: Collection[date] | None = None) -> Slice:
    """Stored rows by week or day, without those that are damaged where all cohorts are reconstructed, for they are found again.

    found_again: the weeks or days of which damaged rows are left out; all when None.
    """
    lost = {place for place in rows.damaged() if found_again is None or date.fromisoformat(place[0]) in found_again}
    return rows.without(lost) if lost and all_reconstructed(world) else rows


def stored_evidence(world: World, found_again: Collection[date] | None = ()) -> Slice:
    """Rows of arena/evidence. found_again: weeks whose evidence is rebuilt, as in `without_lost`."""
    return without_lost(world, world.lake.slice(EVIDENCE, missing="skip"), found_again)


def frozen_cohort(world: World, week: date, *, reconstructed: bool, forced: bool = True) -> FrozenCohort | None:
    """The cohort of a week, started now when it was not. forced: also later than in the first hour; else None then."""
    if not reconstructed and not forced and not may_start(world.now()) and stored_cohort(world.records, week) is None:
        return None
    return once(world.records, FrozenCohort, week.isoformat(), lambda: new_cohort(world, week, reconstructed=reconstructed))


def new_cohort(world: World, week: date, *, reconstructed: bool) -> FrozenCohort:
    """A week's cohort as it would be started now: the lineup of the registry, on the terms in force."""
    chosen = lineup(world.lineup, world.registry)
    at = decided_at(week) if reconstructed else world.now()
    terms = terms_of(chosen, world.registry)
    return FrozenCohort(week, chosen.name, world.chosen.name, reconstructed, chosen.members, at, terms, VERSION)


def deciding(world: World, week: date, *, reconstructed: bool, venue: Venue | None = None) -> list[FrozenCohort]:
    """The cohorts that decide in a week, the newest first: those of the last weeks that are live, or reconstructed, as the week is; on one venue
    or on all."""
    return [
        cohort
        for cohort in _still_deciding(world, week)
        if cohort.reconstructed == reconstructed and venue in (None, rules_of(world, cohort).venue)
    ]


def _still_deciding(world: World, week: date) -> list[FrozenCohort]:
    """The cohorts that are young enough to decide in a week, the newest first."""
    found = []
    for age in range(max(one.decision_cohorts for one in world.rules.values())):
        cohort = stored_cohort(world.records, week - age * WEEK)
        if cohort is not None and age < rules_of(world, cohort).decision_cohorts:
            found.append(cohort)
    return found


def rules_of(world: World, cohort: FrozenCohort) -> Methodology:
    """The methodology of a cohort. Raises `ConfigError` when it is no longer in the registry."""
    if cohort.methodology not in world.rules:
        raise ConfigError(f"the cohort {cohort.week} has the methodology {cohort.methodology!r}, which is no longer there; put it back")
    return world.rules[cohort.methodology]
