"""The extra `platform`: the modules that it adds to the core, and the advice where one of them is missing.

Not here: the other extras. The modules that use those say themselves what to install.
"""

from __future__ import annotations

from importlib.util import find_spec

from bellwether.errors import ConfigError

#: What the packages that pyproject.toml lists under `platform` are imported as.
MODULES = (
    "aiohttp",
    "aiolimiter",
    "cryptography",
    "dagster",
    "dagster_duckdb",
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
    "vl_convert",
    "websockets",
)


def missing_module() -> str | None:
    """The first module of the extra that is not installed; None when all are. Nothing is imported."""
    return next((name for name in MODULES if not _is_installed(name)), None)


def missing_from(error: ImportError) -> str | None:
    """The module of the extra that is not installed, if that is why an import failed; None for every other reason."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return name if name in MODULES and not _is_installed(name) else None


def advice(what: str, module: str) -> str:
    """One line: what needs the extra, which of its modules is missing, and what to install."""
    return f"{what} needs the extra `platform` ({module} is missing); install it: pip install 'bellwether[platform]'"


def require_platform(what: str) -> None:
    """Raise `ConfigError` where a module of the extra is not installed."""
    if module := missing_module():
        raise ConfigError(advice(what, module))


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
