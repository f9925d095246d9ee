"""Verifies a lake: every file against the checksum of its manifest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bellwether.errors import LakeError
from bellwether.lake.lake import Lake
from bellwether.lake.partitions import Partition
from bellwether.portfolio_names import is_portfolio
from bellwether.progress import Progress, Silent
from bellwether.tables import TABLES, Table
from bellwether.tables.benchmark import QUESTIONS


@dataclass(frozen=True, slots=True)
class Damage:
    """A partition whose file is missing, or is not as it was written, with what restores it."""

    table: str
    partition: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at, and what was found."""

    files: int
    bytes: int
    damaged: tuple[Damage, ...]


def verify(lake: Lake, tables: Iterable[Table] = tuple(TABLES.values()), progress: Progress | None = None) -> Verification:
    """Read every file that a manifest of the lake names, and compare its SHA-256. Changes nothing."""
    named = [(table, partition, manifest) for table in tables for partition, manifest in lake.manifests(table).items()]
    size, damaged = 0, []
    with (progress or Silent()).stage("files", len(named)) as advance:
        for table, partition, manifest in named:
            size += manifest.bytes
            try:
                lake.verify(manifest)
            except LakeError as error:
                damaged.append(Damage(table.name, "/".join(partition), str(error), remedy(table, partition)))
            advance(1)
    return Verification(len(named), size, tuple(damaged))


def remedy(table: Table, partition: Partition) -> str:
    """What restores a partition, as a sentence."""
    key = "/".join(partition)
    if table.partitioned_by == ("day",):
        return f"Remove the file if it is there; then `bellwether pull {key}` restores it, from the stored pages where possible."
    if table is QUESTIONS:
        return "Put the file back from a copy: the questions of a release are not drawn again."
    if table.partitioned_by[:1] == ("release",):
        return f"Remove the file if it is there; then `bellwether release {partition[0]}` restores it."
    if table.partitioned_by == ("episode", "agent") and is_portfolio(partition[0]):
        return "Trade the portfolio again: `bellwether backtest --portfolio --lake` with the same agent and episodes restores it."
    return f"Materialize {table.name}{f', partition {key},' if key else ''} again."
