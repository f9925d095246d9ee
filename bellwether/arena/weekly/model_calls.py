"""Answers of agents: rules are evaluated, and models are called through the journal (database of calls), within the budgets of the week."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from bellwether.arena import rule_agents
from bellwether.arena.account import Account
from bellwether.arena.decision import Decision, response_format
from bellwether.arena.execution import MarketData
from bellwether.arena.identity import DecisionKey
from bellwether.arena.lineup import Terms, rule_name
from bellwether.arena.methodology import Methodology
from bellwether.arena.parsing import Limits
from bellwether.arena.records import DecisionPlan
from bellwether.arena.universe import Universe
from bellwether.arena.weekly.context import PURPOSE, WeekContext
from bellwether.errors import BellwetherError, ConfigError
from bellwether.forecasting.forecaster import Models
from bellwether.forecasting.prompt import Message
from bellwether.journal.journal import BudgetExceeded
from bellwether.journal.values import CostSource, Reply, Request, Usage
from bellwether.models.client import Answer, ModelClient, NoAnswer, journal_model_name
from bellwether.models.model import Model, models
from bellwether.models.scheduler import Stopped

_FREE = Usage(cost=0, cost_source=CostSource.UNBILLED)


@dataclass(frozen=True)
class Task:
    """A decision to be made: agent, prompt, deadline and market data.

    account: at the start of the run. messages: builds the prompt. fetch_market_data: returns markets and quotes for a decision. deadline: afterwards no
    request is sent and no refused leg is executed again. universe: the offered markets. place: in the cohort's order, from 1. owners: agent by
    position, of all positions. terms: of the model; None for rules and cohorts without terms. at: fixed time of a reconstructed week; None for
    a live one.
    """

    key: DecisionKey
    model: str
    methodology: Methodology
    account: Account
    messages: Callable[[], Sequence[Message]]
    fetch_market_data: Callable[[Decision], MarketData]
    deadline: datetime
    universe: Universe
    place: int = 1
    owners: Mapping[str, str] = field(default_factory=dict)
    terms: Terms | None = None
    at: datetime | None = None

    def is_over(self, now: datetime) -> bool:
        """Return whether refused legs are not tried again: after the deadline, and always in a reconstructed week."""
        return self.at is not None or now >= self.deadline


#: Function of task, stored plan, messages and sample number that requests an answer, at most once per sample.
#: An answer without attempts comes from a rule and is not a call.
AnswerRequest = Callable[[Task, DecisionPlan, Sequence[Message], int], Answer | NoAnswer]


class _ModelClients:
    """Model clients, opened on first use. Cohorts that use one model with different settings or prices get different clients."""

    def __init__(self, models: Models | None, portal: BlockingPortal, opened: ExitStack) -> None:
        self._models, self._portal, self._opened = models, portal, opened
        self._clients: list[tuple[dict[str, Model], ModelClient]] = []

    def of(self, model: Model) -> ModelClient:
        """Return the client for a model. Raises `ConfigError` if model calls are not allowed."""
        if self._models is None:
            raise ConfigError(f"calling {model.name}: no model client is configured; the run may only use rules")
        for entries, client in self._clients:
            if entries.setdefault(model.name, model) == model:
                return client
        client = self._opened.enter_context(self._portal.wrap_async_context_manager(self._models.client()))
        self._clients.append(({model.name: model}, client))
        return client


@contextmanager
def open_model_calls(context: WeekContext) -> Iterator[AnswerRequest]:
    """Yield a function that requests an agent's answer within the budgets of the week. Model clients are closed at the end."""
    with start_blocking_portal() as portal, ExitStack() as opened:
        clients = _ModelClients(context.models, portal, opened)
        registered: dict[str, Model] = {}
        exhausted: dict[str, str] = {}

        def request_answer(task: Task, plan: DecisionPlan, messages: Sequence[Message], sample: int) -> Answer | NoAnswer:
            rule = rule_name(plan.model)
            if rule is not None:
                return _answer_by_rule(rule, task, plan, sample)
            if not registered:
                registered.update(models(context.registry))

            model = configure_model(plan.model, task.methodology, registered, task.terms)
            terms: dict[str, Any] = {
                "purpose": PURPOSE,
                "scope": task.key.decision_id,
                "sample": sample,
                "parameters": call_parameters(model, task.methodology),
                "budgets": context.budgets.of(task.key.week, journal_model_name(model)),
            }
            try:
                return portal.call(partial(clients.of(model).ask, model, messages, **terms))
            except Stopped as stopped:
                raise _limit_error(stopped, exhausted) from stopped

        yield request_answer


def _limit_error(stopped: Stopped, exhausted: dict[str, str]) -> BellwetherError:
    """Return the error to raise when calls of a model were stopped. The error stops the whole run, unless only this model's weekly budget is
    exhausted.

    exhausted: messages by model with an exhausted budget; updated.
    """
    cause = stopped.__cause__
    if isinstance(cause, BudgetExceeded) and cause.budget.of.model is not None and cause.budget.of.scope_end is not None:
        exhausted[stopped.model] = str(cause)
    return BellwetherError(exhausted[stopped.model]) if stopped.model in exhausted else stopped


def configure_model(member: str, rules: Methodology, registered: Mapping[str, Model], terms: Terms | None = None) -> Model:
    """Return a registered model with the methodology's timeout and the cohort's settings and prices (terms). member: name of the model. Raises
    `ConfigError` for an unknown model.
    """
    if member not in registered:
        raise ConfigError(f"calling {member}: the model is missing in models.toml; restore it")
    model = registered[member] if terms is None else terms.apply_to(registered[member])
    return model.model_copy(update={"timeout": float(rules.timeout_seconds)})


def call_parameters(model: Model, rules: Methodology) -> dict[str, Any]:
    """Return the parameters of a call: max_tokens, and temperature and response_format if the model supports them."""
    return {
        "max_tokens": rules.max_tokens,
        **({"temperature": rules.temperature} if model.temperature is not None else {}),
        **({"response_format": response_format()} if model.elicitation == "json" else {}),
    }


def _answer_by_rule(rule: str, task: Task, plan: DecisionPlan, sample: int) -> Answer:
    """Return the answer of a rule, within the limits that follow from the cash in the stored prompt. The answer's key has no entry in the
    journal.
    """
    name = task.key.decision_id
    content = rule_agents.answer_by_rule(rule, task.universe.markets, Limits.of(task.methodology, plan.cash), name)
    key = Request(model=f"arena/{rule}", messages=(), purpose=PURPOSE, scope=name, sample=sample).key
    return Answer(key, Reply(content=content), attempts=0, spent=_FREE)
