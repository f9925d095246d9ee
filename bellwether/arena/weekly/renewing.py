"""Rows of an older version of the arena's tables, given the columns that their tables have now: looks and universes of the past cannot be taken again."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from bellwether.lake import Lake
from bellwether.tables.arena import EVIDENCE, UNIVERSE
from bellwether.tables.schema import Table

#: What rows of version 1 lacked, by table, and what it was for all of them: there was one venue.
_LACKED: Mapping[str, Mapping[str, str | None]] = {
    EVIDENCE.name: {"results": None, "settled_at": None},
    UNIVERSE.name: {"venue": "polymarket"},
}
_OLD = "1"

#: Lakes that this process has looked through.
_renewed: set[str] = set()


def renew(lake: Lake) -> int:
    """Rewrite the partitions of version 1 of arena/evidence and arena/universe; returns how many there were. A lake is looked through once in a process."""
    if lake.uri in _renewed:
        return 0
    count = sum(_renew(lake, table) for table in (EVIDENCE, UNIVERSE))
    _renewed.add(lake.uri)
    return count


def _renew(lake: Lake, table: Table) -> int:
    old = {partition: manifest for partition, manifest in lake.manifests(table).items() if manifest.version == _OLD}
    for partition, manifest in old.items():
        with lake.storage.open(manifest.file) as file:
            rows = pl.read_parquet(file)
        lacking = [pl.lit(value, table.schema[name]).alias(name) for name, value in _LACKED[table.name].items()]
        lake.write(table, partition, table.validate(rows.with_columns(lacking).select(table.names)), run_id="renewed")
    return len(old)
