"""Reads registry files: what ships with the package, then what the user's own folder adds.

A registry file is TOML with one table per entry, whose header is the entry's name. What the fields of an entry
mean is the business of the module that owns the registry.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from bellwether.errors import ConfigError

#: Names become partition keys, folders and file names.
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a registry: the file that holds it, its name and its fields as written."""

    file: str
    name: str
    fields: Mapping[str, Any]

    def error(self, field: str, problem: str, advice: str) -> ConfigError:
        """A `ConfigError` that names file, entry, field and value."""
        found = f" = {self.fields[field]!r}" if field in self.fields else ""
        return ConfigError(f"{self.file}: [{self.name}] {field}{found}: {problem}; {advice}")

    def parse(self, model: type[Model], **values: Any) -> Model:
        """The entry as `model`, with `values` in place of or beside its own fields; raises `ConfigError` at the first that does not fit."""
        try:
            return model.model_validate({**self.fields, "name": self.name, **values})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = str(first["loc"][0]) if first["loc"] else "entry"
            if first["type"] == "extra_forbidden":
                known = ", ".join(sorted(set(model.model_fields) - {"name"}))
                raise self.error(field, "no such field", f"there are {known}") from None
            if first["type"] == "missing":
                raise self.error(field, "is missing", "add it") from None
            raise self.error(field, first["msg"].removeprefix("Value error, "), "correct it") from None


def read(file_name: str, folder: Path | None = None) -> dict[str, Entry]:
    """Entries of the built-in `file_name`, then of the file of that name in `folder`, by name in the order written.

    Raises `ConfigError` for a folder that does not exist, a file that is not TOML, a name that cannot be a partition
    key, and a name that is already taken. A folder without the file adds nothing.
    """
    sources: list[Traversable] = [files(__name__).joinpath(file_name)]
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError(f"registry folder {folder} does not exist; create it or correct BELLWETHER_REGISTRY")
        sources.append(folder / file_name)
    entries: dict[str, Entry] = {}
    for source in sources:
        if not source.is_file():
            continue
        for entry in _entries(source):
            if entry.name in entries:
                raise ConfigError(f"{entry.file}: [{entry.name}] is already defined in {entries[entry.name].file}; rename it")
            entries[entry.name] = entry
    return entries


def _entries(source: Traversable) -> list[Entry]:
    try:
        document = tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: not a TOML file: {error}; correct it") from None
    except OSError as error:
        raise ConfigError(f"{source}: cannot be read: {error.strerror}; correct its permissions") from None
    entries = []
    for name, fields in document.items():
        if not isinstance(fields, dict):
            raise ConfigError(f"{source}: {name} = {fields!r} stands outside of any entry; put it below a [name] header")
        if not NAME.fullmatch(name):
            raise ConfigError(f"{source}: [{name}] cannot be a name; use 1 to 64 lower-case letters, digits, dots, hyphens and underscores")
        if "name" in fields:
            raise ConfigError(f"{source}: [{name}] name = {fields['name']!r}: the name is the header; remove the field")
        entries.append(Entry(str(source), name, fields))
    return entries
