"""Verification of a whole lake: the checksum of every file against its manifest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bellwether.errors import LakeError
from bellwether.lake.lake import Lake
from bellwether.lake.partitions import partition_of_folder
from bellwether.progress import Progress, Silent
from bellwether.tables import TABLES, Table
from bellwether.tables.history import HISTORY


@dataclass(frozen=True, slots=True)
class Damage:
    """Partition whose file is missing or damaged. reason: ends with advice on how to restore the file."""

    table: str
    partition: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying a lake: number and bytes of the verified files, and the damaged partitions."""

    files: int
    bytes: int
    damaged: tuple[Damage, ...]


def verify(lake: Lake, tables: Iterable[Table] = (*TABLES.values(), *HISTORY), progress: Progress | None = None) -> Verification:
    """Compare every file that a manifest names with the recorded SHA-256. Nothing is changed."""
    named = [(table, *entry) for table in tables for entry in lake.read_entries(table)]
    size, damaged = 0, []
    with (progress or Silent()).stage("files", len(named)) as advance:
        for table, name, manifest in named:
            try:
                if isinstance(manifest, LakeError):
                    raise manifest
                size += manifest.bytes
                lake.verify(manifest)
            except LakeError as error:
                damaged.append(Damage(table.name, "/".join(partition_of_folder(table, name.rpartition("/")[0])), str(error)))
            advance(1)
    return Verification(len(named), size, tuple(damaged))
