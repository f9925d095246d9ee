"""Verification of a whole lake: the checksum of every file against the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bellwether.errors import LakeError
from bellwether.lake.lake import Lake
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
    """Compare every current file with the recorded SHA-256. Nothing is changed."""
    named = [manifest for table in tables for manifest in lake.manifests(table).values() if manifest.file]
    size, damaged = 0, []
    with (progress or Silent()).stage("files", len(named)) as advance:
        for manifest in named:
            size += manifest.bytes
            try:
                lake.verify(manifest)
            except LakeError as error:
                damaged.append(Damage(manifest.table, "/".join(manifest.partition), str(error)))
            advance(1)
    return Verification(len(named), size, tuple(damaged))
