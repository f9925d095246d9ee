"""Reliability diagrams as rows of a chart, with the bands in which a calibrated forecaster would stay."""

from __future__ import annotations

from typing import Any

import polars as pl

from bellwether.calibration import reliability_bands
from bellwether.site.values import finite

#: Resamples of a band: as few as a report takes for many forecasts; more take a quarter of a build.
_RESAMPLES = 200


def bins(reliability: pl.DataFrame, name: str) -> list[dict[str, Any]]:
    """Rows of a reliability diagram, a line per value of the column `name`; empty bins are left out. Columns low and high are a band."""
    banded = "low" in reliability.columns
    return [
        {
            "name": row[name],
            "forecast": row["mean_forecast"],
            "observed": row["yes_rate"],
            "lower": finite(row["yes_rate_lower"]),
            "upper": finite(row["yes_rate_upper"]),
            "n": row["n"],
            **({"low": finite(row["low"]), "high": finite(row["high"])} if banded else {}),
        }
        for row in reliability.iter_rows(named=True)
        if finite(row["mean_forecast"]) is not None and finite(row["yes_rate"]) is not None
    ]


def bands(answers: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Consistency bands of the bins of forecasters: forecaster, bin, low and high, where 95 % of its frequencies of yes would lie if it were calibrated.

    answers: question_id, forecaster, p_yes, could_know, a row per question. questions: id, cluster. A bin without forecasts has no row.
    """
    scored = answers.filter(pl.col("p_yes").is_not_null() & ~pl.col("could_know"))
    scored = scored.join(questions.select("id", "cluster"), left_on="question_id", right_on="id").sort("forecaster", "question_id")
    found = [pl.DataFrame(schema={"forecaster": pl.String, "bin": pl.Int32, "low": pl.Float64, "high": pl.Float64})]
    for (name,), part in scored.group_by("forecaster", maintain_order=True):
        drawn = reliability_bands(part["p_yes"], part["cluster"], resamples=_RESAMPLES)
        found.append(drawn.drop_nulls("lower").select(pl.lit(name).alias("forecaster"), "bin", low="lower", high="upper"))
    return pl.concat(found)
