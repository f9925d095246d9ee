"""Guard of the facts: the `known_at` of a partition (when its rows became known) never decreases."""

from __future__ import annotations

from datetime import datetime

from bellwether.errors import LakeError
from bellwether.lake.lake import Lake
from bellwether.lake.partitions import Partition
from bellwether.tables import Table


def require_newer(lake: Lake, table: Table, partition: Partition, known_at: datetime) -> None:
    """Raise `LakeError` if the stored rows of `partition` have a later `known_at` than the new rows.
    known_at: time (UTC) at which the new rows became known.
    """
    stored = lake.manifest(table, partition)
    if stored is None or stored.known_at is None or stored.known_at <= known_at:
        return
    raise LakeError(
        f"writing {table.name} {'/'.join(partition)}: the new rows were known at {known_at:%Y-%m-%d %H:%M:%S} UTC, the stored rows at "
        f"{stored.known_at:%Y-%m-%d %H:%M:%S}; the stored rows are kept. A clock was set back: correct the venue's clock (in the sandbox BELLWETHER_SANDBOX_NOW), "
        "or use another BELLWETHER_HOME"
    )
