"""Description of a stored file, and conversion of the errors of reading and writing one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from polars.exceptions import PolarsError

from bellwether.errors import LakeError

#: Part of the name of every unfinished file.
TEMPORARY = ".tmp-"


@dataclass(frozen=True, slots=True)
class StorageEntry:
    """Stored file: name below the storage's root, size, and times (UTC) of the last write and of the last change of any kind.

    A copy or move may keep `modified` of a local file, never `changed`.
    """

    name: str
    bytes: int
    modified: datetime
    changed: datetime


@contextmanager
def writing(target: str) -> Iterator[None]:
    """Convert the error of a failed write to a `LakeError` that names `target`."""
    try:
        yield
    except (OSError, PolarsError) as error:
        raise LakeError(
            f"writing {target}: {error}. Nothing was published and the previous contents are unchanged; free space or fix its permissions, and run again"
        ) from error


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Convert the error of a failed read to a `LakeError` that names `source`. A `FileNotFoundError` is not converted."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, PolarsError) as error:
        advice = (
            "run again when the store answers"
            if "://" in source
            else "fix its permissions, or materialize that partition again if the file is damaged"
        )
        raise LakeError(f"reading {source}: {error}; {advice}") from error
