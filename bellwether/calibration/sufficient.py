"""Sufficient statistics: sums over forecasts, per group, from which every metric with bins or without order follows.

The same sums serve the point estimate (one group) and the bootstrap (one group per cluster, combined with replicate weights).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.binning import BINS, bin_of
from bellwether.calibration.forecasts import Bools, Floats, Forecasts, Ints

CLIP = 1e-15
THRESHOLDS: dict[str, float] = {"70": 0.7, "80": 0.8, "90": 0.9}

_SCALARS = (
    *("n", "yes", "said_yes", "hit_yes", "squared_error", "log_loss", "confidence_correct", "confidence_wrong"),
    *(f"{what}_{name}" for name in THRESHOLDS for what in ("confident", "confident_wrong")),
    *("priced", "squared_error_priced", "squared_error_market"),
    *("squared_error_yes", "squared_error_no", "p", "p_squared", "p_yes"),
)
_BINNED = ("bin_n", "bin_p", "bin_yes")
_AT: dict[str, int | slice] = {name: index for index, name in enumerate(_SCALARS)}
_AT |= {name: slice(len(_SCALARS) + BINS * index, len(_SCALARS) + BINS * (index + 1)) for index, name in enumerate(_BINNED)}

WIDTH = len(_SCALARS) + BINS * len(_BINNED)


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """`matrix` float64 (..., WIDTH); `sums[name]` is one statistic with the leading shape, `bin_*` with a last axis over the bins."""

    matrix: Floats

    def __getitem__(self, name: str) -> Floats:
        return self.matrix[..., _AT[name]]


def _columns(forecasts: Forecasts) -> Iterator[tuple[str, Floats | Bools]]:
    """One value per forecast for each scalar statistic, so that no more than one column is alive at a time."""
    p, y, decision = forecasts.p, forecasts.y, forecasts.decision
    yield "n", np.ones(len(p), dtype=bool)
    yield "yes", y
    yield "said_yes", decision
    yield "hit_yes", y & decision
    squared_error = np.square(p - y)
    yield "squared_error", squared_error
    clipped = np.clip(p, CLIP, 1 - CLIP)
    yield "log_loss", -np.log(np.where(y, clipped, 1 - clipped))
    wrong = y != decision
    confidence = np.maximum(p, 1 - p)
    yield "confidence_correct", np.where(wrong, 0.0, confidence)
    yield "confidence_wrong", np.where(wrong, confidence, 0.0)
    for name, threshold in THRESHOLDS.items():
        confident = confidence > threshold
        yield f"confident_{name}", confident
        yield f"confident_wrong_{name}", confident & wrong
    priced = ~np.isnan(forecasts.market)
    yield "priced", priced
    yield "squared_error_priced", np.where(priced, squared_error, 0.0)
    yield "squared_error_market", np.where(priced, np.square(forecasts.market - y), 0.0)
    yield "squared_error_yes", np.where(y, squared_error, 0.0)
    yield "squared_error_no", np.where(y, 0.0, squared_error)
    yield "p", p
    yield "p_squared", np.square(p)
    yield "p_yes", np.where(y, p, 0.0)


def total(forecasts: Forecasts) -> Sums:
    """Sums over all forecasts: `matrix` has shape (WIDTH,)."""
    matrix = np.zeros(WIDTH)
    for name, column in _columns(forecasts):
        matrix[_AT[name]] = np.count_nonzero(column) if column.dtype == bool else column.sum()
    index = bin_of(forecasts.p)
    matrix[_AT["bin_n"]] = np.bincount(index, minlength=BINS)
    matrix[_AT["bin_p"]] = np.bincount(index, forecasts.p, BINS)
    matrix[_AT["bin_yes"]] = np.bincount(index[forecasts.y], minlength=BINS)
    return Sums(matrix)


def per_cluster(forecasts: Forecasts, cluster: Ints, n_clusters: int) -> Sums:
    """Sums per cluster: `cluster` holds the index of each forecast's cluster; `matrix` has shape (n_clusters, WIDTH)."""
    matrix = np.zeros((n_clusters, WIDTH))
    for name, column in _columns(forecasts):
        matrix[:, _AT[name]] = np.bincount(cluster, column, n_clusters)
    cell = cluster * BINS + bin_of(forecasts.p)
    for name, column in (("bin_n", np.ones(len(cell))), ("bin_p", forecasts.p), ("bin_yes", forecasts.y)):
        matrix[:, _AT[name]] = np.bincount(cell, column, n_clusters * BINS).reshape(n_clusters, BINS)
    return Sums(matrix)


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """`numerator / denominator`, NaN where the denominator is not positive."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)
