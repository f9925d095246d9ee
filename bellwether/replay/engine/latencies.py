"""Recorded latencies of orders."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from bellwether.errors import ConfigError

#: Columns of a file of latencies.
FILE_COLUMNS = ("time_ns", "entry_ns", "response_ns")


class LatencySeries:
    """Measured latencies of orders: the times at which each was sent, reached the venue, and was acknowledged.

    rows: int64[n, 3] of these times, ns UTC, each ascending. Latencies are interpolated linearly between rows and constant before the first
    and after the last one. Raises `ConfigError`, naming the row, for times that are out of order.
    """

    def __init__(self, rows: np.ndarray, name: str = "latencies") -> None:
        times = np.asarray(rows)
        if times.ndim != 2 or times.shape[1] != 3 or times.dtype.kind not in "iu" or not len(times):
            raise ConfigError(
                f"reading {name}: found {times.dtype} of shape {times.shape}; give integers of shape (n, 3), with at least one row"
            )
        self.rows = np.ascontiguousarray(times, np.int64)
        _check(self.rows, name)
        self.rows.flags.writeable = False

    @classmethod
    def read(cls, path: Path | str) -> LatencySeries:
        """Read a series from a CSV or Parquet file with the columns `FILE_COLUMNS`.

        These are the time sent (ns UTC) and the latencies of the order and its acknowledgement (ns). Raises `ConfigError` for a file that
        cannot be read, that lacks a column, or whose rows are out of order.
        """
        import polars as pl

        path = Path(path)
        read = pl.read_parquet if path.suffix == ".parquet" else pl.read_csv
        try:
            frame = read(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"reading latencies from {path}: {reason}; give a CSV or Parquet file with {', '.join(FILE_COLUMNS)}"
            ) from None
        lacking = [column for column in FILE_COLUMNS if column not in frame.columns]
        if lacking:
            raise ConfigError(f"reading latencies from {path}: it has no column {lacking[0]}; its columns are {', '.join(FILE_COLUMNS)}")
        values = frame.select(FILE_COLUMNS)
        for column in FILE_COLUMNS:
            if not values[column].dtype.is_integer() or values[column].null_count():
                raise ConfigError(f"reading latencies from {path}: {column} has values that are not integers; give ns")
        return cls(np.cumsum(values.cast(pl.Int64).to_numpy(), axis=1), str(path))

    def digest(self) -> str:
        """Return the SHA-256, in hex, of all times."""
        return hashlib.sha256(self.rows.astype("<i8").tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatencySeries) and np.array_equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        return f"LatencySeries of {len(self.rows)} orders, {self.digest()[:16]}"

    def __deepcopy__(self, memo: Any) -> LatencySeries:
        return self


#: Maximum of a time or a latency, ns: 2^62 is in the year 2116.
_LARGEST = 2**62


def _check(rows: np.ndarray, name: str) -> None:
    """Raise `ConfigError` for the first row whose times are invalid. name: of the series, for the error."""
    latencies = np.diff(rows, axis=1)
    for bad, problem in (
        ((rows < 0).any(axis=1) | (rows >= _LARGEST).any(axis=1), "a time is below 0 or too large; times are ns UTC"),
        (latencies[:, 0] < 0, "the entry latency is below 0"),
        (latencies[:, 1] < 0, "the response latency is below 0"),
        (np.diff(rows[:, 0], prepend=-1) <= 0, "it is not later than the row before; sort the rows by time and keep one of each"),
        (
            np.diff(rows[:, 1], prepend=-1) <= 0,
            "its order arrives no later than that of the row before; leave out orders that were overtaken",
        ),
        (np.diff(rows[:, 2], prepend=0) < 0, "its answer comes before that of the row before; leave out answers that were overtaken"),
    ):
        if bad.any():
            raise ConfigError(f"reading {name}: row {int(np.argmax(bad)) + 1}: {problem}")
