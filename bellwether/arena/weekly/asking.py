"""Gets decisions: from a rule at once, from a model through the journal, within the limits of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio.from_thread import start_blocking_portal

from bellwether.arena import trivial
from bellwether.arena.deciding import Ask
from bellwether.arena.decision import response_format
from bellwether.arena.lineup import rule_of
from bellwether.arena.market import Market
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import Plan, stored
from bellwether.arena.terms import Terms
from bellwether.arena.validation import Limits
from bellwether.arena.weekly.means import PURPOSE, UNLIMITED, WeekBudgets
from bellwether.errors import BellwetherError, ConfigError
from bellwether.forecasting.forecaster import Models
from bellwether.forecasting.prompt import Message
from bellwether.journal import BudgetExceeded, CostSource, Request, Usage
from bellwether.journal.records import Records
from bellwether.models.client import asked_as
from bellwether.models.registry import models
from bellwether.models.reply import Answer, NoAnswer
from bellwether.models.scheduler import Stopped

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from bellwether.models.client import ModelClient
    from bellwether.models.model import Model

_FREE = Usage(cost=0, cost_source=CostSource.UNBILLED)


@dataclass(frozen=True)
class Asked:
    """Basis of a decision in addition to its prompt. terms: of its model; None of a rule, and in cohorts without terms. week: that is decided."""

    rules: Methodology
    markets: Sequence[Market]
    terms: Terms | None
    week: date


class _Clients:
    """Clients of models, opened when they are needed. A client knows one entry of a name: cohorts on other terms have another."""

    def __init__(self, models: Models | None, portal: BlockingPortal) -> None:
        self._models, self._portal = models, portal
        self._open: list[tuple[dict[str, Model], ModelClient, Any]] = []

    def of(self, model: Model) -> ModelClient:
        """The client of this entry. Raises `ConfigError` where no model may be called."""
        if self._models is None:
            raise ConfigError(f"asking {model.name}: a language model needs a model client, and none was given")
        for known, client, _ in self._open:
            if known.setdefault(model.name, model) == model:
                return client
        opened = self._portal.wrap_async_context_manager(self._models.client())
        client = opened.__enter__()
        self._open.append(({model.name: model}, client, opened))
        return client

    def close(self, error: BaseException | None) -> None:
        """Close all of them, after an error or without one."""
        while self._open:
            _, _, opened = self._open.pop()
            opened.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)


@contextmanager
def asking(
    models: Models | None, decisions: Mapping[str, Asked], records: Records, registry: Path | None, budgets: WeekBudgets = UNLIMITED
) -> Iterator[Ask]:
    """Yield a callable that requests decisions, by id, within the week's budgets. Clients of models are opened with the first of them and closed at the end."""
    with start_blocking_portal() as portal:
        clients = _Clients(models, portal)
        known: dict[str, Model] = {}
        exhausted: dict[str, str] = {}

        def ask(member: str, messages: Sequence[Message], decision_id: str, sample: int) -> Answer | NoAnswer:
            about = decisions[decision_id]
            rule = rule_of(member)
            if rule is not None:
                return _ruled(rule, about, records, decision_id, sample)
            if not known:
                known.update(registered(registry))

            model = model_of(member, about.rules, known, about.terms)
            terms: dict[str, Any] = {
                "purpose": PURPOSE,
                "scope": decision_id,
                "sample": sample,
                "parameters": parameters_of(model, about.rules),
                "budgets": budgets.of(about.week, asked_as(model)),
            }
            client = clients.of(model)
            try:
                return portal.call(partial(client.ask, model, messages, **terms))
            except Stopped as stopped:
                raise _own_limit(stopped, exhausted) from stopped

        try:
            yield ask
        except BaseException as error:
            clients.close(error)
            raise
        clients.close(None)


def _own_limit(stopped: Stopped, exhausted: dict[str, str]) -> BellwetherError:
    """The error for a stopped model: if its own budget of the week is used up, others continue; anything else stops the run.

    exhausted: models whose own budget is used up, with the words.
    """
    cause = stopped.__cause__
    if isinstance(cause, BudgetExceeded) and cause.budget.of.model is not None and cause.budget.of.scope_end is not None:
        exhausted[stopped.model] = str(cause)
    return BellwetherError(exhausted[stopped.model]) if stopped.model in exhausted else stopped


def registered(folder: Path | None) -> dict[str, Model]:
    """All models of the registry by name."""
    return models(folder)


def model_of(member: str, rules: Methodology, known: Mapping[str, Model], terms: Terms | None = None) -> Model:
    """A model as a methodology asks it, on the terms of its cohort. Raises `ConfigError` when the registry has none of that name any more."""
    if member not in known:
        raise ConfigError(f"asking {member}: the registry has no model of this name any more; put it back into models.toml")
    model = known[member] if terms is None else terms.applied(known[member])
    return model.model_copy(update={"timeout": float(rules.timeout_seconds)})


def parameters_of(model: Model, rules: Methodology) -> dict[str, Any]:
    """Parameters of a call: the methodology's bounds; its temperature where the model has one; the schema where the model is held to one."""
    return {
        "max_tokens": rules.max_tokens,
        **({"temperature": rules.temperature} if model.temperature is not None else {}),
        **({"response_format": response_format()} if model.elicitation == "json" else {}),
    }


def _ruled(rule: str, about: Asked, records: Records, decision_id: str, sample: int) -> Answer:
    """The answer of a rule: no call, so that nothing is in the journal under its key. Its limits are those of the stored plan."""
    plan = stored(records, Plan, decision_id)
    assert plan is not None
    content = trivial.answer(rule, about.markets, Limits.of(about.rules, plan.cash), decision_id)
    key = Request(model=f"arena/{rule}", messages=(), purpose=PURPOSE, scope=decision_id, sample=sample).key
    return Answer(key, content, attempts=0, spent=_FREE)
