"""Registry of models by name: built-in entries, and those in the user's registry folder."""

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
    """Return all models by name: the built-in ones, then those in the user's `folder` (default: the registry folder of the settings).

    Raises `ConfigError` that names file, entry, field and value of an invalid entry. Possible credentials are rejected and not shown.
    """
    return {name: _model(entry) for name, entry in registry.read(FILE, folder or settings().registry).items()}


def model(name: str, folder: Path | None = None) -> Model:
    """Return the model called `name`. Raises `ConfigError` with close matches for an unknown name."""
    entries = models(folder)
    if name in entries:
        return entries[name]
    close = get_close_matches(name, entries, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? `bellwether models` lists all" if close else "`bellwether models` lists them"
    raise ConfigError(f"no model is called {name!r}; {hint}, and {FILE} in your registry folder can add more")


def _model(entry: registry.Entry) -> Model:
    """Validate an entry of the registry. Raises `ConfigError` for an invalid field, and for credentials in it."""
    for field, problem in _find_secrets(entry.fields):
        raise ConfigError(
            f"{entry.file}: [{entry.name}] {field}: {problem} (not shown); put the key into an environment variable and its name into key_variable"
        )
    return entry.parse(Model)


def _find_secrets(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield path and reason for each field of an entry that contains, or may contain, a credential."""
    for path, name, value in _walk_fields(fields, ""):
        if is_credential_name(name):
            yield path, "this name is for a credential"
        elif isinstance(value, str) and redact(value) != value:
            yield path, "the value looks like a key"
    variable = fields.get("key_variable")
    if isinstance(variable, str) and not VARIABLE.fullmatch(variable):
        yield "key_variable", "the value is not the name of an environment variable and may be the key itself"
    if isinstance(base := fields.get("api_base"), str) and _has_credentials(base):
        yield "api_base", "the address contains a user, a password or a query"


def _walk_fields(value: Any, path: str, name: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield path, name and value of every field of an entry, nested ones included."""
    if name:
        yield path, name, value
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _walk_fields(part, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _walk_fields(part, f"{path}[{place}]", f"{name}[{place}]")


def _has_credentials(address: str) -> bool:
    """Return True if an address contains a user, a password or a query."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return "@" in parts.netloc or bool(parts.query)
