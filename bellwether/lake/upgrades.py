"""Partitions of an older version whose rows only lack columns: they are given these once, because facts cannot be made again."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from bellwether.errors import LakeError
from bellwether.lake import parquet
from bellwether.lake.lake import Lake
from bellwether.tables import TABLES, Table

#: The run that the manifests of renewed partitions name.
RUN = "renewed"

#: Lakes that this process has looked through.
_renewed: set[tuple[str, str]] = set()


def renew(lake: Lake, tables: Iterable[Table] = tuple(TABLES.values())) -> int:
    """Rewrite the partitions of versions that a table's `added` names, with the columns that they lack; returns how many there were.

    A table of a lake is looked through once in a process. A damaged partition stays as it is: who reads it is told. Raises `LakeError` when one cannot be written.
    """
    count = 0
    for table in tables:
        if table.added and (lake.uri, table.name) not in _renewed:
            count += _renew(lake, table)
            _renewed.add((lake.uri, table.name))
    return count


def _renew(lake: Lake, table: Table) -> int:
    count = 0
    for partition, manifest in lake.legible(table).items():
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
