"""Reliability: mean forecast and observed frequency by bin, with intervals over clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from bellwether.calibration.bootstrap import NO_CLUSTERS, Bounds, Statistic, bootstrap
from bellwether.calibration.clusters import Clusters, Labels
from bellwether.calibration.forecasts import BINS, DECILES, Bins, Forecasts
from bellwether.calibration.inference import Inference
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
    return bins_of(forecasts, None if clusters is None else Clusters.of(clusters, len(forecasts)), Bins.of(bins), Inference(level))


def bins_of(forecasts: Forecasts, clusters: Clusters | None, bins: Bins = DECILES, plan: Inference | None = None) -> pl.DataFrame:
    """Compute the table of `reliability_bins` from validated forecasts. plan: level and seed of the intervals."""
    sums = total_sums(forecasts, bins)
    weight, index = sums["bin_n"], bins.index(forecasts.p)
    mean_forecast, yes_rate = (
        np.divide(sums[name], weight, out=np.full(bins.count, np.nan), where=weight > 0) for name in ("bin_p", "bin_yes")
    )
    rates = _rates(forecasts, clusters, index, bins.count, plan or Inference())
    filled = {
        "mean_forecast": mean_forecast,
        "yes_rate": yes_rate,
        "gap": mean_forecast - yes_rate,
        "yes_rate_lower": [rate.lower for rate in rates],
        "yes_rate_upper": [rate.upper for rate in rates],
    }
    return pl.DataFrame(
        {
            "bin": np.arange(bins.count, dtype=np.int32),
            "lower_edge": bins.edges[:-1],
            "upper_edge": bins.edges[1:],
            "n": np.bincount(index, minlength=bins.count).astype(np.int64),
            "n_clusters": pl.Series([rate.n_clusters for rate in rates], dtype=pl.Int64),
            **{name: pl.Series(values, dtype=pl.Float64, nan_to_null=True) for name, values in filled.items()},
            "reason": pl.Series([rate.reason for rate in rates], dtype=pl.String),
        }
    )


def _rates(forecasts: Forecasts, clusters: Clusters | None, index: np.ndarray, count: int, plan: Inference) -> list[Bounds]:
    """Compute the frequency of yes in each bin with its interval. index: bin of each forecast. count: number of bins."""
    outcomes = (forecasts.y, np.zeros(len(forecasts)), np.ones(len(forecasts)))
    inside = [index == place for place in range(count)]
    if clusters is None:
        return [Bounds(None, reason=NO_CLUSTERS if within.any() else _EMPTY) for within in inside]
    rates = (
        Statistic(np.stack([y * within for y in outcomes])[:, None], np.broadcast_to(within.astype(float), (3, 1, len(within))))
        for within in inside
    )
    bounds = bootstrap(rates, forecasts.weight, clusters, plan)
    return [bound if within.any() else replace(bound, reason=_EMPTY) for bound, within in zip(bounds, inside, strict=True)]
