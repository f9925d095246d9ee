"""The forecasters that there are, by name, and the kinds that an entry of the registry can have."""

from __future__ import annotations

from pathlib import Path

from bellwether import registry
from bellwether.errors import ConfigError
from bellwether.forecasting.baselines import BaseRate, Constant, MarketPrice, Random
from bellwether.forecasting.forecaster import Forecaster, Registered
from bellwether.settings import settings

FILE = "forecasters.toml"

#: What `kind` can say in the registry; a further family of forecasters is a further line.
KINDS: dict[str, type[Registered]] = {
    "market_price": MarketPrice,
    "base_rate": BaseRate,
    "constant": Constant,
    "random": Random,
}


def forecasters(folder: Path | None = None) -> dict[str, Forecaster]:
    """All forecasters by name: the built-in ones, then those of `folder` (the registry folder of the settings when left out).

    Raises `ConfigError`, naming file, field and value, for whatever is wrong in either.
    """
    return {name: _forecaster(entry) for name, entry in registry.read(FILE, folder or settings().registry).items()}


def _forecaster(entry: registry.Entry) -> Forecaster:
    kind = entry.fields.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise entry.error("kind", "no such kind of forecaster" if kind is not None else "is missing", f"there are {', '.join(KINDS)}")
    return entry.parse(KINDS[kind])


def forecaster(name: str, folder: Path | None = None) -> Forecaster:
    """The forecaster called `name`; raises `ConfigError` when there is none."""
    known = forecasters(folder)
    if name not in known:
        raise ConfigError(
            f"no forecaster is called {name!r}; there are {', '.join(known)}, and {FILE} in your registry folder can add more"
        )
    return known[name]
