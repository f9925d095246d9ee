"""Registry of forecasters by name."""

from __future__ import annotations

import difflib
from pathlib import Path

from bellwether import registry
from bellwether.errors import ConfigError
from bellwether.forecasting.baselines import BaseRate, Constant, MarketPrice, Random, load_submissions
from bellwether.forecasting.forecaster import Forecaster, Registered
from bellwether.forecasting.language_model import LanguageModel
from bellwether.models.keys import status
from bellwether.models.model import FILE as MODELS_FILE
from bellwether.models.model import models
from bellwether.settings import settings

FILE = "forecasters.toml"

#: Classes of forecasters by the value of `kind` in the registry.
KINDS: dict[str, type[Registered]] = {
    "market_price": MarketPrice,
    "base_rate": BaseRate,
    "constant": Constant,
    "random": Random,
}


def forecasters(folder: Path | None = None) -> dict[str, Forecaster]:
    """Return all forecasters by name: baselines, language models and submitted ones. folder: registry folder, by default that of the
    settings.
    """
    registered = load_registered(folder)
    submitted = load_submissions(settings().submissions_path)
    return registered | {name: entry for name, entry in submitted.items() if name not in registered}


def load_registered(folder: Path | None = None) -> dict[str, Forecaster]:
    """Return baselines and language models by name: the built-in ones, and those registered in `folder`.

    folder: by default the registry folder of the settings. Raises `ConfigError` with file, field and value for an invalid entry, and for
    a name that both registries have.
    """
    entries = registry.read(FILE, folder or settings().registry)
    registered: dict[str, Forecaster] = {name: _forecaster(entry) for name, entry in entries.items()}
    for name, model in models(folder).items():
        if name in registered:
            raise ConfigError(f"the forecaster {name!r} is in both {FILE} and {MODELS_FILE}; rename one of them")
        registered[name] = LanguageModel(model)
    return registered


def _forecaster(entry: registry.Entry) -> Forecaster:
    kind = entry.fields.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise entry.error("kind", "no such kind of forecaster" if kind is not None else "is missing", f"there are {', '.join(KINDS)}")
    return entry.parse(KINDS[kind])


def forecaster(name: str, folder: Path | None = None) -> Forecaster:
    """Return the forecaster called `name`. Raises `ConfigError` for an unknown name, and suggests similar names."""
    entries = forecasters(folder)
    if name not in entries:
        near = difflib.get_close_matches(name, entries, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise ConfigError(
            f"no forecaster is called {name!r}; {meant}`bellwether models` lists them; {FILE} and {MODELS_FILE} in your registry folder add more"
        )
    return entries[name]


def available(folder: Path | None = None) -> dict[str, Forecaster]:
    """Return by name the forecasters of this world (sandbox or live): all except language models that are not offered there."""
    world = settings().world
    return {
        name: entry for name, entry in forecasters(folder).items() if not isinstance(entry, LanguageModel) or world in entry.model.worlds
    }


def without_key() -> dict[str, str]:
    """Return the language models of this world that cannot be called: name -> reason, usually the variable of a missing key."""
    statuses = {name: status(entry.model) for name, entry in available().items() if isinstance(entry, LanguageModel)}
    return {name: str(key) for name, key in statuses.items() if not key.is_ready}


def competitors(folder: Path | None = None) -> dict[str, Forecaster]:
    """Return the forecasters that take part in every release: the automatic ones (which cost nothing), and those that the setting `models`
    names.

    Raises `ConfigError` if the settings name an unknown forecaster.
    """
    entries, named = available(folder), settings().models
    for name in named:
        if name not in entries:
            raise ConfigError(
                f"BELLWETHER_MODELS names {name!r}, which is not available in this world; `bellwether models` lists those that are"
            )
    return {name: entry for name, entry in entries.items() if entry.automatic or name in named}
