"""JSON documents whose fields are validated when read. Errors name file, field and value."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bellwether.errors import ConfigError

_REQUIRED: Any = object()

_LARGEST = sys.float_info.max

#: Counts are smaller than this, so that their totals are exact.
_COUNTS = 2**53

#: Characters of a value that a message shows.
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Document:
    """JSON object in a file, with validated access to its fields: each method reads the field that it is given, and raises `ConfigError` if
    the value is invalid.

    name: name of the file. path: path of the object within the file, "" at the top. fields: fields of the object.
    """

    name: str
    path: str
    fields: Mapping[str, Any]

    def text(self, field: str, default: str = _REQUIRED) -> str:
        """Return a non-empty text, or `default` for a missing field."""
        value = self._value(field, default)
        if value is not default and (not isinstance(value, str) or not value):
            raise self.broken(field, "it is a text that is not empty")
        return str(value)

    def optional_text(self, field: str) -> str | None:
        """Return a text; None if the field is null or absent."""
        value = self.fields.get(field)
        if value is not None and not isinstance(value, str):
            raise self.broken(field, "it is a text or null")
        return value

    def number(self, field: str, default: float | None = _REQUIRED) -> float | int | None:
        """Return a finite number, or `default` (which may be None) if the field is null or absent."""
        value = self._value(field, default)
        if value is None and default is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
            raise self.broken(field, "it is a finite number")
        return value

    def count(self, field: str) -> int | None:
        """Return an integer of at least 0; None if the field is null or absent."""
        value = self.number(field, None)
        if value is not None and (value != int(value) or not 0 <= value < _COUNTS):
            raise self.broken(field, "it is a whole number of at least 0")
        return None if value is None else int(value)

    def probability(self, field: str) -> float | None:
        """Return a number in [0, 1]; None if the field is null or absent."""
        value = self.number(field, None)
        if value is not None and not 0 <= value <= 1:
            raise self.broken(field, "a probability lies in [0, 1]")
        return None if value is None else float(value)

    def choice(self, field: str, values: Sequence[str]) -> str | None:
        """Return a text that must be one of `values`, in lower case; None if the field is null or absent."""
        value = self.fields.get(field)
        if value is None:
            return None
        if not isinstance(value, str) or value.strip().lower() not in values:
            raise self.broken(field, f"it is {' or '.join(values)}, or null")
        return value.strip().lower()

    def mapping(self, field: str, default: Mapping[str, Any] = _REQUIRED) -> Document:
        """Return the object in a field as a document."""
        value = self._value(field, default)
        if not isinstance(value, dict):
            raise self.broken(field, "it is an object")
        return Document(self.name, self._path(field), value)

    def rows(self, field: str, default: Sequence[Any] = _REQUIRED) -> Iterator[Document]:
        """Yield the objects of the list in a field as documents."""
        value = self._value(field, default)
        if not isinstance(value, list):
            raise self.broken(field, "it is a list")
        for index, row in enumerate(value):
            path = f"{self._path(field)}[{index}]"
            if not isinstance(row, dict):
                raise ConfigError(f"reading {self.name}: {path} is {_short(row)}; each of its rows is an object; correct the file")
            yield Document(self.name, path, row)

    def broken(self, field: str, rule: str) -> ConfigError:
        """Build the error for an invalid field. rule: statement of what a valid value is."""
        problem = f"is {_short(self.fields[field])}" if field in self.fields else "is missing"
        return ConfigError(f"reading {self.name}: {self._path(field)} {problem}; {rule}; correct the file")

    def _value(self, field: str, default: Any) -> Any:
        value = self.fields.get(field)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise self.broken(field, "it is required")
        return default

    def _path(self, field: str) -> str:
        return f"{self.path}.{field}" if self.path else field


def read_document(path: Path, name: str) -> Document:
    """Read the JSON object in a file. name: the file's name in messages. Raises `ConfigError` if it is invalid."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"reading {name}: not JSON: {error.msg} in line {error.lineno}, column {error.colno}; repair or remove the file"
        ) from None
    except (ValueError, RecursionError) as error:  # not UTF-8, or a number of too many digits, or nested too deeply
        raise ConfigError(f"reading {name}: not JSON: {type(error).__name__}; repair or remove the file") from None
    except OSError as error:
        raise ConfigError(f"reading {name}: {error.strerror}; correct its permissions") from None
    if not isinstance(value, dict):
        raise ConfigError(f"reading {name}: it holds {_short(value)}; a result file holds an object; repair or remove the file")
    return Document(name, "", value)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
