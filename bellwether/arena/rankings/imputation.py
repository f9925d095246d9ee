"""Forecasts of a group, and what stands for those that are missing.

The questions of a cohort's week are those on which any of its agents stated a probability. An agent that was due to decide and stated none on such a
question, because it bet on others, gave no probability, or gave no usable answer, lacks a forecast there. What was stated counts as it was stated, every bet
for itself.
"""

from __future__ import annotations

from enum import StrEnum

import polars as pl


class Imputation(StrEnum):
    """What stands for a missing forecast. NONE: nothing, only what was stated counts. PRICE: the market's price then. HALF: one half."""

    NONE = "none"
    PRICE = "price"
    HALF = "half"


def forecasts(stated: pl.DataFrame, due: pl.DataFrame, asked: pl.DataFrame, imputation: Imputation) -> pl.DataFrame:
    """The forecasts of one group: columns family, cohort, week, event, market, question, p, y, price and imputed.

    stated: rows of `Inputs.bets`, or of submitted forecasts, that have a p. due: rows of `Inputs.due` of the same forecasters. asked: rows of `Inputs.asked` that
    they could answer. Every stated bet is a forecast; with imputation there is one more for each question of a due decision on which nothing was stated.
    """
    names = ["family", "cohort", "week", "event", "market", "question", "p", "y", "price"]
    own = stated.select(*names, imputed=pl.lit(value=False))
    if imputation is Imputation.NONE:
        return own
    filled = pl.col("price") if imputation is Imputation.PRICE else pl.lit(0.5)
    missing = (
        due.select("family", "cohort", "week")
        .unique()
        .join(asked, on=["cohort", "week"])
        .join(own, on=["family", "cohort", "week", "question"], how="anti")
        .select(*(pl.col(name) if name != "p" else filled.alias("p") for name in names), imputed=pl.lit(value=True))
    )
    return pl.concat([own, missing]).sort("family", "cohort", "week", "question", maintain_order=True)
