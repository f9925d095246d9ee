"""A forecaster of the benchmark whose forecasts were submitted: on each question its last one before the close."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import polars as pl

from bellwether.forecasting.forecaster import Models, Registered, forecast_rows


class Submitted(Registered):
    """Forecasts that were handed in as a file.

    path: where they are kept (`bellwether.submissions.store`).
    """

    kind: Literal["submitted"] = "submitted"
    path: Path

    @property
    def version(self) -> str:
        """Hash of the accepted forecasts: a further submission makes further scores."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]

    def forecast(self, questions: pl.DataFrame, models: Models | None = None) -> pl.DataFrame:
        """See `Forecaster.forecast`."""
        stated = pl.read_parquet(self.path).select(pl.col("market").alias("id"), "probability", "stated_at")
        known = (
            stated.join(questions.select("id", "close_time"), on="id")
            .filter(pl.col("stated_at") < pl.col("close_time"))
            .sort("stated_at")
            .group_by("id")
            .agg(pl.col("probability", "stated_at").last())
        )
        with_them = questions.join(known, on="id", how="left", maintain_order="left")
        return forecast_rows(
            self,
            with_them,
            p_yes=pl.col("probability"),
            as_of=pl.col("stated_at"),
            error=pl.when(pl.col("probability").is_null()).then(pl.lit("no forecast was submitted")),
        )


def submitted(folder: Path) -> dict[str, Submitted]:
    """The forecasters with submissions in a folder, a Parquet file each, by name."""
    return {path.stem: Submitted(name=path.stem, description="submitted as a file", path=path) for path in sorted(folder.glob("*.parquet"))}
