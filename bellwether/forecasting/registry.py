"""Registry of forecasters by name, and the kinds of its entries."""

from __future__ import annotations

import difflib
from pathlib import Path

from bellwether import registry
from bellwether.errors import ConfigError
from bellwether.forecasting.baselines import BaseRate, Constant, MarketPrice, Random, load_submissions
from bellwether.forecasting.forecaster import Forecaster, Registered
from bellwether.forecasting.language_model import LanguageModel
from bellwether.models.keys import status
from bellwether.models.registry import FILE as MODELS_FILE
from bellwether.models.registry import models
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
    """Return all forecasters by name: those of the registry (`load_registered`), then submitted ones."""
    known = load_registered(folder)
    return known | {name: one for name, one in load_submissions(settings().submissions_path).items() if name not in known}


def load_registered(folder: Path | None = None) -> dict[str, Forecaster]:
    """Return baselines and language models by name: the built-in ones, then those of `folder`.

    folder: by default the registry folder of the settings. Raises `ConfigError` with file, field and value for an invalid entry, and for
    a name that both registries have.
    """
    found: dict[str, Forecaster] = {name: _forecaster(entry) for name, entry in registry.read(FILE, folder or settings().registry).items()}
    for name, model in models(folder).items():
        if name in found:
            raise ConfigError(f"the forecaster {name!r} is in both {FILE} and {MODELS_FILE}; rename one of them")
        found[name] = LanguageModel(model)
    return found


def _forecaster(entry: registry.Entry) -> Forecaster:
    kind = entry.fields.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise entry.error("kind", "no such kind of forecaster" if kind is not None else "is missing", f"there are {', '.join(KINDS)}")
    return entry.parse(KINDS[kind])


def forecaster(name: str, folder: Path | None = None) -> Forecaster:
    """Return the forecaster called `name`; raises `ConfigError` for an unknown one."""
    known = forecasters(folder)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
        raise ConfigError(
            f"no forecaster is called {name!r}; {meant} `bellwether models` lists them; {FILE} and {MODELS_FILE} in your registry folder add more"
        )
    return known[name]


def available(folder: Path | None = None) -> dict[str, Forecaster]:
    """Return the forecasters of this world by name: all except language models that are not offered in it."""
    world = settings().world
    return {
        name: entry for name, entry in forecasters(folder).items() if not isinstance(entry, LanguageModel) or world in entry.model.worlds
    }


def without_key() -> dict[str, str]:
    """Return the language models of this world that are not ready, by name, with the reason: usually the variable of a missing key."""
    models = {name: status(entry.model) for name, entry in available().items() if isinstance(entry, LanguageModel)}
    return {name: str(found) for name, found in models.items() if not found.is_ready}


def competitors(folder: Path | None = None) -> dict[str, Forecaster]:
    """Return the forecasters that take part in every release: those that cost nothing, and the `models` of the settings.

    Raises `ConfigError` if the settings name an unknown forecaster.
    """
    here, named = available(folder), settings().models
    for name in named:
        if name not in here:
            raise ConfigError(
                f"BELLWETHER_MODELS names {name!r}, which is not available in this world; `bellwether models` lists those that are"
            )
    return {name: entry for name, entry in here.items() if entry.automatic or name in named}
