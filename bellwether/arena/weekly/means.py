"""What running a week needs of the world, and what is kept once of it: the universe, the cohorts, and who decides in a week."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from bellwether.arena.frozen import FrozenCohort, FrozenUniverse, cohort_of, encoded_cohort, encoded_universe, universe_of
from bellwether.arena.history import LATEST, SOONEST, SOURCE, candidates, past_universe, tokens_of
from bellwether.arena.identity import WEEK, start_of
from bellwether.arena.lineup import lineup
from bellwether.arena.methodology import Methodology, methodologies
from bellwether.arena.states import decisions_due, may_start
from bellwether.arena.steps import Steps
from bellwether.arena.universe import market_of, universe
from bellwether.errors import ConfigError, SchemaError
from bellwether.forecasting.forecaster import Models
from bellwether.journal import Journal
from bellwether.lake import Lake
from bellwether.venues.polymarket import looks

if TYPE_CHECKING:
    from bellwether.venues.polymarket.client import ClobClient, GammaClient

#: Decisions are made as of so long after the start of a week.
DECISION = timedelta(minutes=5)
#: Longer than a step takes: a model's answer included.
LEASE = timedelta(minutes=30)
#: Markets of a reconstructed universe are asked for their past prices from so long before the decision.
_PRICED = timedelta(days=1)

T = TypeVar("T")


class Venue(Protocol):
    """Asks Polymarket."""

    def __call__(self, work: Callable[[GammaClient, ClobClient], Awaitable[T]]) -> T:
        """Run `work` with connected clients, and return what it returns."""
        ...


@dataclass(frozen=True)
class World:
    """What the arena runs in.

    venue: asks Polymarket. models: asks language models; None where no model may be asked. now: of the venue's clock. run: who pays, and whose leases
    they are. lineup: that new cohorts get. registry: the user's folder.
    """

    journal: Journal
    lake: Lake
    venue: Venue
    models: Models | None
    now: Callable[[], datetime]
    run: str
    lineup: str
    registry: Path | None = None

    @property
    def steps(self) -> Steps:
        """The steps that happen once."""
        return Steps(self.journal, LEASE, run=self.run)

    @cached_property
    def rules(self) -> Mapping[str, Methodology]:
        """The methodologies by name."""
        return methodologies(self.registry)


def decided_at(week: date) -> datetime:
    """As of when a reconstructed week is decided."""
    return start_of(week) + DECISION


def is_past(week: date, now: datetime, rules: Methodology) -> bool:
    """Whether the decisions of a week can only be reconstructed. Raises `ConfigError` for a week that has not begun."""
    if now < decided_at(week):
        raise ConfigError(f"running the week {week}: it begins at {decided_at(week).isoformat()}, and it is {now.isoformat()}")
    return now >= decisions_due(start_of(week), rules)


def frozen_universe(world: World, week: date) -> FrozenUniverse:
    """The week's universe, the same in every run: taken now, or reconstructed when its decisions are past."""
    return universe_of(world.steps.once("universe", week.isoformat(), lambda: encoded_universe(_seen(world, week))))


def seen_universe(world: World, week: date) -> FrozenUniverse:
    """The week's universe, without freezing it: the stored one, or as it would be taken now."""
    body = world.steps.stored("universe", week.isoformat())
    return _seen(world, week) if body is None else universe_of(body)


def _seen(world: World, week: date) -> FrozenUniverse:
    rules = world.rules[lineup(world.lineup, world.registry).methodology]
    if is_past(week, world.now(), rules):
        return world.venue(lambda gamma, clob: _past(gamma, clob, decided_at(week), rules.universe))
    return world.venue(lambda gamma, clob: _present(gamma, rules.universe, world.now()))


async def _present(gamma: GammaClient, limit: int, now: datetime) -> FrozenUniverse:
    seen = await looks.largest_open(gamma, limit)
    at, markets, lacking = seen.at or now, [], seen.rejects
    for row in seen.rows:
        try:
            markets.append(market_of(row, at))
        except SchemaError:
            lacking += 1
    return FrozenUniverse(universe(markets, limit), at, False, "Gamma: open markets by volume", lacking)


async def _past(gamma: GammaClient, clob: ClobClient, at: datetime, limit: int) -> FrozenUniverse:
    seen = await looks.ending(gamma, at + SOONEST, at + LATEST)
    tokens: dict[str, tuple[datetime, datetime]] = {}
    for row in candidates(seen.rows, at):
        try:
            tokens |= dict.fromkeys(tokens_of(market_of(row, at)), (at - _PRICED, at))
        except SchemaError:
            continue
    prices = await looks.past_prices(clob, tokens)
    source = f"Gamma: dates of markets that were to end {SOONEST.days} to {LATEST.days} days later; CLOB: {SOURCE}"
    return FrozenUniverse(past_universe(seen.rows, prices, at, limit), at, True, source, seen.rejects)


def stored_cohort(steps: Steps, week: date) -> FrozenCohort | None:
    """The cohort that started in a week; None when none did."""
    body = steps.stored("cohort", week.isoformat())
    return None if body is None else cohort_of(body)


def frozen_cohort(world: World, week: date, *, reconstructed: bool, forced: bool = True) -> FrozenCohort | None:
    """The cohort of a week, started now when it was not. forced: also later than in the first hour; else None then."""
    if not reconstructed and not forced and not may_start(world.now()) and stored_cohort(world.steps, week) is None:
        return None
    chosen = lineup(world.lineup, world.registry)

    def make() -> bytes:
        at = decided_at(week) if reconstructed else world.now()
        return encoded_cohort(FrozenCohort(week, chosen.name, chosen.methodology, reconstructed, chosen.families, at))

    return cohort_of(world.steps.once("cohort", week.isoformat(), make))


def deciding(world: World, week: date, *, reconstructed: bool) -> list[FrozenCohort]:
    """The cohorts that decide in a week, the newest first: those of the last weeks that are live, or reconstructed, as the week is."""
    rules, found = world.rules, []
    for age in range(max(one.decision_cohorts for one in rules.values())):
        cohort = stored_cohort(world.steps, week - age * WEEK)
        if cohort is not None and cohort.reconstructed == reconstructed and age < _rules_of(cohort, rules).decision_cohorts:
            found.append(cohort)
    return found


def _rules_of(cohort: FrozenCohort, rules: Mapping[str, Methodology]) -> Methodology:
    if cohort.methodology not in rules:
        raise ConfigError(f"the cohort {cohort.week} has the methodology {cohort.methodology!r}, which is no longer there; put it back")
    return rules[cohort.methodology]


def rules_of(world: World, cohort: FrozenCohort) -> Methodology:
    """The methodology of a cohort. Raises `ConfigError` when it is no longer in the registry."""
    return _rules_of(cohort, world.rules)
