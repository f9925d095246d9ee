"""Newer knowledge is not replaced by older: what a partition is known as of never goes back."""

from __future__ import annotations

from datetime import datetime

from bellwether.errors import LakeError
from bellwether.lake.lake import Lake
from bellwether.lake.partitions import Partition
from bellwether.tables import Table


def require_newer(lake: Lake, table: Table, partition: Partition, known_at: datetime) -> None:
    """Raise `LakeError` when the lake has rows of `partition` that were known later than `known_at` (aware).

    A damaged manifest counts as missing: the rows that are about to be written restore it.
    """
    stored = lake.legible(table, [partition]).get(partition)
    if stored is None or stored.known_at is None or stored.known_at <= known_at:
        return
    raise LakeError(
        f"writing {table.name} {'/'.join(partition)}: these answers are of {known_at:%Y-%m-%d %H:%M:%S} UTC, the lake has answers of "
        f"{stored.known_at:%Y-%m-%d %H:%M:%S}, which stay. A clock was set back: set the venue's clock right (in the sandbox BELLWETHER_SANDBOX_NOW), "
        "or use another BELLWETHER_HOME"
    )
