"""Gets decisions: from a rule at once, from a model through the journal, within the limits of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellwether.arena import trivial
from bellwether.arena.deciding import Ask
from bellwether.arena.decision_schema import response_format
from bellwether.arena.lineup import rule_of
from bellwether.arena.market import Market
from bellwether.arena.methodology import Methodology
from bellwether.arena.records import plan_of
from bellwether.arena.steps import WORKER, Steps
from bellwether.arena.validation import Limits
from bellwether.errors import ConfigError
from bellwether.forecasting.forecaster import Models
from bellwether.forecasting.prompt import Message
from bellwether.journal import CostSource, Request, Usage
from bellwether.models.answers import Answer, NoAnswer

if TYPE_CHECKING:
    from bellwether.models.client import ModelClient
    from bellwether.models.model import Model

PURPOSE = "arena/decisions"
_FREE = Usage(cost=0, cost_source=CostSource.UNBILLED)


@dataclass(frozen=True)
class Asked:
    """What a decision rests on in addition to its prompt."""

    rules: Methodology
    markets: Sequence[Market]


@contextmanager
def asking(models: Models | None, decisions: Mapping[str, Asked], steps: Steps, registry: Path | None) -> Iterator[Ask]:
    """What asks for decisions, by id. Models are asked by one client, which is opened with the first of them and closed at the end."""
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal:
        client: ModelClient | None = None
        known: dict[str, Model] = {}
        opened: Any = None

        def ask(member: str, messages: Sequence[Message], decision_id: str, sample: int) -> Answer | NoAnswer:
            nonlocal client, opened
            about = decisions[decision_id]
            rule = rule_of(member)
            if rule is not None:
                return _ruled(rule, about, steps, decision_id, sample)
            if models is None:
                raise ConfigError(f"asking {member}: a language model needs a model client, and none was given")
            if client is None:
                opened = portal.wrap_async_context_manager(models.client())
                client = opened.__enter__()
            if not known:
                known.update(registered(registry))
            model = model_of(member, about.rules, known)
            terms: dict[str, Any] = {
                "purpose": PURPOSE,
                "scope": decision_id,
                "sample": sample,
                "parameters": parameters_of(model, about.rules),
            }
            return portal.call(partial(client.ask, model, messages, **terms))

        try:
            yield ask
        except BaseException as error:
            if opened is not None:
                opened.__exit__(type(error), error, error.__traceback__)
            raise
        if opened is not None:
            opened.__exit__(None, None, None)


def registered(folder: Path | None) -> dict[str, Model]:
    """All models of the registry by name."""
    from bellwether.models.registry import models

    return models(folder)


def model_of(member: str, rules: Methodology, known: Mapping[str, Model]) -> Model:
    """A model as a methodology asks it. Raises `ConfigError` when the registry has none of that name any more."""
    if member not in known:
        raise ConfigError(f"asking {member}: the registry has no model of this name any more; put it back into models.toml")
    return known[member].model_copy(update={"timeout": float(rules.timeout_seconds)})


def parameters_of(model: Model, rules: Methodology) -> dict[str, Any]:
    """Parameters of a call: the methodology's bounds; its temperature where the model has one; the schema where the model is held to one."""
    return {
        "max_tokens": rules.max_tokens,
        **({"temperature": rules.temperature} if model.temperature is not None else {}),
        **({"response_format": response_format()} if model.elicitation == "json" else {}),
    }


def _ruled(rule: str, about: Asked, steps: Steps, decision_id: str, sample: int) -> Answer:
    """The answer of a rule: no call, so that nothing is in the journal under its key. Its limits are those of the stored plan."""
    body = steps.stored("prompt", decision_id)
    assert body is not None
    content = trivial.answer(rule, about.markets, Limits.of(about.rules, plan_of(body).cash), decision_id)
    key = Request(model=f"{WORKER}/{rule}", messages=(), purpose=PURPOSE, scope=decision_id, sample=sample).key
    return Answer(key, content, attempts=0, spent=_FREE)
