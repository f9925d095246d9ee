"""Jackknife over clusters: metrics without each cluster, the resulting variance, and its degrees of freedom.

The variance is the sum of squared changes when one cluster is left out. For a mean it is the cluster-robust variance CR3 (Bell and McCaffrey,
Survey Methodology 28, 2002; MacKinnon, Nielsen and Webb, Journal of Econometrics 232, 2023), which is conservative with few or unequal clusters.
Two-way clusters add the variances of both ways and subtract that of their intersections; the result is at least the larger of both (Cameron,
Gelbach and Miller, J. Bus. Econ. Stat. 29, 2011).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bellwether.calibration.clusters import Grouping
from bellwether.calibration.discrimination import discrimination, influence_on_average_precision, jackknife_roc_auc
from bellwether.calibration.forecasts import DECILES, Bins, Floats, Forecasts
from bellwether.calibration.formulas import denominators, from_sums
from bellwether.calibration.sorted_forecasts import SortedForecasts
from bellwether.calibration.sufficient_statistics import Sums, sums_by_group

#: Number of clusters processed at a time, to limit the memory.
_BLOCK = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class LeaveOneOut:
    """Metrics of all forecasts but one cluster, for each of the C clusters of a grouping.

    sizes: denominators by name, of each cluster, float64 (C,) each.
    values: metrics by name, without each cluster, float64 (C,) each, NaN where undefined.
    df: degrees of freedom of a metric, by its denominator.
    weight: mean squared weight divided by the mean weight; a sum of weights divided by it is a count of forecasts.
    """

    sizes: Mapping[str, Floats]
    values: Mapping[str, Floats]
    df: Mapping[str, float]
    weight: float

    @classmethod
    def of(cls, forecasts: Forecasts, groups: Grouping, bins: Bins = DECILES) -> LeaveOneOut:
        """Compute for each group the metrics of the forecasts outside it."""
        sums = sums_by_group(forecasts, groups, bins)
        whole = sums.matrix.sum(axis=0)
        blocks = [from_sums(Sums(whole - sums.matrix[start : start + _BLOCK])) for start in range(0, groups.count, _BLOCK)]
        values = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]} if blocks else {}
        if forecasts.is_binary and len(forecasts):
            values["roc_auc"] = jackknife_roc_auc(forecasts, groups)
            values["average_precision"] = _average_precision(forecasts, groups)
        n, counted = float(sums["n"].sum()), denominators(sums)
        weights = np.stack([*counted.values()], axis=-1)
        df = dict(zip(counted, satterthwaite(weights, weights).tolist(), strict=True))
        return cls(counted, values, df, float(sums["n_squared"].sum()) / n if n else 1.0)


@dataclass(frozen=True, slots=True)
class Jackknife:
    """Jackknife variance of a metric on a scale, and its degrees of freedom. clusters: number of clusters that contribute. largest: the
    largest share that one cluster has.

    `variance` is NaN if leaving out some cluster makes the metric undefined on that scale.
    """

    variance: float
    df: float
    clusters: int
    largest: float


def jackknife(
    ways: tuple[LeaveOneOut, ...], both: LeaveOneOut | None, name: str, *, size: str, value: float, scale: Callable[[Floats], Floats]
) -> Jackknife:
    """Compute the jackknife variance of the metric `name`, from the metrics without each cluster. ways, both: one-way or two-way clusters,
    and intersections of two-way clusters.

    name, size: of the metric and of its denominator. value: the metric on all forecasts. scale: the transformation before taking the variance.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        at = scale(np.asarray(value))
    parts = [_one_way(way, name, size, at, scale) for way in ways]
    variance = sum(part.variance for part in parts)
    if both is not None:
        together = variance - _one_way(both, name, size, at, scale).variance
        variance = max([together, *(part.variance for part in parts)]) if not np.isnan(together) else together
    return Jackknife(
        float(variance), min(part.df for part in parts), min(part.clusters for part in parts), max(part.largest for part in parts)
    )


def satterthwaite(size: Floats, variance: Floats) -> Floats:
    """Return the degrees of freedom of a mean's cluster-robust variance, float64 (...); at most the number of clusters minus one.

    size: float64 (C, ...), weight of each cluster. variance: float64 (C, ...), variance of its sum for independent, identical forecasts.

    Bell and McCaffrey (2002): the variance estimate is a quadratic form in the residuals. Its first two moments under that working model are those
    of a multiple of chi squared with these degrees of freedom. Equal clusters give C - 1; a cluster with most of the weight leaves few.
    """
    clusters = (size > 0).sum(axis=0)
    whole = size.sum(axis=0)
    share = np.divide(size, whole, out=np.zeros(size.shape), where=whole > 0)
    alone = share.max(axis=0, initial=0.0) >= 1
    total, adjusted = variance.sum(axis=0), 1 / np.where(share < 1, 1 - share, 1.0)
    own = variance * (1 - 2 * share) + np.square(share) * total
    # Off the diagonal: (h_g h_h S - h_g s_h - s_g h_h)^2 / ((1 - h_g) (1 - h_h)), summed as a polynomial.
    hh, ss, hs = ((adjusted * left * right).sum(axis=0) for left, right in ((share, share), (variance, variance), (share, variance)))
    cross = total**2 * hh**2 + 2 * hh * ss + 2 * hs**2 - 4 * total * hh * hs
    diagonal = np.square(adjusted * (np.square(share) * total - 2 * share * variance)).sum(axis=0)
    squares = np.square(adjusted * own).sum(axis=0) + cross - diagonal
    df = np.divide(np.square((adjusted * own).sum(axis=0)), squares, out=np.zeros(np.shape(squares)), where=~alone & (squares > 0))
    return np.asarray(np.minimum(df, np.maximum(clusters - 1, 0)))


def _one_way(way: LeaveOneOut, name: str, size: str, at: Floats, scale: Callable[[Floats], Floats]) -> Jackknife:
    """Compute the jackknife over one grouping. at: the transformed metric on all forecasts."""
    contributes = way.sizes[size] > 0
    weight = way.sizes[size][contributes]
    if len(weight) < 2:
        return Jackknife(float("nan"), 0.0, len(weight), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = scale(way.values[name][contributes]) - at
    variance = float(np.square(change).sum()) if np.isfinite(change).all() else float("nan")
    return Jackknife(variance, way.df[size], len(weight), float(weight.max() / weight.sum()))


def _average_precision(forecasts: Forecasts, groups: Grouping) -> Floats:
    """Approximate for each group the average precision of the forecasts outside it, to first order and with the group's leverage; float64
    (groups.count,).
    """
    value = discrimination(SortedForecasts.of(forecasts), is_binary=True).average_precision
    yes = groups.sums(forecasts.weight * forecasts.y)
    if not yes.sum():
        return np.full(groups.count, np.nan)
    influence = groups.sums(influence_on_average_precision(forecasts))
    share = yes / yes.sum()
    return np.where(share < 1, value - influence / np.where(share < 1, 1 - share, 1.0), np.nan)
