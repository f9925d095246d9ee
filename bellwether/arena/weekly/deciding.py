"""Decides a week: every deciding cohort, its agents strictly one after another, each decision once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import partial

from bellwether.arena.account import Account
from bellwether.arena.deciding import Decided, Look, Means, Task, decide_all, standing
from bellwether.arena.decision import Decision
from bellwether.arena.decision_state import DecisionState
from bellwether.arena.execution import Venue
from bellwether.arena.frozen import FrozenCohort, FrozenUniverse
from bellwether.arena.identity import WEEK, AgentKey, DecisionKey, deciding_order, start_of, week_number
from bellwether.arena.interventions import closures
from bellwether.arena.market import Level, Market, Quote, wanted_tokens
from bellwether.arena.portfolio import portfolio
from bellwether.arena.prompt import messages
from bellwether.arena.states import decisions_due
from bellwether.arena.steps import Steps
from bellwether.arena.units import divided, micros, price_micros
from bellwether.arena.universe import status_of
from bellwether.arena.weekly import state
from bellwether.arena.weekly.asking import Asked, asking
from bellwether.arena.weekly.means import World, decided_at, deciding, frozen_cohort, frozen_universe, rules_of
from bellwether.errors import ConfigError
from bellwether.forecasting.prompt import Message
from bellwether.venues.polymarket import looks


@dataclass(frozen=True)
class WeekDecided:
    """A week after a run: its universe, its own cohort (None when none was started), the cohorts that decide, and every decision with its
    task, in the order in which they were made."""

    week: date
    universe: FrozenUniverse
    cohort: FrozenCohort | None
    cohorts: Sequence[FrozenCohort]
    decisions: Sequence[tuple[Task, Decided]]


@dataclass(frozen=True)
class WeekPlanned:
    """A week as it would be decided now: its universe, who decides, and each decision's task."""

    universe: FrozenUniverse
    cohorts: Sequence[FrozenCohort]
    tasks: Sequence[Task]
    standing: state.Standing


def plan_week(world: World, week: date, *, forced: bool = True) -> tuple[WeekPlanned, FrozenCohort | None]:
    """Freeze the week's universe and start its cohort, where that was not done, and make the tasks of all deciding cohorts."""
    universe = frozen_universe(world, week)
    cohort = frozen_cohort(world, week, reconstructed=universe.reconstructed, forced=forced)
    if cohort is not None and cohort.reconstructed != universe.reconstructed:
        raise ConfigError(
            f"running the week {week}: its cohort and its universe are not both live; this journal cannot have come from one arena"
        )
    return planned(world, week, universe, deciding(world, week, reconstructed=universe.reconstructed)), cohort


def planned(world: World, week: date, universe: FrozenUniverse, cohorts: Sequence[FrozenCohort]) -> WeekPlanned:
    """The tasks of cohorts in a week, the newest cohort first, its agents in the week's order; of agents that were closed, those that were begun."""
    at = decided_at(week) if universe.reconstructed else world.now()
    before = state.standing(world, week, cohorts, universe.universe, at, reconstructed=universe.reconstructed)
    tasks = [task for cohort in cohorts for task in _tasks(world, week, cohort, universe, before)]
    closed = closures(world.steps)
    tasks = [
        task for task in tasks if task.key.agent.agent_id not in closed or world.steps.stored("prompt", task.key.decision_id) is not None
    ]
    return WeekPlanned(universe, cohorts, tasks, before)


def _tasks(world: World, week: date, cohort: FrozenCohort, universe: FrozenUniverse, before: state.Standing) -> Iterator[Task]:
    rules = rules_of(world, cohort)
    owners = before.owners
    for place, family in enumerate(deciding_order(cohort.members, week), start=1):
        key = DecisionKey(AgentKey(cohort.week, family), week)
        account = before.account(key.agent.agent_id)

        def said(account: Account = account) -> list[Message]:
            held = portfolio(account, before.prices, before.markets)
            number = week_number(start_of(cohort.week), before.at)
            return messages(rules, held, universe.universe.markets, today=before.at.date(), week=number)

        deadline = decisions_due(start_of(week), rules)
        yield Task(key, cohort.members[family], rules, account, said, deadline, place, universe.universe.digest, owners)


def decide_week(world: World, week: date, *, forced: bool = True) -> WeekDecided:
    """Do what is left of a week's decisions. What was done is used as it is stored; a week before one that an agent has decided stays as it is."""
    plan, cohort = plan_week(world, week, forced=forced)
    order = {task.key.decision_id: number for number, task in enumerate(plan.tasks)}
    left = _left_alone(world, plan.tasks)
    asked = {task.key.decision_id: Asked(task.methodology, plan.universe.universe.markets) for task in plan.tasks}
    now = (lambda: plan.standing.at) if plan.universe.reconstructed else world.now
    with asking(world.models, asked, world.steps, world.registry) as ask:
        means = Means(world.steps, ask, _look(world, plan), now)
        due = [task for task in plan.tasks if task.key.decision_id not in left]
        made = list(zip(due, decide_all(due, means), strict=True))
    made += [
        (task, standing(task, world.steps, DecisionState.OPEN, left[task.key.decision_id]))
        for task in plan.tasks
        if task.key.decision_id in left
    ]
    made.sort(key=lambda pair: order[pair[0].key.decision_id])
    return WeekDecided(week, plan.universe, cohort, plan.cohorts, made)


