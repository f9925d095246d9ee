"""Which folder a partition has, and which rows belong to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import Any
from urllib.parse import quote, unquote

import polars as pl

from bellwether.errors import LakeError, SchemaError
from bellwether.tables import Table

Partition = tuple[str, ...]

#: How a partition's text is read as a value of its column.
_READ: dict[pl.DataType, Callable[[str], Any]] = {pl.String(): str, pl.Date(): date.fromisoformat, pl.Int32(): int, pl.Int64(): int}


def folder(table: Table, partition: Partition) -> str:
    """Folder of a partition below the lake's root, every part quoted as in a URL; raises `LakeError` when the parts do not fit the table."""
    if len(partition) != len(table.partitioned_by) or not all(partition):
        raise LakeError(
            f"table {table.name}: {partition!r} is no partition of it; it is partitioned by ({', '.join(table.partitioned_by)})"
        )
    return "/".join((table.name, *map(_quoted, partition)))


def _quoted(part: str) -> str:
    text = quote(part, safe="")
    return text.replace(".", "%2E", 1) if text.startswith(".") else text


def of_folder(table: Table, folder: str) -> Partition:
    """The partition whose folder it is."""
    return tuple(map(unquote, folder.removeprefix(table.name).split("/")[1:]))


def values(table: Table, partition: Partition) -> dict[str, Any]:
    """Column name -> value of a partition, in the columns' own types; raises `LakeError` for a text that is no such value."""
    found = {}
    for name, text in zip(table.partitioned_by, partition, strict=True):
        dtype = table.schema[name]
        try:
            found[name] = _READ[dtype](text)
        except (KeyError, ValueError):
            raise LakeError(f"table {table.name}: {text!r} is no value of the partition column {name} ({dtype})") from None
    return found


def require(table: Table, partition: Partition, frame: pl.DataFrame) -> None:
    """Raise `SchemaError` when a row of `frame` belongs to another partition; shows the first such row's key."""
    for name, value in values(table, partition).items():
        own = frame[name] == value
        if not own.all():
            row = frame.filter(~own).select(table.key).row(0, named=True)
            raise SchemaError(f"table {table.name}, partition {'/'.join(partition)}: {(~own).sum()} rows have another {name}; first {row}")


def split(table: Table, frame: pl.DataFrame, partitions: Iterable[Partition]) -> dict[Partition, pl.DataFrame]:
    """Rows of `frame` by partition, one frame for each of `partitions`, an empty one where there are no rows.

    Raises `SchemaError` when a row belongs to none of them.
    """
    missing = [name for name in table.partitioned_by if name not in frame.columns]
    if missing:
        raise SchemaError(f"table {table.name}: the frame lacks the partition column {missing[0]}")
    wanted = list(partitions)
    found = {tuple(map(str, key)): rows for key, rows in frame.partition_by(table.partitioned_by, as_dict=True).items()}
    strays = sorted(set(found) - set(wanted))
    if strays:
        shown = ", ".join("/".join(stray) for stray in strays[:3])
        raise SchemaError(
            f"table {table.name}: {sum(found[stray].height for stray in strays)} rows belong to no partition of this run: "
            f"{shown}{', …' if len(strays) > 3 else ''}; the run writes {len(wanted)} partitions from {'/'.join(wanted[0])} to {'/'.join(wanted[-1])}"
        )
    return {partition: found.get(partition, frame.clear()) for partition in wanted}
