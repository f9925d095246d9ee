"""Sufficient statistics: weighted sums of forecasts, from which the binned calibration errors and the decompositions of the Brier score follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import DECILES, Bins, Bools, Floats, Forecasts

CLIP = 1e-15
THRESHOLDS: dict[str, float] = {"70": 0.7, "80": 0.8, "90": 0.9}

_SCALARS = ("n", "yes", "yes_squared", "squared_error", "p", "p_squared", "p_yes")
_BINNED = ("bin_n", "bin_p", "bin_yes")
_AT: dict[str, int] = {name: index for index, name in enumerate(_SCALARS)}


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Weighted sums by statistic. `sums[name]` has the leading shape of `matrix` (..., width); `bin_*` statistics have a last axis of bins."""

    matrix: Floats

    def __getitem__(self, name: str) -> Floats:
        if name in _AT:
            return self.matrix[..., _AT[name]]
        bins = (self.matrix.shape[-1] - len(_SCALARS)) // len(_BINNED)
        start = len(_SCALARS) + bins * _BINNED.index(name)
        return self.matrix[..., start : start + bins]


def _columns(forecasts: Forecasts) -> Iterator[Floats | Bools]:
    """Yield the values (N,) of each scalar statistic, one column at a time to save memory."""
    p, y = forecasts.p, forecasts.y
    yield np.ones(len(p), dtype=bool)
    yield y
    yield np.square(y)
    yield np.square(p - y)
    yield p
    yield np.square(p)
    yield p * y


def log_loss(p: Floats, y: Floats) -> Floats:
    """Return the logarithmic loss of each forecast, in nats, p clipped to [1e-15, 1 - 1e-15]."""
    yes, no = (-np.log(np.clip(probability, CLIP, 1 - CLIP)) for probability in (p, 1 - p))
    return np.where(y == 1, yes, np.where(y == 0, no, y * yes + (1 - y) * no))


def total_sums(forecasts: Forecasts, bins: Bins = DECILES) -> Sums:
    """Compute the sums over all forecasts. Their matrix has the shape (width,)."""
    weight = forecasts.weight if forecasts.is_weighted else None
    matrix = np.zeros(len(_SCALARS) + len(_BINNED) * bins.count)
    for index, column in enumerate(_columns(forecasts)):
        matrix[index] = column.sum(dtype=np.float64) if weight is None else (column * weight).sum()
    index_of = bins.index(forecasts.p)
    binned = (np.ones(len(forecasts)), forecasts.p, forecasts.y)
    for index, column in enumerate(binned):
        start = len(_SCALARS) + bins.count * index
        matrix[start : start + bins.count] = np.bincount(index_of, column if weight is None else column * weight, bins.count)
    return Sums(matrix)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return `numerator / denominator`, NaN if the denominator is not positive."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)
