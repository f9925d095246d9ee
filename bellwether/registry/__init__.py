"""Registry files: the built-in ones, then additions in the user's folder.

A registry file is TOML with one table per entry, whose header is the entry's name. The meaning of
the fields is defined by the module that owns the registry.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from bellwether.errors import ConfigError
from bellwether.untrusted_text import is_credential_name, redact

#: Names are used as partition keys, folders and file names.
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of a registry: its file, name and fields as written."""

    file: str
    name: str
    fields: Mapping[str, Any]

    def error(self, field: str, problem: str, advice: str) -> ConfigError:
        """Build a `ConfigError` with file, entry, field and value."""
        return ConfigError(f"{self.file}: [{self.name}] {field}{self._found(field)}: {problem}; {advice}")

    def _found(self, field: str) -> str:
        """Format the value of a field, or of a nested field (`families.gpt`), for an error message."""
        value: Any = self.fields
        rest = field
        while isinstance(value, Mapping) and rest:
            name = max((name for name in value if rest == name or rest.startswith(f"{name}.")), key=len, default=None)
            if name is None:
                return ""
            value, rest = value[name], rest[len(name) + 1 :]
        return f" = {value!r}"

    def parse(self, model: type[Model], **values: Any) -> Model:
        """Validate the entry as `model`, with `values` replacing or extending its fields. Raises `ConfigError` for the first invalid field."""
        try:
            return model.model_validate({**self.fields, "name": self.name, **values})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            inside = bool(first["loc"]) and isinstance(self.fields.get(str(first["loc"][0])), Mapping)
            field = ".".join(map(str, first["loc"] if inside else first["loc"][:1])) or "entry"
            if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
                known = ", ".join(sorted(set(model.model_fields) - {"name"}))
                raise self.error(field, "no such field", f"there are {known}") from None
            if first["type"] == "missing":
                raise self.error(field, "is missing", "add it") from None
            raise self.error(field, first["msg"].removeprefix("Value error, "), "correct it") from None


def read(file_name: str, folder: Path | None = None) -> dict[str, Entry]:
    """Read the entries of the built-in `file_name`, then of that file in `folder`, by name in the order written.

    Raises `ConfigError` for a folder that does not exist, a file that is not TOML, an invalid
    name, and a name that is already defined. A folder without the file adds nothing.
    """
    found: dict[str, Entry] = {}
    for entry in entries(file_name, folder):
        if entry.name in found:
            raise ConfigError(f"{entry.file}: [{entry.name}] is already defined in {found[entry.name].file}; rename it")
        found[entry.name] = entry
    return found


def entries(file_name: str, folder: Path | None = None) -> Iterator[Entry]:
    """Return the entries of the built-in `file_name`, then of that file in `folder`, in the order written; both may define a name.

    Raises `ConfigError` like `read`, except for duplicate names.
    """
    sources: list[Traversable] = [files(__name__).joinpath(file_name)]
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError(f"registry folder {folder} does not exist; create it or correct BELLWETHER_REGISTRY")
        sources.append(folder / file_name)
    for source in sources:
        if source.is_file():
            yield from _entries(source)


def _describe_duplicate(text: str, problem: str) -> str | None:
    """Describe a field that a TOML file gives twice, with its position and value; possible credentials are not shown."""
    found = re.fullmatch(r"Cannot overwrite a value \(at line (\d+), .*\)", problem)
    if found is None:
        return None
    line = text.splitlines()[int(found[1]) - 1]
    name, _, value = (part.strip() for part in line.partition("="))
    header = next((one for one in reversed(text.splitlines()[: int(found[1])]) if one.startswith("[")), "")
    said = f" = {value:.80}" if not is_credential_name(name) and redact(value) == value else ""
    return f"{header} {name}{said} (line {found[1]}): is given twice"


def _entries(source: Traversable) -> list[Entry]:
    text = ""
    try:
        text = source.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if twice := _describe_duplicate(text, str(error)):
            raise ConfigError(f"{source}: {twice}; keep one") from None
        raise ConfigError(f"{source}: not a TOML file: {error}; correct it") from None
    except OSError as error:
        raise ConfigError(f"{source}: cannot be read: {error.strerror}; correct its permissions") from None
    entries = []
    for name, fields in document.items():
        if not isinstance(fields, dict):
            raise ConfigError(f"{source}: {name} = {fields!r} is outside of any entry; put it below a [name] header")
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{source}: [{name}] is not a valid name; use 1 to 64 lower-case letters, digits, dots, hyphens and underscores"
            )
        if "name" in fields:
            raise ConfigError(f"{source}: [{name}] name = {fields['name']!r}: the name is the header; remove the field")
        entries.append(Entry(str(source), name, fields))
    return entries
