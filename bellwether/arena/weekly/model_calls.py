"""Answers of agents: of a rule at once, of a model through the journal, within the budgets of its week."""

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
from bellwether.arena.prompt import VERSION
from bellwether.arena.records import DecisionPlan
from bellwether.arena.universe import Universe
from bellwether.arena.weekly.context import PURPOSE, WeekContext
from bellwether.errors import BellwetherError, ConfigError
from bellwether.forecasting.forecaster import Models
from bellwether.forecasting.prompt import Message
from bellwether.journal import BudgetExceeded, CostSource, Request, Usage
from bellwether.models.client import ModelClient, asked_as
from bellwether.models.model import Model
from bellwether.models.registry import models
from bellwether.models.response import Answer, NoAnswer
from bellwether.models.scheduler import Stopped

_FREE = Usage(cost=0, cost_source=CostSource.UNBILLED)


@dataclass(frozen=True)
class Task:
    """The decision of one agent.

    account: as of the start of the run. messages: makes the prompt. look: fetches the quotes for a decision, together with the markets and the time.
    deadline: after which no request is sent and no refused leg is executed again. universe: the markets shown. place: in the order of the cohort, from 1.
    owners: agent by position, of all positions. terms: of its model; None of a rule, and in cohorts without terms. at: of a reconstructed week, whose
    clock and quotes stay; None of a live one. version: of the prompt.
    """

    key: DecisionKey
    model: str
    methodology: Methodology
    account: Account
    messages: Callable[[], Sequence[Message]]
    look: Callable[[Decision], MarketData]
    deadline: datetime
    universe: Universe
    place: int = 1
    owners: Mapping[str, str] = field(default_factory=dict)
    terms: Terms | None = None
    at: datetime | None = None
    version: str = VERSION

    def is_over(self, now: datetime) -> bool:
        """Return whether a decision stays refused after all of its legs were."""
        return self.at is not None or now >= self.deadline


#: Requests an answer for a task with its stored prompt: the messages and the number of the sample; at most once for the same sample. An answer without
#: an attempt is of a rule, and no call.
AnswerRequest = Callable[[Task, DecisionPlan, Sequence[Message], int], Answer | NoAnswer]


class _ModelClients:
    """Clients of models, opened when they are needed. A client knows one entry of a name: cohorts on other terms have another."""

    def __init__(self, models: Models | None, portal: BlockingPortal, opened: ExitStack) -> None:
        self._models, self._portal, self._opened = models, portal, opened
        self._clients: list[tuple[dict[str, Model], ModelClient]] = []

    def of(self, model: Model) -> ModelClient:
        """The client of this entry. Raises `ConfigError` where no model may be called."""
        if self._models is None:
            raise ConfigError(f"asking {model.name}: a language model needs a model client, and none was given")
        for known, client in self._clients:
            if known.setdefault(model.name, model) == model:
                return client
        client = self._opened.enter_context(self._portal.wrap_async_context_manager(self._models.client()))
        self._clients.append(({model.name: model}, client))
        return client


@contextmanager
def open_model_calls(world: WeekContext) -> Iterator[AnswerRequest]:
    """Yield a callable that requests answers within the budgets of their weeks. Clients of models are opened with the first of them and closed at the end."""
    with start_blocking_portal() as portal, ExitStack() as opened:
        clients = _ModelClients(world.models, portal, opened)
        known: dict[str, Model] = {}
        exhausted: dict[str, str] = {}

        def ask(task: Task, plan: DecisionPlan, messages: Sequence[Message], sample: int) -> Answer | NoAnswer:
            rule = rule_name(plan.model)
            if rule is not None:
                return _answer_by_rule(rule, task, plan, sample)
            if not known:
                known.update(models(world.registry))

            model = configure_model(plan.model, task.methodology, known, task.terms)
            terms: dict[str, Any] = {
                "purpose": PURPOSE,
                "scope": task.key.decision_id,
                "sample": sample,
                "parameters": call_parameters(model, task.methodology),
                "budgets": world.budgets.of(task.key.week, asked_as(model)),
            }
            try:
                return portal.call(partial(clients.of(model).ask, model, messages, **terms))
            except Stopped as stopped:
                raise _limit_error(stopped, exhausted) from stopped

        yield ask


def _limit_error(stopped: Stopped, exhausted: dict[str, str]) -> BellwetherError:
    """The error for a stopped model: if its own budget of the week is used up, others continue; anything else stops the run.

    exhausted: models whose own budget is used up, with the words.
    """
    cause = stopped.__cause__
    if isinstance(cause, BudgetExceeded) and cause.budget.of.model is not None and cause.budget.of.scope_end is not None:
        exhausted[stopped.model] = str(cause)
    return BellwetherError(exhausted[stopped.model]) if stopped.model in exhausted else stopped


def configure_model(member: str, rules: Methodology, known: Mapping[str, Model], terms: Terms | None = None) -> Model:
    """A model as a methodology asks it, on the terms of its cohort. Raises `ConfigError` when the registry has none of that name any more."""
    if member not in known:
        raise ConfigError(f"asking {member}: the registry has no model of this name any more; put it back into models.toml")
    model = known[member] if terms is None else terms.applied(known[member])
    return model.model_copy(update={"timeout": float(rules.timeout_seconds)})


def call_parameters(model: Model, rules: Methodology) -> dict[str, Any]:
    """Parameters of a call: the methodology's bounds; its temperature where the model has one; the schema where the model is held to one."""
    return {
        "max_tokens": rules.max_tokens,
        **({"temperature": rules.temperature} if model.temperature is not None else {}),
        **({"response_format": response_format()} if model.elicitation == "json" else {}),
    }


def _answer_by_rule(rule: str, task: Task, plan: DecisionPlan, sample: int) -> Answer:
    """The answer of a rule: no call, so that nothing is in the journal under its key. Its limits are those of the stored prompt."""
    name = task.key.decision_id
    content = rule_agents.answer_by_rule(rule, task.universe.markets, Limits.of(task.methodology, plan.cash), name)
    key = Request(model=f"arena/{rule}", messages=(), purpose=PURPOSE, scope=name, sample=sample).key
    return Answer(key, content, attempts=0, spent=_FREE)
