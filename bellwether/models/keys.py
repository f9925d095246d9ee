"""Addresses and API keys of models. Keys are read from the environment when needed and never shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from bellwether.errors import ConfigError
from bellwether.models.model import Model
from bellwether.models.providers import (
    BY_PREFIX,
    SANDBOX,
    SEARCH,
    SEARCH_PACKAGES,
    has_search_extra,
    is_well_formed,
    provider_name,
    set_variable,
)
from bellwether.settings import World, settings

#: Key of the sandbox's models.
SANDBOX_KEY = "sandbox-bellwether"

Readiness = Literal["ready", "no key needed", "key missing", "extra not installed", "other world"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address and key for the calls of a model. api_base: None for the provider's own address. api_key: None to send no key."""

    api_base: str | None = field(repr=False)
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """Readiness of a model to be called in this environment. variable: environment variable of the key; None if no key is needed."""

    readiness: Readiness
    variable: str | None = None

    @property
    def is_ready(self) -> bool:
        """True if the model can be called with what is set now."""
        return self.readiness in ("ready", "no key needed")

    def __str__(self) -> str:
        return f"key missing: {self.variable}" if self.readiness == "key missing" else self.readiness


def status(model: Model, *, world: World | None = None, environment: Mapping[str, str] | None = None) -> KeyStatus:
    """Return whether `model` and its search service can be called in `world` (default: the world of the settings). Keys are not tested."""
    if (world or settings().world) not in model.worlds:
        return KeyStatus("other world")
    if model.provider == SEARCH and not has_search_extra(model.id):
        return KeyStatus("extra not installed")
    variables = _variables(model)
    variable = set_variable(variables, os.environ if environment is None else environment)
    if variables and variable is None:
        return KeyStatus("key missing", variables[0])
    if model.provider != SEARCH and model.searches is not None:
        searches = status(model.searches, world=world, environment=environment)
        if not searches.is_ready:
            return searches
    return KeyStatus("ready", variable) if variables else KeyStatus("no key needed")


def endpoint(model: Model, addresses_models: str | None, *, environment: Mapping[str, str] | None = None) -> Endpoint:
    """Return address and key for the calls of `model`.

    addresses_models: address of the world's own models; None in the live world.
    Raises `ConfigError` for a missing or malformed key, and for a model of the sandbox in another world. No message contains the key.
    """
    environment = os.environ if environment is None else environment
    if model.provider == SANDBOX:
        if addresses_models is None:
            raise ConfigError(f"calling {model.name}: {model.model} is one of the sandbox's models; set BELLWETHER_WORLD=sandbox")
        return Endpoint(addresses_models, SANDBOX_KEY)
    if model.provider == SEARCH and not has_search_extra(model.id):
        raise ConfigError(
            f"calling {model.name}: the package {SEARCH_PACKAGES[model.id]} is not installed; run `pip install -e '.[search]'`"
        )
    provider = BY_PREFIX.get(model.provider)
    base = model.api_base or (provider.other_base(environment) if provider else None)
    variables = _variables(model)
    return Endpoint(base, _key(model, variables, environment) if variables else None)


def endpoints(addresses_models: str | None) -> Callable[[Model], Endpoint]:
    """Return the function `endpoint` for a world. addresses_models: address of the world's own models; None in the live world."""
    return partial(endpoint, addresses_models=addresses_models)


def _variables(model: Model) -> tuple[str, ...]:
    """Return the environment variables in which the key may be; empty if the model needs no key."""
    if model.key_variable is not None:
        return (model.key_variable,)
    if model.api_base is not None or model.provider == SANDBOX:
        return ()
    if model.provider == SEARCH:
        return (f"{model.id.upper()}_API_KEY",)
    provider = BY_PREFIX.get(model.provider)
    return provider.variables if provider else (f"{model.provider.upper()}_API_KEY",)


def _key(model: Model, variables: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """Return the key from the first variable that is set. Raises `ConfigError` for a missing or malformed key."""
    variable = set_variable(variables, environment)
    if variable is None:
        service = provider_name(model.provider) if model.key_variable is None and model.provider != SEARCH else model.model
        raise ConfigError(f"calling {model.name}: {variables[0]} is not set; set it to your key for {service}, or choose another model")
    key = environment[variable].strip()
    if not is_well_formed(key):
        raise ConfigError(
            f"calling {model.name}: {variable} contains blanks, line breaks or characters that no key has; copy the key again into it"
        )
    return key
