"""Baselines: forecasters that need no model. What a model does not beat is not skill."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import polars as pl
from pydantic import AfterValidator, Field, StrictFloat, StrictInt, StrictStr

from bellwether.forecasting.forecaster import Models, Registered, forecast_rows
from bellwether.tables.benchmark import HORIZONS


def _horizon(name: str) -> str:
    if name not in HORIZONS:
        raise ValueError(f"is not a horizon; there are {', '.join(HORIZONS)}")
    return name


class MarketPrice(Registered):
    """The market's own price at a fixed horizon before close: never the last price, and no forecast where there was none."""

    horizon: Annotated[StrictStr, AfterValidator(_horizon)]

    def forecast(self, questions: pl.DataFrame, history: pl.LazyFrame, models: Models | None = None) -> pl.DataFrame:
        price = pl.col(f"price_{self.horizon}")
        return forecast_rows(
            self,
            questions,
            p_yes=price.cast(pl.Float64),
            as_of=pl.col(f"price_{self.horizon}_at"),
            error=pl.when(price.is_null()).then(pl.lit(f"no market price {HORIZONS[self.horizon]} h before close")),
        )


class BaseRate(Registered):
    """Share of yes among the binary markets of the same venue that had settled before the question opened, (yes + 1) / (n + 2).

    The prior counts one yes and one no (Laplace's rule of succession), so that the rate is 0.5 before anything settled.
    A market whose settlement time is unknown is not counted: it may have been open still.
    """

    within: Literal["all", "category"] = "all"

    def forecast(self, questions: pl.DataFrame, history: pl.LazyFrame, models: Models | None = None) -> pl.DataFrame:
        group = ["venue", "category"] if self.within == "category" else ["venue"]
        counted = _running_counts(history, group)
        asked = questions.rename({"source": "venue"}).select("id", "open_time", *group).sort("open_time")
        rates = asked.join_asof(
            counted,
            left_on="open_time",
            right_on="settled_at",
            by=group,
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        rate = (pl.col("yes").fill_null(0) + 1) / (pl.col("n").fill_null(0) + 2)
        return forecast_rows(
            self,
            questions.join(rates.select("id", "yes", "n", "counted_known_at"), on="id", how="left"),
            p_yes=pl.when(pl.col("open_time").is_not_null()).then(rate),
            as_of=pl.col("open_time"),
            error=pl.when(pl.col("open_time").is_null()).then(pl.lit("no opening time to look back from")),
            known_at=pl.max_horizontal("known_at", "counted_known_at"),
        )


def _running_counts(history: pl.LazyFrame, group: list[str]) -> pl.DataFrame:
    """For each settlement time, per group: how many markets had settled until then (`n`), and how many of them yes."""
    settled = (
        history.filter(
            pl.col("settled_at").is_not_null() & pl.col("outcome").is_not_null() & ~pl.col("is_combo") & (pl.col("market_type") == "binary")
        )
        .select("day", "market_id", "settled_at", "outcome", "known_at", *group)
        .collect()
        .sort("known_at", "day", descending=True)
        .unique(subset=["venue", "market_id"], keep="first", maintain_order=True)
    )
    at_once = settled.group_by(*group, "settled_at").agg(
        n=pl.len().cast(pl.Int64), yes=(pl.col("outcome") == "yes").sum().cast(pl.Int64), counted_known_at=pl.col("known_at").max()
    )
    running = [pl.col("n").cum_sum(), pl.col("yes").cum_sum(), pl.col("counted_known_at").cum_max()]
    return at_once.sort("settled_at").with_columns(expression.over(group) for expression in running)


class Constant(Registered):
    """The same probability for every question."""

    p_yes: StrictFloat = Field(ge=0, le=1)

    def forecast(self, questions: pl.DataFrame, history: pl.LazyFrame, models: Models | None = None) -> pl.DataFrame:
        return forecast_rows(self, questions, p_yes=pl.lit(self.p_yes), as_of=pl.col("open_time"))


class Random(Registered):
    """A uniform probability in [0, 1) from a hash of the seed and the question's id."""

    seed: StrictInt

    def forecast(self, questions: pl.DataFrame, history: pl.LazyFrame, models: Models | None = None) -> pl.DataFrame:
        drawn = pl.Series("p_yes", [self._uniform(name) for name in questions["id"]], dtype=pl.Float64)
        return forecast_rows(self, questions, p_yes=drawn, as_of=pl.col("open_time"))

    def _uniform(self, question_id: str) -> float:
        digest = hashlib.sha256(f"{self.seed}:{question_id}".encode()).digest()
        return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
