"""Registry of models by name: the built-in ones, then your own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bellwether import registry
from bellwether.errors import ConfigError
from bellwether.models.model import VARIABLE, Model
from bellwether.settings import settings
from bellwether.untrusted_text import is_credential_name, redact

FILE = "models.toml"


def models(folder: Path | None = None) -> dict[str, Model]:
    """All models by name: the built-in ones, then those of `folder` (the registry folder of the settings when left out).

    Raises `ConfigError`, naming file, entry, field and value, for whatever is wrong in either. What looks like a credential is refused and
    not shown.
    """
    return {name: _model(entry) for name, entry in registry.read(FILE, folder or settings().registry).items()}


def model(name: str, folder: Path | None = None) -> Model:
    """The model called `name`; raises `ConfigError` for an unknown name, with close matches."""
    known = models(folder)
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? `bellwether models` lists all" if close else "`bellwether models` lists them"
    raise ConfigError(f"no model is called {name!r}; {hint}, and {FILE} in your registry folder can add more")


def _model(entry: registry.Entry) -> Model:
    for field, problem in _secrets(entry.fields):
        raise ConfigError(
            f"{entry.file}: [{entry.name}] {field}: {problem} (not shown); put the key into an environment variable and its name into key_variable"
        )
    return entry.parse(Model)


def _secrets(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Fields that hold a credential or may: where, and why it is taken for one."""
    for path, name, value in _walk(fields, ""):
        if is_credential_name(name):
            yield path, "this name is for a credential"
        elif isinstance(value, str) and redact(value) != value:
            yield path, "the value looks like a key"
    variable = fields.get("key_variable")
    if isinstance(variable, str) and not VARIABLE.fullmatch(variable):
        yield "key_variable", "the value is not the name of an environment variable and may be the key itself"
    if isinstance(base := fields.get("api_base"), str) and _holds_credentials(base):
        yield "api_base", "the address holds a user, a password or a query"


def _walk(value: Any, path: str, name: str = "") -> Iterator[tuple[str, str, Any]]:
    """Everything in an entry, with where it is and what it is called."""
    if name:
        yield path, name, value
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _walk(part, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _walk(part, f"{path}[{place}]", f"{name}[{place}]")


def _holds_credentials(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return "@" in parts.netloc or bool(parts.query)
