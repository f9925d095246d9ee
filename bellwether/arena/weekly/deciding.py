"""Decisions of a week: every deciding cohort, its agents strictly one after another, each decision once; and a preview that stores nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial

from bellwether.arena.account import Account
from bellwether.arena.deciding import Decided, Means, Task, decide_all, standing
from bellwether.arena.decision import Decision, DecisionState
from bellwether.arena.execution import MarketData
from bellwether.arena.identity import WEEK, AgentKey, DecisionKey, deciding_order, start_of, week_number
from bellwether.arena.lineup import rule_of
from bellwether.arena.market import Market, MarketStatus
from bellwether.arena.methodology import Venue
from bellwether.arena.prompt import messages, portfolio
from bellwether.arena.records import FrozenCohort, FrozenUniverse, closures
from bellwether.arena.states import decisions_due
from bellwether.arena.terms import Terms
from bellwether.arena.weekly import state
from bellwether.arena.weekly.asking import Asked, asking, model_of, parameters_of, registered
from bellwether.arena.weekly.means import (
    World,
    decided_at,
    deciding,
    frozen_cohort,
    frozen_universe,
    new_cohort,
    rules_of,
    seen_universe,
    stored_cohort,
    terms_by_agent,
    venues_of,
)
from bellwether.errors import ConfigError
from bellwether.forecasting.prompt import Message
from bellwether.journal.records import Records
from bellwether.models.model import Model
from bellwether.models.prices import most_cost


@dataclass(frozen=True)
class WeekDecided:
    """A week after a run: its universes by venue, that of its own cohort first; that cohort (None when none was started); the cohorts that decide, and
    every decision with its task, in the order in which they were made."""

    week: date
    universes: Mapping[Venue, FrozenUniverse]
    cohort: FrozenCohort | None
    cohorts: Sequence[FrozenCohort]
    decisions: Sequence[tuple[Task, Decided]]

    @property
    def universe(self) -> FrozenUniverse:
        """The universe of the week's own cohort."""
        return next(iter(self.universes.values()))


@dataclass(frozen=True)
class WeekPlanned:
    """A week on one venue as it would be decided now: its universe, who decides, and each decision's task."""

    venue: Venue
    universe: FrozenUniverse
    cohorts: Sequence[FrozenCohort]
    tasks: Sequence[Task]
    standing: state.Standing


def plan_week(world: World, week: date, *, forced: bool = True) -> tuple[list[WeekPlanned], FrozenCohort | None]:
    """Freeze the week's universes and start its cohort, where that was not done, and make the tasks of all deciding cohorts: one plan for each venue."""
    venues = venues_of(world, week)
    universes = {venue: frozen_universe(world, week, venue) for venue in venues}
    live = not universes[venues[0]].reconstructed
    cohort = frozen_cohort(world, week, reconstructed=not live, forced=forced)
    if cohort is not None and (cohort.reconstructed == live or rules_of(world, cohort).venue != venues[0]):
        raise ConfigError(
            f"running the week {week}: its cohort and its universe are not both live, or of one venue; this journal cannot have come from one arena"
        )
    return [
        planned(world, week, venue, found, deciding(world, week, reconstructed=found.reconstructed, venue=venue))
        for venue, found in universes.items()
    ], cohort


def planned(world: World, week: date, venue: Venue, universe: FrozenUniverse, cohorts: Sequence[FrozenCohort]) -> WeekPlanned:
    """The tasks of cohorts of one venue in a week, the newest cohort first, its agents in the week's order; of agents that were closed, those that were begun."""
    at = decided_at(week) if universe.reconstructed else world.now()
    before = state.standing(world, week, venue, cohorts, universe.universe, at=at, reconstructed=universe.reconstructed)
    tasks = [task for cohort in cohorts for task in _tasks(world, week, cohort, universe, before)]
    closed = closures(world.records)
    tasks = [
        task for task in tasks if task.key.agent.agent_id not in closed or world.records.stored("prompt", task.key.decision_id) is not None
    ]
    return WeekPlanned(venue, universe, cohorts, tasks, before)


def _tasks(world: World, week: date, cohort: FrozenCohort, universe: FrozenUniverse, before: state.Standing) -> Iterator[Task]:
    rules = rules_of(world, cohort)
    owners = before.owners
    for place, family in enumerate(deciding_order(cohort.members, week), start=1):
        key = DecisionKey(AgentKey(cohort.week, family), week)
        account = before.account(key.agent.agent_id)

        def said(account: Account = account) -> list[Message]:
            held = portfolio(account, before.prices, before.markets)
            number = week_number(start_of(cohort.week), before.at)
            return messages(rules, held, universe.universe.markets, today=before.at.date(), week=number, version=cohort.prompt)

        deadline = decisions_due(start_of(week), rules)
        yield Task(
            key, cohort.members[family], rules, account, said, deadline, place, universe.universe.digest, owners, universe.reconstructed
        )


