"""Decisions of a week. Prompt, parsed answer (intent) and executions are journal records that are stored once; a run adds the missing ones.

Prompt and intent are stored before they are used. After an interruption the next run continues from the stored records: it sends no request for
a stored answer. After an outage the decision stays open for the next run before the deadline; it never becomes a HOLD.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from itertools import chain
from operator import attrgetter

from bellwether.arena.account import Account
from bellwether.arena.decision import Action, Decision, DecisionState
from bellwether.arena.execution import MarketData, execute
from bellwether.arena.identity import WEEK, AgentKey, DecisionKey, decision_order, week_number, week_start
from bellwether.arena.lifecycle import decision_deadline
from bellwether.arena.market import Market, MarketStatus
from bellwether.arena.methodology import Venue
from bellwether.arena.parsing import Limits, parse_decision
from bellwether.arena.prompt import VERSION, build_messages, retry_messages
from bellwether.arena.records import (
    DecisionPlan,
    Execution,
    FrozenCohort,
    FrozenUniverse,
    Intent,
    InterventionKind,
    load_by_subject,
    load_record,
    load_records,
    store_once,
)
from bellwether.arena.weekly import ledgers
from bellwether.arena.weekly.context import (
    WeekContext,
    cohort_methodology,
    decision_time,
    freeze_cohort,
    freeze_universe,
    list_deciding_cohorts,
    list_venues,
)
from bellwether.arena.weekly.model_calls import AnswerRequest, Task, open_model_calls
from bellwether.errors import BellwetherError, ConfigError
from bellwether.forecasting.prompt import Message, prompt_hash
from bellwether.journal.records import Records
from bellwether.journal.tables import sum_if_known
from bellwether.models.client import NoAnswer
from bellwether.models.scheduler import Stopped
from bellwether.units import MicroDollars


@dataclass(frozen=True)
class DecisionOutcome:
    """State and records of a decision after a run.

    reason: cause of an unfinished, refused or skipped decision. calls, cost: of a failed decision: keys of its calls, and
    cost of all attempts in micro-dollars (None if partly unknown). Other decisions have them in the intent.
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
    def call_keys(self) -> tuple[str, ...]:
        """Keys of the decision's calls, also those of a failed decision."""
        return self.intent.calls if self.intent is not None else self.calls

    @property
    def problem(self) -> bool:
        """True if the decision is unfinished or has a leg without a trade, so that an operator should check it."""
        requested = self.intent.decision.legs if self.intent is not None else 0
        executed = len(self.execution.trades) if self.execution is not None else 0
        return self.state is not DecisionState.FINISHED or executed < requested


@dataclass(frozen=True)
class WeekDecisions:
    """Decisions of a week after a run.

    universes: by venue, that of the week's own cohort first. cohort: started in this week, if any. cohorts: all that decide. decisions: with their
    tasks, in order.
    """

    week: date
    universes: Mapping[Venue, FrozenUniverse]
    cohort: FrozenCohort | None
    cohorts: Sequence[FrozenCohort]
    decisions: Sequence[tuple[Task, DecisionOutcome]]

    @property
    def universe(self) -> FrozenUniverse:
        """Universe (offered markets) of the cohort that starts in this week."""
        return next(iter(self.universes.values()))


