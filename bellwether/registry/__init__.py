"""Reader of registry files, which list models, agents and other named things: built-in entries, and those in the user's folder.

A registry file is TOML with one table per entry, whose header is the entry's name. The module that owns a registry defines its fields.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError

from bellwether.errors import ConfigError
from bellwether.formatting import is_credential_name, redact

#: Names are used as partition keys, folders and file names; their rule for messages.
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
NAME_RULE = "use 1 to 64 lower-case letters, digits, dots, hyphens and underscores"

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of a registry file: the file, the entry's name, and its fields as written."""

    file: str
    name: str
    fields: Mapping[str, Any]

    def error(self, field: str, problem: str, advice: str) -> ConfigError:
        """Build a `ConfigError` that names file, entry, field and the field's value. problem, advice: the rest of the message."""
        return ConfigError(f"{self.file}: [{self.name}] {field}{self._format_value(field)}: {problem}; {advice}")

    def _format_value(self, field: str) -> str:
        """Format the value of a field for an error message. field: a path with dots for a nested field, such as `families.gpt`."""
        value: Any = self.fields
        rest = field
        while isinstance(value, Mapping) and rest:
            name = max((name for name in value if rest == name or rest.startswith(f"{name}.")), key=len, default=None)
            if name is None:
                return ""
            value, rest = value[name], rest[len(name) + 1 :]
        return f" = {value!r}"

    def parse(self, model: type[Model], **values: Any) -> Model:
        """Validate the entry as `model`. values: fields that replace or extend those of the entry. Raises `ConfigError` for the first invalid field."""
        try:
            return model.model_validate({**self.fields, "name": self.name, **values})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            inside = bool(first["loc"]) and isinstance(self.fields.get(str(first["loc"][0])), Mapping)
            field = ".".join(map(str, first["loc"] if inside else first["loc"][:1])) or "entry"
            if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
                names = ", ".join(sorted(set(model.model_fields) - {"name"}))
                raise self.error(field, "no such field", f"there are {names}") from None
            if first["type"] == "missing":
                raise self.error(field, "is missing", "add it") from None
            raise self.error(field, first["msg"].removeprefix("Value error, "), "correct it") from None


def read(file_name: str, folder: Path | None = None) -> dict[str, Entry]:
    """Read the entries of the registry `file_name` by name: those of the built-in file, then those of the file with this name in the user's `folder`.

    Raises `ConfigError` for a folder that does not exist, a file that is not TOML, an invalid
    name, and a name that is already defined. A folder without the file adds nothing.
    """
    by_name: dict[str, Entry] = {}
    for entry in entries(file_name, folder):
        if entry.name in by_name:
            raise ConfigError(f"{entry.file}: [{entry.name}] is already defined in {by_name[entry.name].file}; rename it")
        by_name[entry.name] = entry
    return by_name


def entries(file_name: str, folder: Path | None = None) -> Iterator[Entry]:
    """Yield the entries as `read` does, but allow a name in both files; both entries are then yielded.

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
    """Describe a field that a TOML file sets twice, for an error message without credentials.
    problem: the parser's message. Returns None for other problems.
    """
    match = re.fullmatch(r"Cannot overwrite a value \(at line (\d+), .*\)", problem)
    if match is None:
        return None
    lines = text.splitlines()[: int(match[1])]
    name, _, value = (part.strip() for part in lines[-1].partition("="))
    header = next((line for line in reversed(lines) if line.startswith("[")), "")
    visible = f" = {value:.80}" if not is_credential_name(name) and redact(value) == value else ""
    return f"{header} {name}{visible} (line {match[1]}): is given twice"


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
            raise ConfigError(f"{source}: [{name}] is not a valid name; {NAME_RULE}")
        if "name" in fields:
            raise ConfigError(f"{source}: [{name}] name = {fields['name']!r}: the name is the header; remove the field")
        entries.append(Entry(str(source), name, fields))
    return entries


def _end_of_knowledge(value: object) -> datetime | None:
    """Convert a knowledge cutoff from TOML to an instant in UTC. A date means the end of that day."""
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("must be a date, or an instant with its offset such as 2025-10-01T00:00:00Z")
        return value.astimezone(UTC)
    if isinstance(value, date):
        return datetime.combine(value + timedelta(days=1), time(), UTC)
    raise ValueError("must be a date or an instant, without quotes")


#: Instant (UTC) until which a forecaster may know outcomes. A date includes its day; None means no knowledge of outcomes.
KnowledgeCutoff = Annotated[datetime | None, BeforeValidator(_end_of_knowledge)]


def last_day(cutoff: datetime) -> str:
    """Return the last day (UTC) that a knowledge cutoff includes, as ISO text."""
    return (cutoff.astimezone(UTC) - timedelta(microseconds=1)).date().isoformat()
