"""Decisions of a week, each exactly once: prompt, intent and executions are records of the journal, and a run makes the missing ones.

Prompt and intent are stored before they are acted on. Whatever a run was killed at, the next one finds what was stored, sends no request for an answer
that is stored, and executes from storage. An outage leaves the decision open for the next run before the deadline; it never becomes a HOLD.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial

from bellwether.arena.account import Account, AgentStatus
from bellwether.arena.decision import Action, Decision, DecisionState
from bellwether.arena.execution import MarketData, execute
from bellwether.arena.identity import WEEK, AgentKey, DecisionKey, decision_order, week_number, week_start
from bellwether.arena.lifecycle import decision_deadline
from bellwether.arena.market import Market, MarketStatus
from bellwether.arena.methodology import Venue
from bellwether.arena.parsing import Limits, parse_decision
from bellwether.arena.prompt import build_messages, build_portfolio, retry_messages
from bellwether.arena.records import (
    DecisionPlan,
    Execution,
    FrozenCohort,
    FrozenUniverse,
    Intent,
    load_closures,
    load_record,
    load_records,
    store_once,
)
from bellwether.arena.weekly import ledgers
from bellwether.arena.weekly.context import (
    WeekContext,
    cohort_methodology,
    deciding_cohorts,
    decision_time,
    freeze_cohort,
    freeze_universe,
    list_venues,
)
from bellwether.arena.weekly.model_calls import AnswerRequest, Task, open_model_calls
from bellwether.errors import BellwetherError, ConfigError
from bellwether.forecasting.prompt import Message, prompt_hash
from bellwether.journal.records import InProgress, Records
from bellwether.models.response import NoAnswer
from bellwether.models.scheduler import Stopped
from bellwether.units import MicroDollars


@dataclass(frozen=True)
class DecisionOutcome:
    """A decision after a run.

    reason: why it is not finished, why every leg was refused, or why nothing was done. calls, cost: of one that failed, the keys of its calls and the
    micro-dollars of all their attempts, None when a part is not known; the intent has those of the others.
    """

    decision_id: str
    state: DecisionState
    plan: DecisionPlan | None = None
    intent: Intent | None = None
    execution: Execution | None = None
    reason: str = ""
    calls: tuple[str, ...] = ()
    cost: int | None = None

    @property
    def problem(self) -> bool:
        """Return whether an operator should look: not finished, or with legs that have no trade."""
        asked = self.intent.decision.legs if self.intent is not None else 0
        made = len(self.execution.trades) if self.execution is not None else 0
        return self.state is not DecisionState.FINISHED or made < asked


@dataclass(frozen=True)
class WeekDecisions:
    """A week after a run: its universes by venue, that of its own cohort first; that cohort (None when none was started); the cohorts that decide, and
    every decision with its task, in the order in which they were made."""

    week: date
    universes: Mapping[Venue, FrozenUniverse]
    cohort: FrozenCohort | None
    cohorts: Sequence[FrozenCohort]
    decisions: Sequence[tuple[Task, DecisionOutcome]]

    @property
    def universe(self) -> FrozenUniverse:
        """The universe of the week's own cohort."""
        return next(iter(self.universes.values()))


