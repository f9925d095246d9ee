"""What reliability diagrams of a result show beside their points."""

from __future__ import annotations

import polars as pl

from bellwether.calibration import corp_curve, reliability_bands
from bellwether.scoring.score import ScoreResult


def bands_and_curves(result: ScoreResult) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Consistency bands of the bins (forecaster, bin, lower, upper) and CORP curves (forecaster, forecast, n, recalibrated, lower, upper)."""
    bands, curves = [], []
    ways = [name for name in result.forecasts.columns if name.startswith("cluster_")]
    for name in result.forecasters:
        rows = result.forecasts.filter((pl.col("forecaster") == name) & pl.col("probability").is_not_null())
        forecaster, clusters = pl.lit(name).alias("forecaster"), rows.select(ways)
        level, seed = result.plan.level, result.plan.seed
        bins = reliability_bands(rows["probability"], clusters, bins=result.bins.edges, level=level, seed=seed)
        bands.append(bins.select(forecaster, "bin", "lower", "upper").drop_nulls())
        curve = corp_curve(rows["probability"], rows["outcome"], clusters, weights=rows["weight"], level=level, seed=seed)
        curves.append(curve.select(forecaster, pl.all()))
    return pl.concat(bands), pl.concat(curves)
