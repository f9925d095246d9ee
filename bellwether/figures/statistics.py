"""Statistics for figures: one row per forecaster and question, scores with intervals over clusters, and spreads over episodes."""

from __future__ import annotations

import polars as pl

from bellwether.calibration.answers import combine_samples
from bellwether.calibration.reliability import corp_curve, reliability_bands


def select_answered(forecasts: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Combine the samples of each forecaster's answers. One row per forecaster and question, without questions whose outcome the forecaster could
    know.

    Columns: forecaster, id, p, y and cluster.
    """
    truth = questions.select("id", "cluster", y=pl.col("ground_truth") == "yes")
    return (
        combine_samples(forecasts)
        .filter(pl.col("p").is_not_null() & ~pl.col("said_could_know"))
        .join(truth, on="id")
        .select("forecaster", "id", "p", "y", "cluster")
        .sort("forecaster", "id")
    )


def calibration_overlays(forecasts: pl.DataFrame, questions: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compute what a reliability diagram shows besides bins: bands (forecaster, bin, lower, upper) of calibrated forecasts, and calibration curves.

    The curves have forecaster, forecast and recalibrated, the frequency of yes that isotonic regression gives the forecast (CORP).
    `forecasts` and `questions` are rows of benchmark/forecasts and benchmark/questions.
    """
    rows = select_answered(forecasts, questions)
    parts = {str(name): part for (name,), part in rows.partition_by("forecaster", as_dict=True).items()}
    text, number = pl.String(), pl.Float64()
    bands = [pl.DataFrame(schema={"forecaster": text, "bin": pl.Int32(), "lower": number, "upper": number})]
    curves = [pl.DataFrame(schema={"forecaster": text, "forecast": number, "recalibrated": number})]
    for name, part in sorted(parts.items()):
        forecaster = pl.lit(name).alias("forecaster")
        bands.append(reliability_bands(part["p"], part["cluster"]).select(forecaster, "bin", "lower", "upper").drop_nulls())
        curves.append(corp_curve(part["p"], part["y"]).select(forecaster, "forecast", "recalibrated"))
    return pl.concat(bands), pl.concat(curves)


def weighted_spread(rows: pl.DataFrame, group: str, value: str, weight: str) -> tuple[float | None, float | None, float | None]:
    """Return the weighted mean of a column, and the lowest and the highest weighted mean of a group; None without weight. Nulls are left out."""
    number = pl.col(weight).cast(pl.Float64)
    weighted = rows.drop_nulls(value).filter(number > 0).group_by(group, maintain_order=True)
    sums = weighted.agg(total=(pl.col(value).cast(pl.Float64) * number).sum(), n=number.sum())
    mean = pl.col("total") / pl.col("n")
    spread = sums.select(pl.col("total").sum() / pl.col("n").sum(), lowest=mean.min(), highest=mean.max())
    return spread.row(0) if sums.height else (None, None, None)
