"""Context of a weekly run: clients, clock and budgets; and the universes (offered markets) and cohorts (agents that start together) that are
stored on first use and never change (frozen).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bellwether.arena.facts import Agent
from bellwether.arena.identity import WEEK, week_start
from bellwether.arena.lifecycle import decision_deadline, is_start_allowed
from bellwether.arena.lineup import current_terms, load_lineup
from bellwether.arena.methodology import Methodology, Venue, load_methodology, methodologies
from bellwether.arena.records import FrozenCohort, FrozenUniverse, load_record, store_once
from bellwether.arena.units import MICROS
from bellwether.arena.weekly.kalshi import Kalshi
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.errors import ConfigError
from bellwether.forecasting.forecaster import Models
from bellwether.journal.journal import Journal
from bellwether.journal.records import Records
from bellwether.journal.tables import Budget, Scope
from bellwether.lake import Lake, Slice
from bellwether.tables.arena import AGENTS, EVIDENCE, UNIVERSE

T = TypeVar("T")

#: Purpose of the calls for decisions in the journal.
PURPOSE = "arena/decisions"


@dataclass(frozen=True)
class WeekBudgets:
    """Weekly budgets for model calls in dollars. week: for all models together. model: for each model. None: no limit."""

    week: Decimal | None = None
    model: Decimal | None = None

    def of(self, week: date, model: str) -> tuple[Budget, ...]:
        """Return the budgets that limit a model call: first the week's, then the model's. model: the model's name in the journal."""
        limits = ((self.week, week_scope(week)), (self.model, week_scope(week, model)))
        return tuple(Budget(_to_micros(limit), scope) for limit, scope in limits if limit is not None)


def week_scope(week: date, model: str | None = None) -> Scope:
    """Return the filter that selects a week's calls for decisions in the journal. model: the model's name in the journal; None for all models.

    The scope of a single call is the id of its decision, cohort/family/week.
    """
    return Scope(purpose=PURPOSE, model=model, scope_end=f"/{week.isoformat()}")


def compute_budget_left(journal: Journal, week: date, budget: Decimal | None) -> float | None:
    """Return the dollars left of a week's budget for all models together; None without a budget."""
    return None if budget is None else max(_to_micros(budget) - journal.spent(week_scope(week)).committed, 0) / MICROS


def _to_micros(dollars: Decimal) -> int:
    return int((dollars * MICROS).to_integral_value(ROUND_FLOOR))


#: Time of decisions after the start of a week.
DECISION = timedelta(minutes=5)


