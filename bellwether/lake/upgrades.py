"""Upgrades of partitions of an older table version that only lack columns. Such partitions are not rebuilt, as facts cannot be collected again."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from bellwether.errors import LakeError
from bellwether.lake import parquet
from bellwether.lake.lake import Lake
from bellwether.tables import TABLES, Table

#: Name of the run in the manifests of upgraded partitions.
RUN = "renewed"

#: Lakes and tables that this process has upgraded.
_upgraded: set[tuple[str, str]] = set()


def upgrade_partitions(lake: Lake, tables: Iterable[Table] = tuple(TABLES.values())) -> int:
    """Add missing columns to partitions written under an older table version listed in `Table.added`. Returns the number of upgraded partitions.

    Each table of a lake is processed once per process. Damaged partitions are skipped; reading them raises an error. Raises `LakeError` if one
    cannot be written.
    """
    count = 0
    for table in tables:
        if table.added and (lake.uri, table.name) not in _upgraded:
            count += _upgrade_table(lake, table)
            _upgraded.add((lake.uri, table.name))
    return count


def _upgrade_table(lake: Lake, table: Table) -> int:
    count = 0
    for partition, manifest in lake.readable_manifests(table).items():
        if manifest.version not in table.added:
            continue
        try:
            lake.verify(manifest)
        except LakeError:
            continue
        rows = parquet.scan([lake.local(manifest)]).collect()
        lacking = [pl.lit(value, table.schema[name]).alias(name) for name, value in table.added[manifest.version].items()]
        lake.write(table, partition, table.validate(rows.with_columns(lacking).select(table.names)), run_id=RUN)
        count += 1
    return count
