"""Where a model is asked and with which key. Keys are read from the environment when they are needed and shown nowhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Literal

from bellwether.errors import ConfigError
from bellwether.models.model import Model
from bellwether.models.providers import BY_PREFIX, LOCAL, SANDBOX, has_local_extra, is_well_formed, provider_name, set_variable
from bellwether.settings import World, settings

#: The key that the sandbox's models take.
SANDBOX_KEY = "sandbox-bellwether"

Readiness = Literal["ready", "no key needed", "key missing", "extra not installed", "other world"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked: its address (None: the provider's own) and the key (None: none may be sent, also none from the environment)."""

    api_base: str | None = field(repr=False)
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """Whether a model can be asked here. variable: the one that holds the key or should; None where none is needed."""

    readiness: Readiness
    variable: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the model can be asked now."""
        return self.readiness in ("ready", "no key needed")

    def __str__(self) -> str:
        return f"key missing: {self.variable}" if self.readiness == "key missing" else self.readiness


def status(model: Model, *, world: World | None = None, environment: Mapping[str, str] | None = None) -> KeyStatus:
    """Whether `model` can be asked in a world (that of the settings when left out); no key is tried."""
    if (world or settings().world) not in model.worlds:
        return KeyStatus("other world")
    if model.provider == LOCAL:
        return KeyStatus("no key needed" if has_local_extra() else "extra not installed")
    variables = _variables(model)
    if not variables:
        return KeyStatus("no key needed")
    found = set_variable(variables, os.environ if environment is None else environment)
    return KeyStatus("ready", found) if found else KeyStatus("key missing", variables[0])


def endpoint(
    model: Model, addresses_models: str | None, *, local: str | None = None, environment: Mapping[str, str] | None = None
) -> Endpoint:
    """Where `model` is asked and with which key.

    addresses_models: the world's own model endpoint; None in the live world. local: address of the local model's server, while it runs.
    Raises `ConfigError` when a key is missing or cannot be one, for a model of the sandbox outside of it, and for a local model without its
    server. The key itself is in no message.
    """
    environment = os.environ if environment is None else environment
    if model.provider == SANDBOX:
        if addresses_models is None:
            raise ConfigError(f"asking {model.name}: {model.model} is one of the sandbox's models; set BELLWETHER_WORLD=sandbox")
        return Endpoint(addresses_models, SANDBOX_KEY)
    if model.provider == LOCAL:
        if local is None:
            raise ConfigError(f"asking {model.name}: the server of local models does not run; ask it within `bellwether.models.endpoints`")
        return Endpoint(local)
    provider = BY_PREFIX.get(model.provider)
    base = model.api_base or (provider.other_base(environment) if provider else None)
    variables = _variables(model)
    return Endpoint(base, _key(model, variables, environment) if variables else None)


@contextmanager
def endpoints(addresses_models: str | None) -> Iterator[Callable[[Model], Endpoint]]:
    """`endpoint` for the duration of an evaluation: a local model's server is started when it is first asked for, and ends with the block."""
    with ExitStack() as stack:
        served: dict[str, str] = {}

        def locate(model: Model) -> Endpoint:
            if model.provider != LOCAL:
                return endpoint(model, addresses_models)
            if model.id not in served:
                from bellwether.models.local import serve

                served[model.id] = stack.enter_context(serve(model.id))
            return endpoint(model, addresses_models, local=served[model.id])

        yield locate


def _variables(model: Model) -> tuple[str, ...]:
    """Variables that may hold the key; none where none is needed."""
    if model.key_variable is not None:
        return (model.key_variable,)
    if model.api_base is not None or model.provider in (SANDBOX, LOCAL):
        return ()
    provider = BY_PREFIX.get(model.provider)
    return provider.variables if provider else (f"{model.provider.upper()}_API_KEY",)


def _key(model: Model, variables: tuple[str, ...], environment: Mapping[str, str]) -> str:
    variable = set_variable(variables, environment)
    if variable is None:
        whose = f"for {provider_name(model.provider)}" if model.key_variable is None else f"for {model.model}"
        raise ConfigError(f"asking {model.name}: {variables[0]} is not set; set it to your key {whose}, or choose another model")
    key = environment[variable].strip()
    if not is_well_formed(key):
        raise ConfigError(
            f"asking {model.name}: {variable} holds blanks, line breaks or characters that no key has; copy the key again into it"
        )
    return key