class VenueQuery(Protocol):
    """Function that runs a coroutine with connected access to a venue, `Polymarket` or `Kalshi`."""

    def __call__(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run `work` and return its result."""
        ...


@dataclass(frozen=True)
class WeekContext:
    """Clients and settings of a weekly run.

    venues: access to venues. models: model clients; None if no call is allowed. now: clock of the venue. run: owner of costs. lineup: of new
    cohorts. registry: folder of the user. methodology: of new cohorts; default: of the lineup. budgets: of every week.
    """

    journal: Journal
    lake: Lake
    venues: Mapping[Venue, VenueQuery]
    models: Models | None
    now: Callable[[], datetime]
    run: str
    lineup: str
    registry: Path | None = None
    methodology: str | None = None
    budgets: WeekBudgets = WeekBudgets()

    @property
    def records(self) -> Records:
        """Access to the write-once records in the journal."""
        return Records(self.journal, self.run)

    @cached_property
    def rules(self) -> Mapping[str, Methodology]:
        """Methodologies by name."""
        return methodologies(self.registry)

    @property
    def new_methodology(self) -> Methodology:
        """Methodology of new cohorts. Raises `ConfigError` for an unknown name."""
        return load_methodology(self.methodology or load_lineup(self.lineup, self.registry).methodology, self.registry)

    def query(self, venue: Venue, work: Callable[[Polymarket | Kalshi], Awaitable[T]]) -> T:
        """Query a venue about markets, prices or evidence. Raises `ConfigError` without access to the venue."""
        if venue not in self.venues:
            raise ConfigError(f"querying {venue}: a cohort bets there, but no client of it is configured")
        return self.venues[venue](work)

    def group_by_venue(self, agents: Iterable[Agent]) -> dict[Venue, list[Agent]]:
        """Group agents by venue; agents with an unknown methodology are omitted."""
        groups: dict[Venue, list[Agent]] = {}
        for agent in agents:
            if agent.methodology in self.rules:
                groups.setdefault(self.rules[agent.methodology].venue, []).append(agent)
        return dict(sorted(groups.items()))


def decision_time(week: date) -> datetime:
    """Return the instant as of which a week is decided if it is reconstructed: shortly after its start."""
    return week_start(week) + DECISION


def is_past(week: date, now: datetime, rules: Methodology) -> bool:
    """Return whether the deadline of a week has passed, so that the week must be reconstructed. Raises `ConfigError` before the week's decisions
    begin.
    """
    if now < decision_time(week):
        raise ConfigError(f"running the week {week}: it begins at {decision_time(week).isoformat()}; the present time is {now.isoformat()}")
    return now >= decision_deadline(week_start(week), rules)


def freeze_universe(context: WeekContext, week: date, venue: Venue) -> FrozenUniverse:
    """Return the stored universe of a week on a venue. On first use the universe is fetched (after the deadline of decisions: reconstructed) and
    stored.
    """
    return store_once(context.records, FrozenUniverse, _universe_name(week, venue), lambda: _build_universe(context, week, venue))


def preview_universe(context: WeekContext, week: date, venue: Venue) -> FrozenUniverse:
    """Return the universe that a run of the week would use on a venue, without storing anything."""
    return load_record(context.records, FrozenUniverse, _universe_name(week, venue)) or _build_universe(context, week, venue)


def list_venues(context: WeekContext, week: date) -> list[Venue]:
    """Return the venues on which cohorts decide in a week, starting with that of the week's own cohort."""
    own = load_cohort(context.records, week)
    first = context.new_methodology.venue if own is None else cohort_methodology(context, own).venue
    earlier = {cohort_methodology(context, cohort).venue for cohort in _young_cohorts(context, week)}
    return [first, *sorted(earlier - {first})]


def _universe_name(week: date, venue: Venue) -> str:
    return week.isoformat() if venue == "polymarket" else f"{week.isoformat()}/{venue}"


def _build_universe(context: WeekContext, week: date, venue: Venue) -> FrozenUniverse:
    rules, now = context.new_methodology, context.now()
    if rules.venue != venue:
        rules = next(
            methodology for cohort in _young_cohorts(context, week) if (methodology := cohort_methodology(context, cohort)).venue == venue
        )
    if is_past(week, now, rules):
        return context.query(venue, lambda data: data.reconstruct_universe(decision_time(week), rules.universe))
    return context.query(venue, lambda data: data.fetch_universe(rules.universe, now))


def load_cohort(records: Records, week: date) -> FrozenCohort | None:
    """Load the cohort that started in a week; None if no cohort did."""
    return load_record(records, FrozenCohort, week.isoformat())


def is_all_reconstructed(context: WeekContext) -> bool:
    """Return whether all cohorts are reconstructed, so that all their rows can be rebuilt from the journal and the venues."""
    # Of a damaged manifest only the partition is known.
    weeks = {date.fromisoformat(week) for declared in (AGENTS, UNIVERSE) for (week,) in context.lake.manifests(declared)}
    cohorts = (load_cohort(context.records, week) for week in weeks)
    return all(cohort is None or cohort.reconstructed for cohort in cohorts)


def drop_damaged(context: WeekContext, rows: Slice, rebuilt: Collection[date] | None = None) -> Slice:
    """Return the rows without damaged partitions if all cohorts are reconstructed, because such partitions can be rebuilt; else all rows.
    rebuilt: weeks or days whose damaged rows are dropped; None: all.
    """
    damaged = {place for place in rows.damaged() if rebuilt is None or date.fromisoformat(place[0]) in rebuilt}
    return rows.exclude(damaged) if damaged and is_all_reconstructed(context) else rows


def load_evidence(context: WeekContext, rebuilt: Collection[date] | None = ()) -> Slice:
    """Load rows of arena/evidence. rebuilt: weeks whose damaged rows are dropped because they are rebuilt (`drop_damaged`); None: all."""
    return drop_damaged(context, context.lake.slice(EVIDENCE, missing="skip"), rebuilt)


def freeze_cohort(context: WeekContext, week: date, *, reconstructed: bool, forced: bool = True) -> FrozenCohort | None:
    """Return the stored cohort of a week; on first use, start and store it. After the first hour of the week a live cohort only starts if
    `forced`; otherwise return None.
    """
    if not reconstructed and not forced and not is_start_allowed(context.now()) and load_cohort(context.records, week) is None:
        return None
    return store_once(context.records, FrozenCohort, week.isoformat(), lambda: build_cohort(context, week, reconstructed=reconstructed))


def build_cohort(context: WeekContext, week: date, *, reconstructed: bool) -> FrozenCohort:
    """Build the cohort that would start in a week now, from the registry's lineup and current prices."""
    lineup = load_lineup(context.lineup, context.registry)
    at = decision_time(week) if reconstructed else context.now()
    terms = current_terms(lineup, context.registry)
    return FrozenCohort(week, lineup.name, context.new_methodology.name, reconstructed, lineup.members, at, terms)


def list_deciding_cohorts(context: WeekContext, week: date, *, reconstructed: bool, venue: Venue | None = None) -> list[FrozenCohort]:
    """Return the live or the reconstructed cohorts that decide in a week, newest first. venue: None for all venues."""
    return [
        cohort
        for cohort in _young_cohorts(context, week)
        if cohort.reconstructed == reconstructed and venue in (None, cohort_methodology(context, cohort).venue)
    ]


def _young_cohorts(context: WeekContext, week: date) -> list[FrozenCohort]:
    """Return the cohorts whose decision window includes a week, newest first."""
    cohorts = []
    for age in range(max(methodology.decision_cohorts for methodology in context.rules.values())):
        cohort = load_cohort(context.records, week - age * WEEK)
        if cohort is not None and age < cohort_methodology(context, cohort).decision_cohorts:
            cohorts.append(cohort)
    return cohorts


def cohort_methodology(context: WeekContext, cohort: FrozenCohort) -> Methodology:
    """Return the methodology of a cohort. Raises `ConfigError` if it is not in the registry."""
    if cohort.methodology not in context.rules:
        raise ConfigError(
            f"the methodology {cohort.methodology!r} of the cohort {cohort.week} is missing in methodologies.toml; restore it"
        )
    return context.rules[cohort.methodology]