def decide_week(world: WeekContext, week: date, *, forced: bool = True) -> WeekDecisions:
    """Do what is left of a week's decisions. What was done is used as it is stored; a week before one that an agent has decided stays as it is."""
    universes = {venue: freeze_universe(world, week, venue) for venue in list_venues(world, week)}
    own_venue, own = next(iter(universes.items()))
    cohort = freeze_cohort(world, week, reconstructed=own.reconstructed, forced=forced)
    if cohort is not None and (cohort.reconstructed != own.reconstructed or cohort_methodology(world, cohort).venue != own_venue):
        raise ConfigError(
            f"running the week {week}: its cohort and its universe are not both live, or of one venue; this journal cannot have come from one arena"
        )
    cohorts = {venue: deciding_cohorts(world, week, reconstructed=one.reconstructed, venue=venue) for venue, one in universes.items()}
    by_venue = [plan_tasks(world, week, universe, cohorts[venue]) for venue, universe in universes.items()]
    tasks = [task for of_venue in by_venue for task in of_venue]
    left = _find_untouchable(world, tasks)
    made = {
        name: load_outcome(task, world.records, DecisionState.OPEN, left[name], over=True)
        for task in tasks
        if (name := task.key.decision_id) in left
    }
    with open_model_calls(world) as ask:
        for of_venue in by_venue:
            due = [task for task in of_venue if task.key.decision_id not in left]
            made |= {one.decision_id: one for one in decide_all(due, world.records, ask, world.now)}
    newest_first = sorted((one for found in cohorts.values() for one in found), key=lambda one: one.week, reverse=True)
    return WeekDecisions(week, universes, cohort, newest_first, [(task, made[task.key.decision_id]) for task in tasks])


def plan_tasks(world: WeekContext, week: date, universe: FrozenUniverse, cohorts: Sequence[FrozenCohort]) -> list[Task]:
    """The tasks of cohorts of one venue in a week, the newest cohort first, its agents in the week's order; of agents that were closed, those that were begun."""
    at = decision_time(week) if universe.reconstructed else world.now()
    before = ledgers.build_week_state(world, week, universe.venue, cohorts, universe.universe, at=at, reconstructed=universe.reconstructed)
    closed = load_closures(world.records)
    return [
        task
        for cohort in cohorts
        for task in _plan_cohort_tasks(world, week, cohort, universe, before)
        if task.key.agent.agent_id not in closed or _is_begun(world.records, task.key)
    ]


def _is_begun(records: Records, key: DecisionKey) -> bool:
    return records.stored("prompt", key.decision_id) is not None


def _plan_cohort_tasks(
    world: WeekContext, week: date, cohort: FrozenCohort, universe: FrozenUniverse, before: ledgers.WeekState
) -> Iterator[Task]:
    rules, number, owners = cohort_methodology(world, cohort), week_number(week_start(cohort.week), before.at), before.owners
    for place, family in enumerate(decision_order(cohort.members, week), start=1):
        key = DecisionKey(AgentKey(cohort.week, family), week)
        account = before.account(key.agent.agent_id)

        def said(account: Account = account) -> list[Message]:
            held = build_portfolio(account, before.prices, before.markets)
            return build_messages(rules, held, universe.universe.markets, today=before.at.date(), week=number, version=cohort.prompt)

        yield Task(
            key=key,
            model=cohort.members[family],
            methodology=rules,
            account=account,
            messages=said,
            look=partial(_fetch_market_data, world, universe, before),
            deadline=decision_deadline(week, rules),
            universe=universe.universe,
            place=place,
            owners=owners,
            terms=cohort.terms.get(family),
            at=before.at if universe.reconstructed else None,
            version=cohort.prompt,
        )


def _find_untouchable(world: WeekContext, tasks: Sequence[Task]) -> dict[str, str]:
    """Decisions that a run may not touch, with the reason."""
    closed = load_closures(world.records)
    found = {}
    for task in tasks:
        if (end := closed.get(task.key.agent.agent_id)) is not None:
            found[task.key.decision_id] = f"its agent was closed by {end.author}"
        elif _is_overtaken(world.records, task):
            found[task.key.decision_id] = "a later week of this agent was decided before: weeks are decided in order"
    return found


