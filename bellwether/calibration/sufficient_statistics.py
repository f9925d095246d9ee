"""Sufficient statistics: weighted sums of forecasts by group, from which the metrics that need no order of the forecasts follow.

The point estimate uses the sums of all forecasts, the jackknife those of all clusters but one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.clusters import Grouping
from bellwether.calibration.forecasts import DECILES, Bins, Bools, Floats, Forecasts

CLIP = 1e-15
THRESHOLDS: dict[str, float] = {"70": 0.7, "80": 0.8, "90": 0.9}

_SCALARS = (
    *("n", "n_squared", "yes", "yes_squared", "said_yes", "hit_yes", "squared_error", "log_loss", "confidence"),
    *("confidence_correct", "confidence_wrong"),
    *(f"{what}_{name}" for name in THRESHOLDS for what in ("confident", "confident_wrong")),
    *("priced", "squared_error_priced", "squared_error_market"),
    *("squared_error_yes", "squared_error_no", "p", "p_squared", "p_yes"),
)
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


def columns(forecasts: Forecasts) -> Iterator[tuple[str, Floats | Bools]]:
    """Yield (name, values (N,)) of each scalar statistic, one column at a time to save memory.

    Statistics of right and wrong decisions are NaN if outcomes are fractional.
    """
    p, y, decision = forecasts.p, forecasts.y, forecasts.decision
    ones = np.ones(len(p), dtype=bool)
    undefined = None if forecasts.is_binary else np.full(len(p), np.nan)
    yes = y == 1
    yield "n", ones
    yield "n_squared", forecasts.weight
    yield "yes", y
    yield "yes_squared", np.square(y)
    yield "said_yes", decision
    yield "hit_yes", yes & decision if undefined is None else undefined
    squared_error = np.square(p - y)
    yield "squared_error", squared_error
    yield "log_loss", log_loss(p, y)
    confidence = np.maximum(p, 1 - p)
    yield "confidence", confidence
    wrong = yes != decision
    yield "confidence_correct", np.where(wrong, 0.0, confidence) if undefined is None else undefined
    yield "confidence_wrong", np.where(wrong, confidence, 0.0) if undefined is None else undefined
    for name, threshold in THRESHOLDS.items():
        confident = confidence > threshold
        yield f"confident_{name}", confident
        yield f"confident_wrong_{name}", confident & wrong if undefined is None else undefined
    priced = ~np.isnan(forecasts.market)
    yield "priced", priced
    yield "squared_error_priced", np.where(priced, squared_error, 0.0)
    yield "squared_error_market", np.where(priced, np.square(forecasts.market - y), 0.0)
    yield "squared_error_yes", np.where(yes, squared_error, 0.0) if undefined is None else undefined
    yield "squared_error_no", np.where(yes, 0.0, squared_error) if undefined is None else undefined
    yield "p", p
    yield "p_squared", np.square(p)
    yield "p_yes", p * y


def log_loss(p: Floats, y: Floats) -> Floats:
    """Return the logarithmic loss of each forecast, in nats, p clipped to [1e-15, 1 - 1e-15]."""
    clipped = np.clip(p, CLIP, 1 - CLIP)
    return (
        -np.log(np.where(y == 1, clipped, 1 - clipped))
        if ((y == 0) | (y == 1)).all()
        else -(y * np.log(clipped) + (1 - y) * np.log(1 - clipped))
    )


def total_sums(forecasts: Forecasts, bins: Bins = DECILES) -> Sums:
    """Compute the sums over all forecasts. Their matrix has the shape (width,)."""
    weight = forecasts.weight if forecasts.is_weighted else None
    matrix = np.zeros(len(_SCALARS) + len(_BINNED) * bins.count)
    for index, (_, column) in enumerate(columns(forecasts)):
        matrix[index] = column.sum(dtype=np.float64) if weight is None else (column * weight).sum()
    index_of = bins.index(forecasts.p)
    binned = (np.ones(len(forecasts)), forecasts.p, forecasts.y)
    for index, column in enumerate(binned):
        start = len(_SCALARS) + bins.count * index
        matrix[start : start + bins.count] = np.bincount(index_of, column if weight is None else column * weight, bins.count)
    return Sums(matrix)


def sums_by_group(forecasts: Forecasts, groups: Grouping, bins: Bins = DECILES) -> Sums:
    """Compute the sums of each group. Their matrix has the shape (groups.count, width)."""
    weight = forecasts.weight if forecasts.is_weighted else None
    matrix = np.zeros((groups.count, len(_SCALARS) + len(_BINNED) * bins.count))
    for index, (_, column) in enumerate(columns(forecasts)):
        matrix[:, index] = groups.sums(column if weight is None else column * weight)
    index_of = bins.index(forecasts.p)
    for index, column in enumerate((np.ones(len(index_of)), forecasts.p, forecasts.y)):
        start = len(_SCALARS) + bins.count * index
        matrix[:, start : start + bins.count] = groups.bin_sums(index_of, bins.count, column if weight is None else column * weight)
    return Sums(matrix)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return `numerator / denominator`, NaN if the denominator is not positive."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)