def decide_week(context: WeekContext, week: date, *, forced: bool = True) -> WeekDecisions:
    """Make the missing decisions of a week, and return all decisions of the week. A decision is not changed after its agent has decided a later
    week. forced: start the week's cohort even after the first hour of the week.
    """
    universes = {venue: freeze_universe(context, week, venue) for venue in list_venues(context, week)}
    own_venue, own = next(iter(universes.items()))
    cohort = freeze_cohort(context, week, reconstructed=own.reconstructed, forced=forced)
    if cohort is not None and (cohort.reconstructed != own.reconstructed or cohort_methodology(context, cohort).venue != own_venue):
        raise ConfigError(
            f"running the week {week}: its cohort and its universe differ in venue or in being live; the journal is not of this arena, restore the right one"
        )
    cohorts = {
        venue: list_deciding_cohorts(context, week, reconstructed=frozen.reconstructed, venue=venue) for venue, frozen in universes.items()
    }
    by_venue = [plan_tasks(context, week, universe, cohorts[venue]) for venue, universe in universes.items()]
    tasks = [task for venue_tasks in by_venue for task in venue_tasks]
    untouchable = _find_untouchable(context, tasks)
    outcomes = {
        name: load_outcome(task, context.records, DecisionState.OPEN, untouchable[name], over=True)
        for task in tasks
        if (name := task.key.decision_id) in untouchable
    }
    with open_model_calls(context) as request_answer:
        for venue_tasks in by_venue:
            due = [task for task in venue_tasks if task.key.decision_id not in untouchable]
            outcomes |= {outcome.decision_id: outcome for outcome in decide_all(due, context.records, request_answer, context.now)}
    newest_first = sorted(chain.from_iterable(cohorts.values()), key=attrgetter("week"), reverse=True)
    return WeekDecisions(week, universes, cohort, newest_first, [(task, outcomes[task.key.decision_id]) for task in tasks])


def plan_tasks(context: WeekContext, week: date, universe: FrozenUniverse, cohorts: Sequence[FrozenCohort]) -> list[Task]:
    """Return the decisions that a venue's cohorts have to make (tasks), in the order of execution. Closed agents only have a task if the prompt
    is already stored.
    """
    at = decision_time(week) if universe.reconstructed else context.now()
    state = ledgers.build_week_state(context, week, universe.venue, cohorts, universe.universe, at=at, reconstructed=universe.reconstructed)
    closed = load_by_subject(context.records, InterventionKind.CLOSE)
    return [
        task
        for cohort in cohorts
        for task in _plan_cohort_tasks(context, week, cohort, universe, state)
        if task.key.agent.agent_id not in closed or _is_begun(context.records, task.key)
    ]


def _is_begun(records: Records, key: DecisionKey) -> bool:
    return records.stored("prompt", key.decision_id) is not None


def _plan_cohort_tasks(
    context: WeekContext, week: date, cohort: FrozenCohort, universe: FrozenUniverse, state: ledgers.WeekState
) -> Iterator[Task]:
    rules, number, owners = cohort_methodology(context, cohort), week_number(week_start(cohort.week), state.at), state.owners
    for place, family in enumerate(decision_order(cohort.members, week), start=1):
        key = DecisionKey(AgentKey(cohort.week, family), week)
        account = state.account(key.agent.agent_id)

        def write_prompt(account: Account = account) -> list[Message]:
            markets, today = universe.universe.markets, state.at.date()
            return build_messages(rules, account, markets, today=today, week=number, prices=state.prices, held=state.markets)

        yield Task(
            key=key,
            model=cohort.members[family],
            methodology=rules,
            account=account,
            messages=write_prompt,
            fetch_market_data=partial(_fetch_market_data, context, universe, state),
            deadline=decision_deadline(week, rules),
            universe=universe.universe,
            place=place,
            owners=owners,
            terms=cohort.terms.get(family),
            at=state.at if universe.reconstructed else None,
        )


def _find_untouchable(context: WeekContext, tasks: Sequence[Task]) -> dict[str, str]:
    """Return the decisions that a run must not change: the reason by decision id."""
    closed = load_by_subject(context.records, InterventionKind.CLOSE)
    reasons = {}
    for task in tasks:
        if (closure := closed.get(task.key.agent.agent_id)) is not None:
            reasons[task.key.decision_id] = f"its agent was closed by {closure.author}"
        elif _is_overtaken(context.records, task):
            reasons[task.key.decision_id] = "a later week of this agent was decided before: weeks are decided in order"
    return reasons