def _is_overtaken(records: Records, task: Task) -> bool:
    if _is_begun(records, task.key):
        return False
    last = task.key.agent.cohort + (task.methodology.decision_cohorts - 1) * WEEK
    later = range(1, (last - task.key.week) // WEEK + 1)
    return any(_is_begun(records, replace(task.key, week=task.key.week + number * WEEK)) for number in later)


def _fetch_market_data(world: WeekContext, universe: FrozenUniverse, before: ledgers.WeekState, decision: Decision) -> MarketData:
    """The quotes of a decision: those of now, or of the week's time where it is past."""
    listed, data = universe.universe.by_id, world.data(universe.venue)
    sold = (before.position(sell.position_id) for sell in decision.sells)
    named = [*(bet.market_id for bet in decision.bets), *(position.market_id for position in sold if position is not None)]
    wanted = {name: before.markets[name] for name in named if name in before.markets}
    if universe.reconstructed:
        quotes = {**before.quotes, **data.past_quotes({name: market for name, market in wanted.items() if name in listed}, before.at)}
        return MarketData(listed, quotes, before.at, _drop_listed(before.markets, listed))
    if not wanted:
        return MarketData(listed, {}, world.now())
    statuses, quotes = data.look(wanted, world.now())
    fresh = update_status(before.markets, statuses)
    return MarketData({name: fresh[name] for name in listed}, quotes, world.now(), _drop_listed(fresh, listed))


def update_status(known: Mapping[str, Market], now: Mapping[str, MarketStatus]) -> dict[str, Market]:
    """The known markets with their present status where it is known: one that has closed since is not traded."""
    return {name: replace(market, status=now.get(name, market.status)) for name, market in known.items()}


def _drop_listed(known: Mapping[str, Market], listed: Mapping[str, Market]) -> dict[str, Market]:
    return {name: market for name, market in known.items() if name not in listed}


class _Unfinished(Exception):
    def __init__(self, state: DecisionState, reason: str, calls: tuple[str, ...] = (), cost: int | None = None) -> None:
        self.state, self.reason, self.calls, self.cost = state, reason, calls, cost


def decide_all(tasks: Iterable[Task], records: Records, ask: AnswerRequest, now: Callable[[], datetime]) -> list[DecisionOutcome]:
    """The decisions of several agents, strictly one after another, in the order given.

    Where no call to a model can succeed (credit, key, budget), the run stops: what comes after is BLOCKED, with the reason, and left to the next run.
    Any other failure concerns its agent alone.
    """
    found: list[DecisionOutcome] = []
    blocked: str | None = None
    for task in tasks:
        if blocked is not None:
            found.append(load_outcome(task, records, DecisionState.BLOCKED, blocked, over=task.is_over(now())))
            continue
        found.append(decide(task, records, ask, now))
        if found[-1].state is DecisionState.BLOCKED:
            blocked = found[-1].reason
    return found


def decide(task: Task, records: Records, ask: AnswerRequest, now: Callable[[], datetime]) -> DecisionOutcome:
    """Do what is left of one decision."""
    left, at = partial(load_outcome, task, records, over=task.is_over(now())), task.at
    try:
        return _complete_decision(task, records, ask, now if at is None else lambda: at)
    except _Unfinished as found:
        return replace(left(found.state, found.reason), calls=found.calls, cost=found.cost)
    except InProgress as busy:
        return left(DecisionState.IN_PROGRESS, str(busy))
    except Stopped as stopped:
        state = DecisionState.OPEN if stopped.kind == "unreachable" else DecisionState.BLOCKED  # other models have other endpoints
        return left(state, str(stopped))
    except BellwetherError as error:
        return left(DecisionState.OPEN, str(error))


def load_outcome(task: Task, records: Records, otherwise: DecisionState, reason: str, *, over: bool) -> DecisionOutcome:
    """The decision as it is stored, without doing anything: FINISHED, REFUSED, READ, or else `otherwise` for the reason given.

    over: it is not executed again.
    """
    name = task.key.decision_id
    plan, intent = load_record(records, DecisionPlan, name), load_record(records, Intent, name)
    if intent is None:
        return DecisionOutcome(name, otherwise, plan, reason=reason)
    executions = load_records(records, Execution, name)
    if not executions:
        return DecisionOutcome(name, DecisionState.READ, plan, intent, None, reason)
    return outcome_of_execution(name, plan, intent, executions[-1], over=over)


def outcome_of_execution(name: str, plan: DecisionPlan | None, intent: Intent, done: Execution, *, over: bool) -> DecisionOutcome:
    """The decision after an execution. over: it is not executed again."""
    if _is_final(intent, done):
        return DecisionOutcome(name, DecisionState.FINISHED, plan, intent, done)
    counts = Counter(str(one.reason) for one in done.refusals)
    reason = f"every leg was refused: {', '.join(f'{word} ({number})' for word, number in sorted(counts.items()))}"
    return DecisionOutcome(name, DecisionState.REFUSED if over else DecisionState.READ, plan, intent, done, reason)


def _complete_decision(task: Task, records: Records, ask: AnswerRequest, now: Callable[[], datetime]) -> DecisionOutcome:
    name, known = task.key.decision_id, load_record(records, Intent, task.key.decision_id)
    if known is None:
        if task.account.status(task.methodology.least) is AgentStatus.BANKRUPT:
            raise _Unfinished(DecisionState.FINISHED, "bankrupt: it is not asked")
        if now() >= task.deadline:
            raise _Unfinished(DecisionState.OPEN, f"the deadline {task.deadline.isoformat()} is over and there is no decision")
    plan = store_once(records, DecisionPlan, name, partial(_make_plan, task, now))
    intent = known or store_once(records, Intent, name, partial(_request_intent, task, plan, ask))
    before = load_records(records, Execution, name)
    # A decision whose legs were all refused is executed again by the next run before the deadline, without a call.
    if before and (_is_final(intent, before[-1]) or task.is_over(now())):
        done = before[-1]
    else:
        done = store_once(records, Execution, name, partial(_execute_intent, task, plan, intent), len(before))
    return outcome_of_execution(name, plan, intent, done, over=task.is_over(now()))


def _make_plan(task: Task, now: Callable[[], datetime]) -> DecisionPlan:
    messages = list(task.messages())
    cash = max(task.account.cash, MicroDollars(0))
    return DecisionPlan(task.model, messages, cash, task.place, prompt_hash(messages), task.version, task.universe.digest, now())


def _request_intent(task: Task, plan: DecisionPlan, ask: AnswerRequest) -> Intent:
    """Ask until an answer can be used, as often as the methodology retries the form; the last answer counts."""
    limits = Limits.of(task.methodology, plan.cash)
    messages, calls = plan.messages, list[str]()
    costs: list[int | None] = []
    decision: Decision | None = None
    for sample in range(task.methodology.malformed_retries + 1):
        answer = ask(task, plan, messages, sample)
        if answer.attempts:
            calls.append(str(answer.key))
        if isinstance(answer, NoAnswer):
            said, decision = "", _decide_without_text(answer, limits, tuple(calls), costs)
        else:
            said, decision = answer.content, parse_decision(answer.content, limits, ended=answer.ended)
            costs.append(answer.spent.cost)
        if decision.action is not Action.INVALID:
            break
        messages = retry_messages(plan.messages, said, decision)
    assert decision is not None
    return Intent(decision, tuple(calls), _sum_costs(costs))


def _decide_without_text(answer: NoAnswer, limits: Limits, calls: tuple[str, ...], costs: list[int | None]) -> Decision:
    """The INVALID decision of an answer without text, which is requested again; any other call without an answer leaves the decision open, or failed."""
    reason = f"{answer.outcome}: {answer.reason}"
    if not answer.final:
        raise _Unfinished(DecisionState.OPEN, reason)
    costs.append(answer.usage.cost)
    if not answer.without_text:
        raise _Unfinished(DecisionState.FAILED, reason, calls, _sum_costs(costs))
    return parse_decision("", limits)


def _sum_costs(costs: Sequence[int | None]) -> int | None:
    """Micro-dollars; None when a part is not known."""
    return None if None in costs else sum(cost or 0 for cost in costs)


def _execute_intent(task: Task, plan: DecisionPlan, intent: Intent) -> Execution:
    data = task.look(intent.decision)
    done = execute(intent.decision, task.key, task.account, data, task.methodology, owners=task.owners, base=plan.cash)
    return Execution(done.trades, done.refusals, data.at)


def _is_final(intent: Intent, execution: Execution) -> bool:
    return bool(execution.trades) or not intent.decision.legs
