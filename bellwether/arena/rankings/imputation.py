"""Forecasts of a group, and what stands for those that are missing.

The questions of a cohort's week are those on which any of its agents stated a probability. An agent that was due to decide and stated none on such a
question, because it bet on others, gave no probability, or gave no usable answer, lacks a forecast there.
"""

from __future__ import annotations

from enum import StrEnum

import polars as pl


class Imputation(StrEnum):
    """What stands for a missing forecast. NONE: nothing, only what was stated counts. PRICE: the market's price then. HALF: one half."""

    NONE = "none"
    PRICE = "price"
    HALF = "half"


def forecasts(bets: pl.DataFrame, due: pl.DataFrame, imputation: Imputation, submitted: pl.DataFrame | None = None) -> pl.DataFrame:
    """The forecasts of one group: columns family, cohort, week, event, question, p, y, price and imputed.

    bets: rows of `Inputs.bets`. due: rows of `Inputs.due`, of others too. submitted: forecasts of others, with the columns of `bets`; they add no question to a
    cohort's week in which a family has one. Without imputation each stated bet is a forecast; with it each family has one forecast per cohort and question,
    the mean of what it stated there.
    """
    own = bets.filter(pl.col("p").is_not_null())
    stated = own if submitted is None else pl.concat([own, submitted])
    names = ["family", "cohort", "week", "event", "question", "p", "y", "price"]
    if imputation is Imputation.NONE:
        return stated.select(*names, imputed=pl.lit(value=False))
    asked = _asked(own)
    if submitted is not None:
        asked = pl.concat([asked, _asked(submitted).join(asked, on=["cohort", "week"], how="anti")])
    said = stated.group_by("family", "cohort", "week", "question").agg(pl.col("p").mean())
    whole = due.select("family", "cohort", "week").unique().join(asked, on=["cohort", "week"])
    filled = pl.col("price") if imputation is Imputation.PRICE else pl.lit(0.5)
    return (
        whole.join(said, on=["family", "cohort", "week", "question"], how="left")
        .with_columns(imputed=pl.col("p").is_null())
        .with_columns(p=pl.coalesce("p", filled))
        .select(*names, "imputed")
        .sort("family", "cohort", "week", "question")
    )


def _asked(stated: pl.DataFrame) -> pl.DataFrame:
    """The questions of each cohort's week, with their event, how they ended and the mean price."""
    return stated.group_by("cohort", "week", "question").agg(pl.col("event", "y").first(), price=pl.col("price").mean())