def decide_week(world: World, week: date, *, forced: bool = True) -> WeekDecided:
    """Do what is left of a week's decisions. What was done is used as it is stored; a week before one that an agent has decided stays as it is."""
    plans, cohort = plan_week(world, week, forced=forced)
    tasks = [task for plan in plans for task in plan.tasks]
    order = {task.key.decision_id: number for number, task in enumerate(tasks)}
    left = _left_alone(world, tasks)
    terms = terms_by_agent(cohort for plan in plans for cohort in plan.cohorts)
    asked = {
        task.key.decision_id: Asked(task.methodology, plan.universe.universe.markets, terms.get(task.key.agent.agent_id), week)
        for plan in plans
        for task in plan.tasks
    }
    made: list[tuple[Task, Decided]] = []
    with asking(world.models, asked, world.records, world.registry, world.budgets) as ask:
        for plan in plans:
            due = [task for task in plan.tasks if task.key.decision_id not in left]
            made += zip(due, decide_all(due, Means(world.records, ask, partial(_look, world, plan), _clock(world, plan))), strict=True)
    made += [
        (task, standing(task, world.records, DecisionState.OPEN, left[task.key.decision_id], over=True))
        for task in tasks
        if task.key.decision_id in left
    ]
    made.sort(key=lambda pair: order[pair[0].key.decision_id])
    cohorts = sorted((one for plan in plans for one in plan.cohorts), key=lambda one: one.week, reverse=True)
    return WeekDecided(week, {plan.venue: plan.universe for plan in plans}, cohort, cohorts, made)


def _clock(world: World, plan: WeekPlanned) -> Callable[[], datetime]:
    """The clock of a plan's decisions; that of a past week does not move."""
    at = plan.standing.at
    return (lambda: at) if plan.universe.reconstructed else world.now


def _left_alone(world: World, tasks: Sequence[Task]) -> dict[str, str]:
    """Decisions that a run may not touch, with the reason."""
    closed = closures(world.records)
    found = {}
    for task in tasks:
        if (end := closed.get(task.key.agent.agent_id)) is not None:
            found[task.key.decision_id] = f"its agent was closed by {end.author}"
        elif _overtaken(world.records, task):
            found[task.key.decision_id] = "a later week of this agent was decided before: weeks are decided in order"
    return found


def _overtaken(records: Records, task: Task) -> bool:
    """Return whether an agent has decided a later week, and not this one: its books would no longer be in order."""
    if records.stored("prompt", task.key.decision_id) is not None:
        return False
    last = task.key.agent.cohort + (task.methodology.decision_cohorts - 1) * WEEK
    later = task.key.week + WEEK
    while later <= last:
        if records.stored("prompt", replace(task.key, week=later).decision_id) is not None:
            return True
        later += WEEK
    return False


def _look(world: World, plan: WeekPlanned, decision: Decision) -> MarketData:
    """The quotes of a decision: those of now, or of the plan's time where its week is past."""
    listed, before, data = plan.universe.universe.by_id, plan.standing, world.data(plan.venue)
    wanted = {name: before.markets[name] for name in _wanted(plan, decision) if name in before.markets}
    if plan.universe.reconstructed:
        quotes = {**before.quotes, **data.past_quotes({name: market for name, market in wanted.items() if name in listed}, before.at)}
        return MarketData(listed, quotes, before.at, _outside(before.markets, listed))
    if not wanted:
        return MarketData(listed, {}, world.now())
    statuses, quotes = data.look(wanted, world.now())
    fresh = _with_status(before.markets, statuses)
    return MarketData({name: fresh[name] for name in listed}, quotes, world.now(), _outside(fresh, listed))


def _wanted(plan: WeekPlanned, decision: Decision) -> list[str]:
    positions = [plan.standing.position(sell.position_id) for sell in decision.sells]
    return [*(bet.market_id for bet in decision.bets), *(position.market_id for position in positions if position is not None)]


def _with_status(known: Mapping[str, Market], now: Mapping[str, MarketStatus]) -> dict[str, Market]:
    """The known markets with their present status where it is known: one that has closed since is not traded."""
    return {name: replace(market, status=now.get(name, market.status)) for name, market in known.items()}


def _outside(known: Mapping[str, Market], listed: Mapping[str, Market]) -> dict[str, Market]:
    return {name: market for name, market in known.items() if name not in listed}


#: Characters that a token has on average in English; providers count differently.
CHARACTERS = 4


@dataclass(frozen=True)
class Prompted:
    """The prompt that a decision would send. tokens: of the prompt, estimated. most_cost: micro-dollars that the call may cost at most; None when no price is known.
    stored: the prompt is stored already, and a run would not make another."""

    decision_id: str
    member: str
    tokens: int
    most_cost: int | None
    stored: bool
    messages: Sequence[Message]


def preview(world: World, week: date) -> tuple[list[WeekPlanned], list[Prompted]]:
    """The week as a run would make it now, on each venue on which a cohort decides, that of its own cohort first, with every prompt in the order in which
    it would be asked.

    Nothing is stored, and no request is sent.
    """
    known, plans, prompts = registered(world.registry), list[WeekPlanned](), list[Prompted]()
    for venue in venues_of(world, week):
        universe = seen_universe(world, week, venue)
        cohorts = deciding(world, week, reconstructed=universe.reconstructed, venue=venue)
        if not plans and stored_cohort(world.records, week) is None:
            cohorts = [new_cohort(world, week, reconstructed=universe.reconstructed), *cohorts]
        plan, terms = planned(world, week, venue, universe, cohorts), terms_by_agent(cohorts)
        plans.append(plan)
        prompts += [_prompted(world, task, known, terms.get(task.key.agent.agent_id)) for task in plan.tasks]
    return plans, prompts


def _prompted(world: World, task: Task, known: Mapping[str, Model], terms: Terms | None) -> Prompted:
    asked = list(task.messages())
    name = task.key.decision_id
    stored = world.records.stored("prompt", name) is not None
    tokens = -(-sum(len(one["content"]) for one in asked) // CHARACTERS)
    if rule_of(task.model) is not None:
        return Prompted(name, task.model, 0, 0, stored, asked)

    model = model_of(task.model, task.methodology, known, terms)
    return Prompted(
        name,
        task.model,
        tokens,
        most_cost(model, asked, {**model.request_parameters, **parameters_of(model, task.methodology)}),
        stored,
        asked,
    )