def _left_alone(world: World, tasks: Sequence[Task]) -> dict[str, str]:
    """Decisions that a run may not touch, with the reason."""
    closed = closures(world.steps)
    found = {}
    for task in tasks:
        if (end := closed.get(task.key.agent.agent_id)) is not None:
            found[task.key.decision_id] = f"its agent was closed by {end.author}"
        elif _overtaken(world.steps, task):
            found[task.key.decision_id] = "a later week of this agent was decided before: weeks are decided in order"
    return found


def _overtaken(steps: Steps, task: Task) -> bool:
    """Whether an agent has decided a later week, and not this one: its books would no longer be in order."""
    if steps.stored("prompt", task.key.decision_id) is not None:
        return False
    last = task.key.agent.cohort + (task.methodology.decision_cohorts - 1) * WEEK
    later = task.key.week + WEEK
    while later <= last:
        if steps.stored("prompt", replace(task.key, week=later).decision_id) is not None:
            return True
        later += WEEK
    return False


def _look(world: World, plan: WeekPlanned) -> Look:
    """What fetches the quotes of a decision."""
    return partial(_past_look, plan) if plan.universe.reconstructed else partial(_present_look, world, plan)


def _wanted(plan: WeekPlanned, decision: Decision) -> list[str]:
    positions = [plan.standing.position(sell.position_id) for sell in decision.sells]
    return [*(bet.market_id for bet in decision.bets), *(position.market_id for position in positions if position is not None)]


def _past_look(plan: WeekPlanned, decision: Decision) -> Venue:
    listed, before = plan.universe.universe.by_id, plan.standing
    quotes = {
        market_id: state.quotes_of_universe(listed[market_id]) if market_id in listed else before.quotes.get(market_id, {})
        for market_id in _wanted(plan, decision)
    }
    return Venue(listed, quotes, before.at, _outside(before.markets, listed))


def _present_look(world: World, plan: WeekPlanned, decision: Decision) -> Venue:
    listed, known = plan.universe.universe.by_id, plan.standing.markets
    wanted = _wanted(plan, decision)
    if not wanted:
        return Venue(listed, {}, world.now())
    tokens = wanted_tokens(known, wanted)

    async def work(gamma: looks.GammaClient, clob: looks.ClobClient) -> tuple[looks.Seen, dict[str, looks.Book]]:
        known_ids = [market_id for market_id in dict.fromkeys(wanted) if market_id in known]
        return await looks.by_id(gamma, known_ids), await looks.books(clob, tokens)

    seen, books = world.venue(work)
    quotes: dict[str, dict[int, Quote]] = {}
    for token, (market_id, place) in tokens.items():
        if token in books:
            quotes.setdefault(market_id, {})[place] = quote_of_book(books[token])
    fresh = _with_status(known, seen)
    return Venue({name: fresh[name] for name in listed}, quotes, world.now(), _outside(fresh, listed))


def _with_status(known: Mapping[str, Market], seen: looks.Seen) -> dict[str, Market]:
    """The known markets, with where each stands now as far as that was looked at: one that has closed since is not traded."""
    now = {row["market_id"]: status_of(row) for row in seen.rows}
    return {name: replace(market, status=now.get(name, market.status)) for name, market in known.items()}


def _outside(known: Mapping[str, Market], listed: Mapping[str, Market]) -> dict[str, Market]:
    return {name: market for name, market in known.items() if name not in listed}


def quote_of_book(book: looks.Book, source: str = "clob") -> Quote:
    """A book as a quote: its midpoint where both sides are quoted, and no midpoint otherwise."""
    bid, ask = _best(book)
    return Quote(_middle(bid, ask), bid, ask, book.at, source, _levels(book.bids), _levels(book.asks))


def midpoint_of_book(book: looks.Book) -> int | None:
    """The midpoint of a book (micro-dollars), as `quote_of_book` has it."""
    return _middle(*_best(book))


def _best(book: looks.Book) -> tuple[int | None, int | None]:
    bid, ask = (price_micros(side[0][0]) if side else None for side in (book.bids, book.asks))
    return bid, ask


def _middle(bid: int | None, ask: int | None) -> int | None:
    return divided(bid + ask, 2) if bid is not None and ask is not None else None


def _levels(side: Sequence[tuple[Decimal, Decimal]]) -> tuple[Level, ...]:
    found = ((price_micros(price), micros(size)) for price, size in side)
    return tuple(Level(price, shares) for price, shares in found if price is not None and shares > 0)
