"""Imports on first use, and advice if the packages of the extra `platform` are not installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from bellwether.errors import ConfigError

#: Modules of the packages in the extra `platform` of pyproject.toml.
MODULES = (
    "aiohttp",
    "aiolimiter",
    "cryptography",
    "dagster",
    "dagster_duckdb",
    "dagster_graphql",
    "dagster_webserver",
    "duckdb",
    "great_expectations",
    "httpx",
    "litellm",
    "pytz",
    "sqlalchemy",
    "starlette",
    "tenacity",
    "upath",
    "uvicorn",
    "websockets",
)


def missing_module() -> str | None:
    """Return the first module of the extra `platform` that is not installed; None if all are installed. No module is imported."""
    return next((name for name in MODULES if not _is_installed(name)), None)


def missing_from(error: ImportError) -> str | None:
    """Return the module of the extra `platform` that an import did not find; None if the import failed for another reason."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return name if name in MODULES and not _is_installed(name) else None


def advice(feature: str, module: str) -> str:
    """Return a line for users: `feature` needs the extra `platform`, which module is missing, and the command that installs the extra."""
    return f"{feature} needs the extra `platform` ({module} is missing); install it: pip install 'bellwether[platform]'"


def require_platform(feature: str) -> None:
    """Raise `ConfigError` if a module of the extra `platform` is not installed. feature: what the user tried, for the message."""
    if module := missing_module():
        raise ConfigError(advice(feature, module))


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def lazy_names(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that imports its exported names on first use. homes: the names in each module."""
    home = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return load
