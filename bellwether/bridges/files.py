"""Files of other benchmarks: the base of their objects, types of their values, and errors of reading them."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from bellwether.errors import ConfigError
from bellwether.files import open_bytes
from bellwether.scoring.files import parse_json

_SHOWN = 80


class FilePart(BaseModel):
    """Base of the objects in files; values are not converted."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True)


def _parse_instant(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a time as text, such as 2025-10-16T00:00:00+00:00")
    parsed = datetime.fromisoformat(value)
    try:
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError("must be a time of this era") from None


#: Time as ISO text, in UTC if it has no zone.
Instant = Annotated[datetime, BeforeValidator(_parse_instant)]
Probability = Annotated[float, Field(ge=0, le=1)]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert an error of reading `path` to a `ConfigError` that names it."""
    try:
        yield
    except (OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: it cannot be read ({getattr(error, 'strerror', None) or error}); correct the path") from None


File = TypeVar("File", bound=BaseModel)


def read_file(path: Path, kind: type[File]) -> File:
    """Read a JSON file, .json or .json.gz, as `kind`. Raises `ConfigError` with file, row, field and value."""
    with reading(path), open_bytes(path) as file:
        contents = file.read()
    try:
        data = parse_json(contents)
    except ValueError as error:
        raise ConfigError(f"{path}: it is not JSON ({error}); repair the file") from None
    try:
        return kind.model_validate(data)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False)[0]
        place = "".join(f", row {part + 1}" if isinstance(part, int) else f", {part}" for part in first["loc"])
        shown = "" if first["type"] == "missing" else f" = {str(first['input'])[:_SHOWN]!r}"
        more = f" ({invalid.error_count() - 1} more)" if invalid.error_count() > 1 else ""
        raise ConfigError(f"{path}{place}{shown}: {first['msg'].removeprefix('Value error, ')}; correct the file{more}") from None
