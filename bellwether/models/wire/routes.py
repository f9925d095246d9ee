"""Which model is asked over which transport."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bellwether.models.prices import listed
from bellwether.models.providers import BY_PREFIX, LOCAL, SANDBOX

if TYPE_CHECKING:
    from bellwether.models.keys import Endpoint
    from bellwether.models.model import Model

#: OpenAI's interface comes with this way to hand over the key; Anthropic and Google have their own of both.
_BEARER = "Bearer "
#: Parameters that a provider's own interface calls otherwise. OpenAI's reasoning models refuse `max_tokens`.
_RENAMED: Mapping[str, Mapping[str, str]] = {
    "openai": {"max_tokens": "max_completion_tokens"},
    "mistral": {"seed": "random_seed"},
}


@dataclass(frozen=True, slots=True)
class Route:
    """An interface that speaks OpenAI's chat completions: its address, and what it calls some parameters."""

    url: str
    renamed: Mapping[str, str] = field(default_factory=dict)

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """`given` under the names of this interface. None is left out, nothing else is dropped: what is recorded is what was sent."""
        return {self.renamed.get(name, name): value for name, value in given.items() if value is not None}


def direct(model: Model, endpoint: Endpoint) -> Route | None:
    """How `model` is asked directly; None where LiteLLM translates."""
    if model.api_base is not None or model.provider in (SANDBOX, LOCAL):
        return _route(endpoint.api_base or model.api_base)
    provider = BY_PREFIX.get(model.provider)
    if provider is None or provider.scheme != _BEARER or _needs_responses(model):
        return None
    return _route(endpoint.api_base or provider.base, _RENAMED.get(model.provider, {}))


def _route(base: str | None, renamed: Mapping[str, str] | None = None) -> Route:
    return Route(f"{(base or '').rstrip('/')}/chat/completions", renamed or {})


def _needs_responses(model: Model) -> bool:
    """Whether OpenAI offers the model over its Responses interface only; LiteLLM translates that."""
    return model.provider == "openai" and listed(model.model).get("mode") == "responses"