def _is_overtaken(records: Records, task: Task) -> bool:
    if _is_begun(records, task.key):
        return False
    last = task.key.agent.cohort + (task.methodology.decision_cohorts - 1) * WEEK
    later = range(1, (last - task.key.week) // WEEK + 1)
    return any(_is_begun(records, replace(task.key, week=task.key.week + number * WEEK)) for number in later)


def _fetch_market_data(context: WeekContext, universe: FrozenUniverse, state: ledgers.WeekState, decision: Decision) -> MarketData:
    """Return the markets and quotes for executing a decision: current ones, or past ones in a reconstructed week."""
    listed, venue = universe.universe.by_id, universe.venue
    sold = (state.position(sell.position_id) for sell in decision.sells)
    mentioned = [*(bet.market_id for bet in decision.bets), *(position.market_id for position in sold if position is not None)]
    wanted = {name: state.markets[name] for name in mentioned if name in state.markets}
    if universe.reconstructed:
        offered = {name: market for name, market in wanted.items() if name in listed}
        quotes = context.query(venue, lambda data: data.reconstruct_quotes(offered, state.at))
        return MarketData(listed, {**state.quotes, **quotes}, state.at, _drop_listed(state.markets, listed))
    if not wanted:
        return MarketData(listed, {}, context.now())
    statuses, quotes = context.query(venue, lambda data: data.fetch_quotes(wanted, context.now()))
    fresh = update_status(state.markets, statuses)
    return MarketData({name: fresh[name] for name in listed}, quotes, context.now(), _drop_listed(fresh, listed))


def update_status(markets: Mapping[str, Market], statuses: Mapping[str, MarketStatus]) -> dict[str, Market]:
    """Return markets with their current status if known, so that closed markets are not traded."""
    return {name: replace(market, status=statuses.get(name, market.status)) for name, market in markets.items()}


def _drop_listed(markets: Mapping[str, Market], listed: Mapping[str, Market]) -> dict[str, Market]:
    return {name: market for name, market in markets.items() if name not in listed}


class _Unfinished(Exception):
    def __init__(self, state: DecisionState, reason: str, calls: tuple[str, ...] = (), cost: int | None = None) -> None:
        self.state, self.reason, self.calls, self.cost = state, reason, calls, cost


def decide_all(
    tasks: Iterable[Task], records: Records, request_answer: AnswerRequest, now: Callable[[], datetime]
) -> list[DecisionOutcome]:
    """Make decisions in order, one after another, and return state and records of each.

    If no model call can succeed (credit, key, budget), the remaining decisions become BLOCKED with the reason and are left to the next run.
    Other failures only affect their own decision.
    """
    outcomes: list[DecisionOutcome] = []
    blocked: str | None = None
    for task in tasks:
        if blocked is not None:
            outcomes.append(load_outcome(task, records, DecisionState.BLOCKED, blocked, over=task.is_over(now())))
            continue
        outcomes.append(decide(task, records, request_answer, now))
        if outcomes[-1].state is DecisionState.BLOCKED:
            blocked = outcomes[-1].reason
    return outcomes


def decide(task: Task, records: Records, request_answer: AnswerRequest, now: Callable[[], datetime]) -> DecisionOutcome:
    """Make one decision: prompt, answer and execution. Known failures are returned as a state with a reason, not raised."""
    load_stored, at = partial(load_outcome, task, records, over=task.is_over(now())), task.at
    try:
        return _complete_decision(task, records, request_answer, now if at is None else lambda: at)
    except _Unfinished as unfinished:
        return replace(load_stored(unfinished.state, unfinished.reason), calls=unfinished.calls, cost=unfinished.cost)
    except Stopped as stopped:
        state = DecisionState.OPEN if stopped.kind == "unreachable" else DecisionState.BLOCKED  # other models have other endpoints
        return load_stored(state, str(stopped))
    except BellwetherError as error:
        return load_stored(DecisionState.OPEN, str(error))


def load_outcome(task: Task, records: Records, default: DecisionState, reason: str, *, over: bool) -> DecisionOutcome:
    """Load the state and records of a decision without changing it. default, reason: state and its cause if no answer is stored. over: True if
    the decision is never executed again.
    """
    name = task.key.decision_id
    plan, intent = load_record(records, DecisionPlan, name), load_record(records, Intent, name)
    if intent is None:
        return DecisionOutcome(name, default, plan, reason=reason)
    executions = load_records(records, Execution, name)
    if not executions:
        return DecisionOutcome(name, DecisionState.READ, plan, intent, None, reason)
    return outcome_of_execution(name, plan, intent, executions[-1], over=over)


def outcome_of_execution(name: str, plan: DecisionPlan | None, intent: Intent, execution: Execution, *, over: bool) -> DecisionOutcome:
    """Return the state and records of a decision after its last execution. over: True if the decision is never executed again."""
    if _is_final(intent, execution):
        return DecisionOutcome(name, DecisionState.FINISHED, plan, intent, execution)
    counts = Counter(str(refusal.reason) for refusal in execution.refusals)
    reason = f"every leg was refused: {', '.join(f'{reason_text} ({number})' for reason_text, number in sorted(counts.items()))}"
    return DecisionOutcome(name, DecisionState.REFUSED if over else DecisionState.READ, plan, intent, execution, reason)


def _complete_decision(task: Task, records: Records, request_answer: AnswerRequest, now: Callable[[], datetime]) -> DecisionOutcome:
    name, stored = task.key.decision_id, load_record(records, Intent, task.key.decision_id)
    if stored is None:
        if task.account.is_bankrupt(task.methodology.smallest_bet):
            raise _Unfinished(DecisionState.FINISHED, "bankrupt: it is not asked")
        if now() >= task.deadline:
            raise _Unfinished(DecisionState.OPEN, f"the deadline {task.deadline.isoformat()} is over and there is no decision")
    plan = store_once(records, DecisionPlan, name, partial(_make_plan, task, now))
    intent = stored or store_once(records, Intent, name, partial(_request_intent, task, plan, request_answer))
    earlier = load_records(records, Execution, name)
    # If all legs were refused, the next run before the deadline executes the decision again, without a call.
    if earlier and (_is_final(intent, earlier[-1]) or task.is_over(now())):
        execution = earlier[-1]
    else:
        execution = store_once(records, Execution, name, partial(_execute_intent, task, plan, intent), len(earlier))
    return outcome_of_execution(name, plan, intent, execution, over=task.is_over(now()))


def _make_plan(task: Task, now: Callable[[], datetime]) -> DecisionPlan:
    messages = list(task.messages())
    cash = max(task.account.cash, MicroDollars(0))
    return DecisionPlan(task.model, messages, cash, task.place, prompt_hash(messages), VERSION, task.universe.digest, now())


def _request_intent(task: Task, plan: DecisionPlan, request_answer: AnswerRequest) -> Intent:
    """Request an answer, and retry as often as the methodology allows while the answer is unusable. Return the last answer, parsed."""
    limits = Limits.of(task.methodology, plan.cash)
    messages, calls = plan.messages, list[str]()
    costs: list[int | None] = []
    decision: Decision | None = None
    for sample in range(task.methodology.malformed_retries + 1):
        answer = request_answer(task, plan, messages, sample)
        if answer.attempts:
            calls.append(str(answer.key))
        if isinstance(answer, NoAnswer):
            text, decision = "", _decide_without_text(answer, limits, tuple(calls), costs)
        else:
            text, decision = answer.content, parse_decision(answer.content, limits, ended=answer.ended)
            costs.append(answer.spent.cost)
        if decision.action is not Action.INVALID:
            break
        messages = retry_messages(plan.messages, text, decision)
    assert decision is not None
    return Intent(decision, tuple(calls), sum_if_known(costs))


def _decide_without_text(answer: NoAnswer, limits: Limits, calls: tuple[str, ...], costs: list[int | None]) -> Decision:
    """Return the INVALID decision if a call ended without text. Raises `_Unfinished` if the call failed otherwise. costs: of all calls so far;
    updated.
    """
    reason = f"{answer.outcome}: {answer.reason}"
    if not answer.final:
        raise _Unfinished(DecisionState.OPEN, reason)
    costs.append(answer.usage.cost)
    if not answer.without_text:
        raise _Unfinished(DecisionState.FAILED, reason, calls, sum_if_known(costs))
    return parse_decision("", limits)


def _execute_intent(task: Task, plan: DecisionPlan, intent: Intent) -> Execution:
    data = task.fetch_market_data(intent.decision)
    result = execute(intent.decision, task.key, task.account, data, task.methodology, owners=task.owners, base=plan.cash)
    return Execution(result.trades, result.refusals, data.at)


def _is_final(intent: Intent, execution: Execution) -> bool:
    return bool(execution.trades) or not intent.decision.legs
