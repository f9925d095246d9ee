"""Stored order of a partition's rows, and uniqueness of their keys."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import polars as pl

from bellwether.errors import SchemaError
from bellwether.tables import Table

#: Minimum rows per thread.
_PIECE = 65_536


def sort_rows(table: Table, frame: pl.DataFrame, *, constant: tuple[str, ...] = ()) -> pl.DataFrame:
    """Sort `frame` by the columns of `table.order`, then by the key, so that the same rows always have the same order.

    `frame` has exactly the table's columns; those named `constant` have a single value.
    Raises `SchemaError` if the key is not unique.
    """
    order = [name for name in dict.fromkeys((*table.order, *table.key)) if name not in constant]
    if not order:
        return table.validate(frame)
    nullable = any(column.nullable for column in table.columns if column.name in order)
    if set(order) <= set(table.key) and not nullable:
        if is_increasing(frame, order):
            return frame
        frame = frame.sort(order)
        return frame if is_increasing(frame, order) else table.validate(frame)
    return table.validate(frame.sort(order, nulls_last=True))


def is_increasing(frame: pl.DataFrame, columns: list[str]) -> bool:
    """Return True if every row is greater than the one before, compared by `columns` in turn. Requires columns without nulls.

    Rows are usually in order: this is much cheaper than sorting, and proves that no two keys are equal.
    """
    step = max(_PIECE, -(-frame.height // pl.thread_pool_size()))
    pieces = [frame.slice(start, step + 1) for start in range(0, frame.height, step)]
    if len(pieces) < 2:
        return _is_increasing(frame, columns)
    with ThreadPoolExecutor(len(pieces)) as pool:
        return all(pool.map(lambda piece: _is_increasing(piece, columns), pieces))


def _is_increasing(frame: pl.DataFrame, columns: list[str]) -> bool:
    last = frame.height - 1
    if last < 1:
        return True
    tied: pl.Series | None = None
    for name in columns:
        series = frame[name]
        if series[0] == series[last] and (series == series[0]).all():
            continue
        before, after = series.slice(0, last), series.slice(1)
        equal = before == after
        moved = ~equal if tied is None else tied & ~equal
        # Few values change from row to row; comparing all would take most of the time.
        if not (before.filter(moved) < after.filter(moved)).all():
            return False
        tied = equal if tied is None else tied & equal
        if not tied.any():
            return True
    return False


class Keys:
    """Check that the keys of a partition are unique although its rows arrive in chunks. Keeps only a 64-bit hash per row."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._columns = [name for name in table.key if name not in table.partitioned_by]
        self._hashes: list[pl.Series] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Add the keys of one chunk."""
        if self._columns:
            self._hashes.append(frame.select(pl.struct(self._columns).hash().alias("hash")).to_series())
        else:
            self._hashes.append(pl.Series("hash", [0], dtype=pl.UInt64).new_from_index(0, frame.height))

    def require_unique(self, rows: pl.LazyFrame) -> None:
        """Raise `SchemaError` for a duplicate key. rows: all rows added so far, which are read only if two hashes are equal."""
        hashes = pl.concat(self._hashes) if self._hashes else pl.Series(dtype=pl.UInt64)
        if hashes.n_unique() == hashes.len():
            return
        key = list(self._table.key)
        twice = rows.select(key).filter(pl.struct(key).is_duplicated()).head(1).collect()
        if twice.height:
            raise SchemaError(
                f"table {self._table.name}: the key {', '.join(key)} is not unique; first duplicate {twice.row(0, named=True)}"
            )
