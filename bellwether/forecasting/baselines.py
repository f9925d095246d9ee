"""Baselines: forecasters without a model, to which models are compared."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

import polars as pl
from pydantic import AfterValidator, Field, SkipValidation, StrictFloat, StrictInt, StrictStr

from bellwether.forecasting.forecaster import Models, Registered, forecast_rows
from bellwether.tables.benchmark import HORIZONS


def _horizon(name: str) -> str:
    if name not in HORIZONS:
        raise ValueError(f"is not a horizon; use one of {', '.join(HORIZONS)}")
    return name


class MarketPrice(Registered):
    """Baseline that forecasts the market price at a fixed horizon before the close. Without a price it makes no forecast."""

    horizon: Annotated[StrictStr, AfterValidator(_horizon)]

    def forecast(self, questions: pl.DataFrame, models: Models | None = None) -> pl.DataFrame:
        """See `Forecaster.forecast`."""
        price = pl.col(f"price_{self.horizon}")
        return forecast_rows(
            self,
            questions,
            p_yes=price.cast(pl.Float64),
            as_of=pl.col(f"price_{self.horizon}_at"),
            error=pl.when(price.is_null()).then(pl.lit(f"no market price {HORIZONS[self.horizon]} h before close")),
        )


class BaseRate(Registered):
    """Baseline that forecasts the share of yes, (yes + 1) / (n + 2), among the venue's n binary markets that settled before the question
    opened.

    The prior counts one yes and one no (Laplace's rule of succession), so that the rate is 0.5 before anything settled. The counts are
    columns of the questions (`bellwether.questions.base_rates`): loading more history changes no forecast.
    """

    within: Literal["all", "category"] = "all"

    def forecast(self, questions: pl.DataFrame, models: Models | None = None) -> pl.DataFrame:
        """See `Forecaster.forecast`."""
        prefix = "base_category" if self.within == "category" else "base"
        rate = (pl.col(f"{prefix}_yes") + 1) / (pl.col(f"{prefix}_n") + 2)
        return forecast_rows(
            self,
            questions,
            p_yes=rate,
            as_of=pl.col("open_time"),
            error=pl.when(pl.col("open_time").is_null()).then(pl.lit("no opening time to look back from")),
            known_at=pl.max_horizontal("known_at", f"{prefix}_known_at"),
        )


class Constant(Registered):
    """Baseline with the same probability for every question."""

    p_yes: StrictFloat = Field(ge=0, le=1)

    def forecast(self, questions: pl.DataFrame, models: Models | None = None) -> pl.DataFrame:
        """See `Forecaster.forecast`."""
        return forecast_rows(self, questions, p_yes=pl.lit(self.p_yes), as_of=pl.col("open_time"))


class Random(Registered):
    """Baseline with a random probability in [0, 1), from a hash of the seed and the question's id."""

    seed: StrictInt

    def forecast(self, questions: pl.DataFrame, models: Models | None = None) -> pl.DataFrame:
        """See `Forecaster.forecast`."""
        drawn = pl.Series("p_yes", [self._uniform(name) for name in questions["id"]], dtype=pl.Float64)
        return forecast_rows(self, questions, p_yes=drawn, as_of=pl.col("open_time"))

    def _uniform(self, question_id: str) -> float:
        digest = hashlib.sha256(f"{self.seed}:{question_id}".encode()).digest()
        return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


class Submitted(Registered):
    """Forecaster whose forecasts were submitted in a file.

    path: folder of the stored submissions (`bellwether.submissions.Submissions`).
    """

    kind: Literal["submitted"] = "submitted"
    path: SkipValidation[Path]

    @property
    def version(self) -> str:
        """Hash of the accepted forecasts, so that a new submission leads to new scores."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]

    def forecast(self, questions: pl.DataFrame, models: Models | None = None) -> pl.DataFrame:
        """See `Forecaster.forecast`."""
        stated = pl.read_parquet(self.path.read_bytes()).select(pl.col("market").alias("id"), "probability", "stated_at")
        latest = (
            stated.join(questions.select("id", "close_time"), on="id")
            .filter(pl.col("stated_at") < pl.col("close_time"))
            .sort("stated_at")
            .group_by("id")
            .agg(pl.col("probability", "stated_at").last())
        )
        return forecast_rows(
            self,
            questions.join(latest, on="id", how="left", maintain_order="left"),
            p_yes=pl.col("probability"),
            as_of=pl.col("stated_at"),
            error=pl.when(pl.col("probability").is_null()).then(pl.lit("no forecast was submitted")),
        )


def load_submissions(folder: Path) -> dict[str, Submitted]:
    """Load the submitted forecasters, by name, from `folder`, which has one Parquet file for each."""
    return {path.stem: Submitted(name=path.stem, description="submitted as a file", path=path) for path in sorted(folder.glob("*.parquet"))}
