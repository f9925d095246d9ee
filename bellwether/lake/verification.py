"""Verifies a lake: every file against the checksum of its manifest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bellwether.errors import LakeError
from bellwether.lake.lake import Lake
from bellwether.lake.partitions import of_folder
from bellwether.progress import Progress, Silent
from bellwether.tables import TABLES, Table


@dataclass(frozen=True, slots=True)
class Damage:
    """A partition whose file is missing, or is not as it was written; the reason ends with what restores it."""

    table: str
    partition: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at, and what was found."""

    files: int
    bytes: int
    damaged: tuple[Damage, ...]


def verify(lake: Lake, tables: Iterable[Table] = tuple(TABLES.values()), progress: Progress | None = None) -> Verification:
    """Read every file that a manifest of the lake names, and compare its SHA-256. Changes nothing."""
    named = [(table, *found) for table in tables for found in lake.entries(table)]
    size, damaged = 0, []
    with (progress or Silent()).stage("files", len(named)) as advance:
        for table, name, manifest in named:
            try:
                if isinstance(manifest, LakeError):
                    raise manifest
                size += manifest.bytes
                lake.verify(manifest)
            except LakeError as error:
                damaged.append(Damage(table.name, "/".join(of_folder(table, name.rpartition("/")[0])), str(error)))
            advance(1)
    return Verification(len(named), size, tuple(damaged))
