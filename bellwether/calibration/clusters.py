"""Clusters of dependent forecasts. Intervals and tests treat clusters, not forecasts, as independent.

One label per forecast gives one-way clusters, such as the series of each question. Two labels give two-way clusters, such as question and date:
forecasts are then dependent if they share either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bellwether.calibration.forecasts import Bools, Floats, Ints
from bellwether.errors import ScoringError

#: Accepted forms of clusters: labels, a pair of label columns, or two named columns.
Labels = Sequence[Any] | NDArray[Any] | Mapping[str, Any] | Any

_WAYS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Partition of N forecasts into `count` groups. index: group of each forecast, intp (N,), from 0."""

    index: Ints
    count: int

    @classmethod
    def of(cls, index: Ints) -> Grouping:
        """Build groups from the group number of each forecast, (N,). Gaps in the numbers are closed."""
        labels, dense = np.unique(index, return_inverse=True)
        return cls(dense.astype(np.intp), len(labels))

    def take(self, rows: Ints | Bools) -> Grouping:
        """Return the groups of the forecasts at `rows`, renumbered."""
        return Grouping.of(self.index[rows])

    def sums(self, values: Floats | Bools) -> Floats:
        """Sum the values (N,) of each group, float64 (count,)."""
        return np.asarray(np.bincount(self.index, values, self.count), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """One-way or two-way clusters of N forecasts. Create it with `Clusters.of`, which validates.

    ways: one grouping, or two.
    both: for two ways, the groups of forecasts that share both; None for one way.
    """

    ways: tuple[Grouping, ...]
    both: Grouping | None = None

    @classmethod
    def of(cls, labels: Labels, size: int, name: str = "clusters") -> Clusters:
        """Build the clusters of `size` forecasts from their labels.

        `labels` is one sequence of labels, or two for two-way clusters: a tuple of two sequences, a mapping or a frame with two columns, or an
        array (N, 2). Raises `ScoringError` for a missing label, for labels of mixed types, and for another length or shape.
        """
        columns = _columns(labels, size, name)
        if len(columns) > _WAYS:
            raise ScoringError(f"scoring: {name} has {len(columns)} columns; give one label per forecast, or two for two-way clusters")
        return cls.of_groups(*(_group(column, values, size) for column, values in columns.items()))

    @classmethod
    def of_groups(cls, *ways: Grouping) -> Clusters:
        """Build clusters from numbered groupings: one, or two for two-way clusters."""
        if len(ways) < _WAYS:
            return cls(ways)
        first, second = ways
        return cls(ways, Grouping.of(first.index * second.count + second.index))

    def __len__(self) -> int:
        return len(self.ways[0].index)

    @property
    def count(self) -> int:
        """Number of clusters; for two-way clusters, the smaller number."""
        return min(way.count for way in self.ways)

    def take(self, rows: Ints | Bools) -> Clusters:
        """Return the clusters of the forecasts at `rows`."""
        return Clusters(tuple(way.take(rows) for way in self.ways), None if self.both is None else self.both.take(rows))


def _columns(labels: Labels, size: int, name: str) -> dict[str, Any]:
    """Split labels into one or two columns, by the name of the column in error messages. size: number of forecasts."""
    if isinstance(labels, Mapping):
        return {f"{name} {key!r}": values for key, values in labels.items()}
    if hasattr(labels, "columns"):  # a frame of polars or pandas
        columns = [str(column) for column in labels.columns]
        return {name if len(columns) == 1 else f"{name} {column!r}": labels[column] for column in labels.columns}
    if isinstance(labels, tuple) and labels and all(_is_column(column_labels, size) for column_labels in labels):
        return {f"{name}[{index}]": column_labels for index, column_labels in enumerate(labels)}
    if isinstance(labels, np.ndarray) and labels.ndim == _WAYS:
        return {name if labels.shape[1] == 1 else f"{name}[:, {index}]": labels[:, index] for index in range(labels.shape[1])}
    return {name: labels}


def _is_column(values: Any, size: int) -> bool:
    return not isinstance(values, str | bytes) and hasattr(values, "__len__") and hasattr(values, "__getitem__") and len(values) == size


def _group(name: str, values: Any, size: int) -> Grouping:
    """Number the labels of one column. Raises `ScoringError` for a missing label or another length. name: the column's name in messages."""
    if isinstance(values, range):
        values = np.asarray(values)
    if len(values) != size:
        raise ScoringError(f"scoring: column {name} has {len(values)} values and p has {size}; give one label per forecast")
    missing = _missing(values)
    if missing.any():
        index = int(np.argmax(missing))
        raise ScoringError(
            f"scoring: column {name} has no label at index {index}; label every forecast, an independent one with a label of its own"
        )
    series = values if isinstance(values, pl.Series) else _series(name, values)
    if not size:
        return Grouping(np.zeros(0, dtype=np.intp), 0)
    rank = series.rank("dense").to_numpy().astype(np.intp) - 1
    return Grouping(rank, int(rank.max()) + 1)


def _missing(values: Any) -> Bools:
    """Return a mask of the missing labels: None, NaN, NaT, pandas' NA and polars' null."""
    if isinstance(values, pl.Series):
        floats = values.dtype.is_float()
        return np.asarray((values.is_null() | (values.is_nan() if floats else False)).fill_null(True), dtype=bool)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuSU":
        return np.zeros(len(values), dtype=bool)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return np.isnan(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "mM":
        return np.isnat(values)
    return np.array([_is_missing(value) for value in values], dtype=bool)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return bool(np.isnat(value) if isinstance(value, np.datetime64) else isinstance(value, float | np.floating) and np.isnan(value))


def _series(name: str, values: Any) -> Any:
    """Convert labels to a Polars series. Raises `ScoringError` if text is mixed with other types: 1 and "1" may be one cluster or two."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufSUmM":
        return pl.Series(values.astype(str) if values.dtype.kind == "S" else values)
    labels = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = {type(label) for label in labels}
    texts = str in kinds
    if texts and len(kinds) > 1:
        index = next(index for index, label in enumerate(labels) if not isinstance(label, str))
        raise ScoringError(
            f"scoring: column {name} mixes text with {type(labels[index]).__name__}, first {labels[index]!r} at index {index}; "
            "give labels of one type"
        )
    if texts or kinds <= {int, float, bool}:
        return pl.Series(labels, strict=False)
    indices: dict[Any, int] = {}
    return pl.Series([indices.setdefault(label, len(indices)) for label in labels])
