"""Submitted forecasts as those of further families: an agent of every cohort that decides in their week, on the questions of that cohort-week.

The questions of a cohort's week are those on which any of its agents stated a probability: the outcomes of other markets are not fetched.
"""

from __future__ import annotations

import polars as pl

from bellwether.tables.arena_rankings import GROUP
from bellwether.tables.schema import midnight

_ASKED = ("methodology", "reconstructed", "cohort", "week")


def forecasts_of_others(bets: pl.DataFrame, due: pl.DataFrame, submissions: pl.DataFrame, prices: pl.DataFrame) -> pl.DataFrame:
    """One row per submitted forecast of a question of a cohort-week, with the columns of `Inputs.bets`, null where they are of trades.

    bets, due: rows of the families. submissions, prices: rows of their tables. The last forecast that precedes the week's decisions counts. price is the last mark
    between the families' bets and the ten minutes in which the forecast was made, a mark of which may be younger than it; for a live week one that was seen live. Without
    one it is what the bets on the question paid on average.
    """
    questions = (
        bets.filter(pl.col("p").is_not_null(), "binary")
        .group_by(*_ASKED, "market_id", "event", "market", "question")
        .agg(pl.col("y").first(), paid=pl.col("price").sort().mean())
    )
    last = pl.col("stated_at", "probability").sort_by("stated_at").last()
    said = submissions.group_by("week", "market_id", "family", "reconstructed", contaminated="late").agg(last)
    rows = said.join(questions, on=["week", "market_id", "reconstructed"]).join(due.select(_ASKED).unique(), on=_ASKED, how="semi")
    marks = (
        prices.filter(pl.col("outcome") == "YES")
        .select("market_id", "reconstructed", "at", mark=pl.col("price").cast(pl.Float64))
        .sort("at")
    )
    marks = pl.concat([marks.filter(~pl.col("reconstructed")), marks.with_columns(reconstructed=True)])
    start = midnight(pl.col("week"))
    return (
        rows.with_columns(tick=pl.col("stated_at").dt.truncate("10m"))
        .sort("tick")
        .join_asof(
            marks, left_on="tick", right_on="at", by=["market_id", "reconstructed"], allow_exact_matches=False, check_sortedness=False
        )
        .select(
            *GROUP,
            "family",
            pl.format("{}/{}", "cohort", "family").alias("agent_id"),
            pl.format("{}/{}/{}/{}", "cohort", "family", "week", "market_id").alias("trade_id"),
            "cohort",
            "week",
            "market_id",
            "event",
            "market",
            "question",
            p="probability",
            y="y",
            price=pl.when(pl.col("at") >= start).then("mark").otherwise("paid"),
            quoted=pl.lit(None, pl.Float64),
            won=pl.lit(None, pl.Float64),
            paid=pl.lit(None, pl.Float64),
            size=pl.lit(None, pl.Float64),
            direction=pl.lit(1.0),
            binary=True,
        )
        .sort("contaminated", "methodology", "trade_id")
    )


def due_of_others(due: pl.DataFrame, submissions: pl.DataFrame) -> pl.DataFrame:
    """The decisions that submitted forecasters owed, with the columns of `Inputs.due`: one in every cohort-week from their first to their last forecast.

    It is finished where any forecast of the week fits, else missing. Forecasts that were received in time, and late ones, are apart.
    """
    asked = due.select(_ASKED).unique()
    kind = ["family", "reconstructed", "late"]
    spans = submissions.group_by(kind).agg(first=pl.col("week").min(), last=pl.col("week").max())
    made = submissions.select(*kind, "week").unique().with_columns(kind=pl.lit("finished"))
    rows = asked.join(spans, on="reconstructed").filter(pl.col("week").is_between("first", "last"))
    return (
        rows.join(made, on=[*kind, "week"], how="left")
        .select(
            decision_id=pl.format("{}/{}/{}", "cohort", "family", "week"),
            agent_id=pl.format("{}/{}", "cohort", "family"),
            week="week",
            kind=pl.col("kind").fill_null("missing"),
            cost=pl.lit(None, pl.Float64),
            methodology="methodology",
            reconstructed="reconstructed",
            contaminated="late",
            family="family",
            cohort="cohort",
            initial_cash=pl.lit(None, pl.Float64),
        )
        .sort("contaminated", "methodology", "decision_id")
    )
