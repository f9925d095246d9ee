"""Conversion of partitions (values of a table's partition columns) to folders and typed values, and assignment of rows to partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import Any
from urllib.parse import quote, unquote

import polars as pl

from bellwether.errors import LakeError, SchemaError
from bellwether.tables import Table

Partition = tuple[str, ...]

#: Parser of a partition's text by the dtype of its column.
_PARSERS: dict[pl.DataType, Callable[[str], Any]] = {pl.String(): str, pl.Date(): date.fromisoformat, pl.Int32(): int, pl.Int64(): int}


def partition_folder(table: Table, partition: Partition) -> str:
    """Return the folder of a partition below the lake's root, with percent-encoded values. Raises `LakeError` for values that do not fit the table."""
    if len(partition) != len(table.partitioned_by) or not all(partition):
        raise LakeError(
            f"table {table.name}: {partition!r} is not a partition of it; it is partitioned by ({', '.join(table.partitioned_by)})"
        )
    return "/".join((table.name, *map(_quote_part, partition)))


def _quote_part(part: str) -> str:
    text = quote(part, safe="")
    return text.replace(".", "%2E", 1) if text.startswith(".") else text


def partition_of_folder(table: Table, folder: str) -> Partition:
    """Return the partition stored in a folder. Inverse of `partition_folder`."""
    return tuple(map(unquote, folder.removeprefix(table.name).split("/")[1:]))


def partition_values(table: Table, partition: Partition) -> dict[str, Any]:
    """Return the values of a partition by column name, converted to the columns' types. Raises `LakeError` for a value that cannot be converted."""
    values = {}
    for name, text in zip(table.partitioned_by, partition, strict=True):
        dtype = table.schema[name]
        try:
            values[name] = _PARSERS[dtype](text)
        except (KeyError, ValueError):
            raise LakeError(f"table {table.name}: {text!r} is not a value of the partition column {name} ({dtype})") from None
    return values


def require_partition(table: Table, partition: Partition, frame: pl.DataFrame) -> None:
    """Raise `SchemaError` if a row of `frame` belongs to a partition other than `partition`. The message shows the key of the first such row."""
    for name, value in partition_values(table, partition).items():
        own = frame[name] == value
        if not own.all():
            row = frame.filter(~own).select(table.key).row(0, named=True)
            raise SchemaError(f"table {table.name}, partition {'/'.join(partition)}: {(~own).sum()} rows have another {name}; first {row}")


def split_rows(table: Table, frame: pl.DataFrame, partitions: Iterable[Partition]) -> dict[Partition, pl.DataFrame]:
    """Split `frame` by partition: one frame for each of `partitions`, empty for a partition without rows.

    Raises `SchemaError` if a row belongs to none of them.
    """
    missing = [name for name in table.partitioned_by if name not in frame.columns]
    if missing:
        raise SchemaError(f"table {table.name}: the frame lacks the partition column {missing[0]}")
    wanted = list(partitions)
    frames = {tuple(map(str, key)): rows for key, rows in frame.partition_by(table.partitioned_by, as_dict=True).items()}
    strays = sorted(set(frames) - set(wanted))
    if strays:
        listed = ", ".join("/".join(stray) for stray in strays[:3])
        raise SchemaError(
            f"table {table.name}: {sum(frames[stray].height for stray in strays)} rows belong to no partition of this run: "
            f"{listed}{', …' if len(strays) > 3 else ''}; the run writes {len(wanted)} partitions from {'/'.join(wanted[0])} to {'/'.join(wanted[-1])}"
        )
    return {partition: frames.get(partition, frame.clear()) for partition in wanted}
