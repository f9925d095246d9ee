"""Reliability: mean forecast and observed frequency by bin, with Wilson intervals over clusters."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from bellwether.calibration.clusters import Clusters, Grouping, Labels
from bellwether.calibration.forecasts import BINS, DECILES, Bins, Floats, Forecasts
from bellwether.calibration.inference import Inference
from bellwether.calibration.intervals import LARGEST_SHARE, MIN_CLUSTERS, NO_CLUSTERS, few_clusters_reason, large_cluster_reason, rate_ends
from bellwether.calibration.mean_inference import ClusterSums, ClusterVariation, joint_variance
from bellwether.calibration.sufficient_statistics import total_sums

_EMPTY = "no forecast in the bin"


def reliability_bins(
    p: ArrayLike,
    y: ArrayLike,
    clusters: Labels | None = None,
    *,
    weights: ArrayLike | None = None,
    bins: int | ArrayLike = BINS,
    level: float = Inference().level,
) -> pl.DataFrame:
    """Compute the reliability table of forecasts `p` of yes against outcomes `y`: one row per bin, empty bins with nulls.

    Columns bin, lower_edge, upper_edge, n, n_clusters, mean_forecast, yes_rate, gap (mean_forecast - yes_rate), yes_rate_lower, yes_rate_upper
    and reason (of a missing interval), as in the table benchmark/reliability. Intervals need `clusters`, as in `evaluate`; give `range(N)` for
    independent forecasts. Raises `ScoringError` for invalid input.
    """
    forecasts = Forecasts.of(p, y, weights=weights)
    return bins_of(forecasts, None if clusters is None else Clusters.of(clusters, len(forecasts)), Bins.of(bins), level)


def bins_of(forecasts: Forecasts, clusters: Clusters | None, bins: Bins = DECILES, level: float = Inference().level) -> pl.DataFrame:
    """Compute the table of `reliability_bins` from validated forecasts."""
    sums = total_sums(forecasts, bins)
    weight, index = sums["bin_n"], bins.index(forecasts.p)
    mean_forecast, yes_rate = (
        np.divide(sums[name], weight, out=np.full(bins.count, np.nan), where=weight > 0) for name in ("bin_p", "bin_yes")
    )
    lower, upper, n_clusters, reasons = _rates(forecasts, clusters, index, yes_rate, bins=bins.count, level=level)
    filled = {
        "mean_forecast": mean_forecast,
        "yes_rate": yes_rate,
        "gap": mean_forecast - yes_rate,
        "yes_rate_lower": lower,
        "yes_rate_upper": upper,
    }
    return pl.DataFrame(
        {
            "bin": np.arange(bins.count, dtype=np.int32),
            "lower_edge": bins.edges[:-1],
            "upper_edge": bins.edges[1:],
            "n": np.bincount(index, minlength=bins.count).astype(np.int64),
            "n_clusters": n_clusters,
            **{name: pl.Series(values, nan_to_null=True) for name, values in filled.items()},
            "reason": pl.Series(reasons, dtype=pl.String),
        }
    )


def _rates(
    forecasts: Forecasts, clusters: Clusters | None, index: np.ndarray, rate: Floats, *, bins: int, level: float
) -> tuple[Floats, Floats, np.ndarray, list[str | None]]:
    """Compute the interval of the frequency of yes in each bin: lower ends, upper ends, numbers of clusters, and reasons for missing
    intervals. index: bin of each forecast. rate: frequency of yes by bin.
    """
    lower, upper = np.full(bins, np.nan), np.full(bins, np.nan)
    if clusters is None:
        reasons: list[str | None] = [_EMPTY if np.isnan(value) else NO_CLUSTERS for value in rate]
        return lower, upper, np.zeros(bins, dtype=np.int64), reasons
    parts = [ClusterVariation.of(_sums(forecasts, grouping, index, bins), rate) for grouping in clusters.ways]
    both = None if clusters.both is None else ClusterVariation.of(_sums(forecasts, clusters.both, index, bins), rate)
    variance = joint_variance(parts, both)
    count, df, largest = (
        reduce([getattr(part, name) for part in parts], axis=0)
        for reduce, name in ((np.min, "clusters"), (np.min, "df"), (np.max, "largest"))
    )
    n = np.bincount(index, forecasts.weight, bins) / (np.square(forecasts.weight).sum() / forecasts.weight.sum() if len(forecasts) else 1)
    reasons = []
    for place in range(bins):
        reason = _reason(rate[place], int(count[place]), float(largest[place]))
        reasons.append(reason)
        if reason is None:
            lower[place], upper[place] = rate_ends(
                float(rate[place]),
                variance=float(variance[place]),
                clusters=int(count[place]),
                df=float(df[place]),
                n=float(n[place]),
                level=level,
            )
    return lower, upper, count.astype(np.int64), reasons


def _reason(rate: float, clusters: int, largest: float) -> str | None:
    if np.isnan(rate):
        return _EMPTY
    if clusters < MIN_CLUSTERS:
        return few_clusters_reason(clusters)
    return large_cluster_reason(largest) if largest > LARGEST_SHARE else None


def _sums(forecasts: Forecasts, grouping: Grouping, index: np.ndarray, bins: int) -> ClusterSums:
    """Sum the weights of yes and of all forecasts by cluster and bin."""
    return ClusterSums(grouping.bin_sums(index, bins, forecasts.weight * forecasts.y), grouping.bin_sums(index, bins, forecasts.weight))
