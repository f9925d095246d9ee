"""Decisions of agents, each exactly once: prompt, intent and execution are records of the journal, and a run makes the missing ones.

Prompt and intent are stored before they are acted on. Whatever a run was killed at, the next one finds what was stored, asks no model for an answer that
is there, and executes from storage. An outage leaves the decision open for the next run before the deadline; it never becomes a HOLD.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from bellwether.arena.account import Account, AgentStatus
from bellwether.arena.decision import Action, Decision, DecisionState
from bellwether.arena.execution import MarketData, execute
from bellwether.arena.identity import DecisionKey
from bellwether.arena.methodology import Methodology
from bellwether.arena.parsing import parse_decision
from bellwether.arena.prompt import VERSION, again
from bellwether.arena.records import Execution, Intent, Plan, all_stored, once, stored
from bellwether.arena.validation import Limits
from bellwether.errors import BellwetherError
from bellwether.forecasting.prompt import Message, prompt_hash
from bellwether.journal.records import InProgress, Records
from bellwether.models.reply import Answer, NoAnswer
from bellwether.models.scheduler import Stopped
from bellwether.units import MicroDollars

#: Asks a model: its name, the messages, the decision's id and the number of the sample; at most once for the same of these four. An answer without an
#: attempt is of a rule, and no call.
Ask = Callable[[str, Sequence[Message], str, int], Answer | NoAnswer]
#: Fetches the quotes for a decision now, together with the markets and the time.
Look = Callable[[Decision], MarketData]


@dataclass(frozen=True)
class Task:
    """The decision of one agent.

    account: as of the start of the run. messages: makes the prompt. place: in the order of the cohort, from 1. digest: of the universe. deadline: after
    which no request is sent and no refused leg is executed again. owners: agent by position, of all positions. past: the week is reconstructed, so that its quotes never
    change. version: of the prompt.
    """

    key: DecisionKey
    model: str
    methodology: Methodology
    account: Account
    messages: Callable[[], Sequence[Message]]
    deadline: datetime
    place: int = 1
    digest: str = ""
    owners: Mapping[str, str] = field(default_factory=dict)
    past: bool = False
    version: str = VERSION

    def is_over(self, now: datetime) -> bool:
        """Return whether a decision stays refused after all of its legs were."""
        return self.past or now >= self.deadline


@dataclass(frozen=True)
class Decided:
    """A decision after a run.

    reason: why it is not finished, why every leg was refused, or why nothing was done. calls, cost: of one that failed, the keys of its calls and the micro-dollars of all their
    attempts, None when a part is not known; the intent has those of the others.
    """

    decision_id: str
    state: DecisionState
    plan: Plan | None = None
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
class Means:
    """Means of a run: records of the journal, callables that request answers and quotes, and the time."""

    records: Records
    ask: Ask
    look: Look
    now: Callable[[], datetime]


class _Open(Exception):
    def __init__(self, state: DecisionState, reason: str, calls: tuple[str, ...] = (), cost: int | None = None) -> None:
        self.state, self.reason, self.calls, self.cost = state, reason, calls, cost


def decide_all(tasks: Iterable[Task], means: Means) -> list[Decided]:
    """The decisions of several agents, strictly one after another, in the order given.

    Where no call to a model can succeed (credit, key, budget), the run stops: what comes after is BLOCKED, with the reason, and asked by the next run.
    Any other failure concerns its agent alone.
    """
    found: list[Decided] = []
    blocked: str | None = None
    for task in tasks:
        if blocked is not None:
            found.append(standing(task, means.records, DecisionState.BLOCKED, blocked, over=task.is_over(means.now())))
            continue
        found.append(decide(task, means))
        if found[-1].state is DecisionState.BLOCKED:
            blocked = found[-1].reason
    return found


def decide(task: Task, means: Means) -> Decided:
    """Do what is left of one decision."""
    left = partial(standing, task, means.records, over=task.is_over(means.now()))
    try:
        return _decide(task, means)
    except _Open as found:
        return replace(left(found.state, found.reason), calls=found.calls, cost=found.cost)
    except InProgress as busy:
        return left(DecisionState.IN_PROGRESS, str(busy))
    except Stopped as stopped:
        state = DecisionState.OPEN if stopped.kind == "unreachable" else DecisionState.BLOCKED  # other models have other endpoints
        return left(state, str(stopped))
    except BellwetherError as error:
        return left(DecisionState.OPEN, str(error))


def standing(task: Task, records: Records, otherwise: DecisionState, reason: str, *, over: bool) -> Decided:
    """The decision as it is stored, without doing anything: FINISHED, REFUSED, READ, or else `otherwise` for the reason given.

    over: it is not executed again.
    """
    name = task.key.decision_id
    plan, intent = stored(records, Plan, name), stored(records, Intent, name)
    if intent is None:
        return Decided(name, otherwise, plan, reason=reason)
    executions = all_stored(records, Execution, name)
    if not executions:
        return Decided(name, DecisionState.READ, plan, intent, None, reason)
    return executed(name, plan, intent, executions[-1], over=over)


def executed(name: str, plan: Plan | None, intent: Intent, done: Execution, *, over: bool) -> Decided:
    """The decision after an execution. over: it is not executed again."""
    if _is_final(intent, done):
        return Decided(name, DecisionState.FINISHED, plan, intent, done)
    counts = Counter(str(one.reason) for one in done.refusals)
    reason = f"every leg was refused: {', '.join(f'{word} ({number})' for word, number in sorted(counts.items()))}"
    return Decided(name, DecisionState.REFUSED if over else DecisionState.READ, plan, intent, done, reason)


def _decide(task: Task, means: Means) -> Decided:
    name, records = task.key.decision_id, means.records
    known = stored(records, Intent, name)
    if known is None:
        _check_open(task, means.now())
    plan = once(records, Plan, name, partial(_plan, task, means.now))
    intent = known or once(records, Intent, name, partial(_intent, task, plan, means.ask))
    done = _execution(task, plan, intent, means)
    return executed(name, plan, intent, done, over=task.is_over(means.now()))


def _check_open(task: Task, now: datetime) -> None:
    if task.account.status(task.methodology.least) is AgentStatus.BANKRUPT:
        raise _Open(DecisionState.FINISHED, "bankrupt: it is not asked")
    if now >= task.deadline:
        raise _Open(DecisionState.OPEN, f"the deadline {task.deadline.isoformat()} is over and there is no decision")


def _plan(task: Task, now: Callable[[], datetime]) -> Plan:
    messages = list(task.messages())
    cash = max(task.account.cash, MicroDollars(0))
    return Plan(task.model, messages, cash, task.place, prompt_hash(messages), task.version, task.digest, now())


def _intent(task: Task, plan: Plan, ask: Ask) -> Intent:
    """Ask until an answer can be used, as often as the methodology retries the form; the last answer counts."""
    limits = Limits.of(task.methodology, plan.cash)
    messages, calls = plan.messages, list[str]()
    costs: list[int | None] = []
    decision: Decision | None = None
    for sample in range(task.methodology.malformed_retries + 1):
        answer = ask(plan.model, messages, task.key.decision_id, sample)
        if answer.attempts:
            calls.append(str(answer.key))
        if isinstance(answer, NoAnswer):
            said, decision = "", _without_text(answer, limits, tuple(calls), costs)
        else:
            said, decision = answer.content, parse_decision(answer.content, limits, ended=answer.ended)
            costs.append(answer.spent.cost)
        if decision.action is not Action.INVALID:
            break
        messages = again(plan.messages, said, decision)
    assert decision is not None
    return Intent(decision, tuple(calls), _sum(costs))


def _without_text(answer: NoAnswer, limits: Limits, calls: tuple[str, ...], costs: list[int | None]) -> Decision:
    """The INVALID decision of an answer without text, which is requested again; any other call without an answer leaves the decision open, or failed."""
    reason = f"{answer.outcome}: {answer.reason}"
    if not answer.final:
        raise _Open(DecisionState.OPEN, reason)
    costs.append(answer.usage.cost)
    if not answer.without_text:
        raise _Open(DecisionState.FAILED, reason, calls, _sum(costs))
    return parse_decision("", limits)


def _sum(costs: Sequence[int | None]) -> int | None:
    """Micro-dollars; None when a part is not known."""
    return None if None in costs else sum(cost or 0 for cost in costs)


def _execution(task: Task, plan: Plan, intent: Intent, means: Means) -> Execution:
    """Execute what was read. A decision whose legs were all refused is executed again by the next run before the deadline, without a call."""
    name, before = task.key.decision_id, all_stored(means.records, Execution, task.key.decision_id)
    if before and (_is_final(intent, before[-1]) or task.is_over(means.now())):
        return before[-1]
    return once(means.records, Execution, name, partial(_executed, task, plan, intent, means.look), len(before))


def _executed(task: Task, plan: Plan, intent: Intent, look: Look) -> Execution:
    data = look(intent.decision)
    done = execute(intent.decision, task.key, task.account, data, task.methodology, owners=task.owners, base=plan.cash)
    return Execution(done.trades, done.refusals, data.at)


def _is_final(intent: Intent, execution: Execution) -> bool:
    return bool(execution.trades) or not intent.decision.legs
