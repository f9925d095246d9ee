"""Forecasts of others in the arena: the week that a forecast is for, and the rows of those that fit one.

A forecast is for the first week whose decisions it precedes: those of a live week are due at its deadline, those of a reconstructed week were made as of
its universe. It counts there if the week's universe has the market, a binary one, and it precedes the market's close.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import polars as pl

from bellwether.arena.identity import WEEK
from bellwether.arena.methodology import Methodology
from bellwether.tables.arena_rankings import GROUP, SUBMISSIONS
from bellwether.tables.schema import midnight

_BINARY = pl.col("outcomes").list.eval(pl.element().str.strip_chars().str.to_lowercase()).list.sort() == pl.lit(["no", "yes"])


def listed(universe: pl.DataFrame) -> pl.DataFrame:
    """The markets that can be forecast: week, market_id, venue, market (venue:id), binary (the sides are YES and NO), closes_at, reconstructed and known_at of
    rows of arena/universe."""
    market = pl.concat_str("venue", "market_id", separator=":")
    return universe.select("week", "market_id", "closes_at", "reconstructed", "known_at", "venue", market=market, binary=_BINARY)


def weeks(markets: pl.DataFrame, rules: Mapping[str, Methodology]) -> pl.DataFrame:
    """One row per week of `listed` markets: week, due (when its decisions are due) and before (what a forecast for it must precede), both UTC, and venues."""
    due = midnight(pl.col("week")) + _deadline(rules)
    known = markets.group_by("week").agg(pl.col("known_at").min(), pl.col("reconstructed").any(), venues=pl.col("venue").unique().sort())
    return known.select("week", "venues", due=due, before=pl.when("reconstructed").then("known_at").otherwise(due)).sort("week")


def week_for(stated_at: pl.DataFrame, known: pl.DataFrame, rules: Mapping[str, Methodology]) -> pl.Series:
    """The week that each forecast is for.

    stated_at: a frame with that column, UTC. known: as `weeks` returns it. rules: the methodologies by name; a week that is not known has the latest
    deadline of any.
    """
    day = pl.col("stated_at").dt.date()
    sunday = (day - pl.duration(days=day.dt.weekday() % 7)).alias("week")
    rows = stated_at.select("stated_at", sunday).join(known.select("week", "before"), on="week", how="left", maintain_order="left")
    before = pl.coalesce("before", midnight(pl.col("week")) + _deadline(rules))
    return rows.select(pl.when(pl.col("stated_at") < before).then("week").otherwise(pl.col("week") + WEEK)).to_series()


def fitting(stored: pl.DataFrame, markets: pl.DataFrame, known: pl.DataFrame, rules: Mapping[str, Methodology]) -> pl.DataFrame:
    """The forecasts that count in the arena, with their week, market_id, and the week's due and reconstructed.

    stored: accepted forecasts, columns of `bellwether.submissions.validation.SCHEMA`. markets: as `listed` returns them. known: as `weeks` does.
    """
    own = markets.filter("binary").select("week", "market", "market_id", "closes_at", "reconstructed", "known_at")
    return (
        stored.with_columns(week_for(stored, known, rules).alias("week"))
        .join(own, on=["week", "market"])
        .filter((pl.col("stated_at") < pl.col("closes_at")).fill_null(value=True))
        .join(known.select("week", "due"), on="week")
    )


def submissions_frame(stored: pl.DataFrame, universe: pl.DataFrame, rules: Mapping[str, Methodology]) -> pl.DataFrame:
    """Rows of arena/submissions. stored: as in `fitting`. universe: rows of arena/universe. rules: the methodologies by name."""
    markets = listed(universe)
    rows = fitting(stored, markets, weeks(markets, rules), rules).with_columns(
        family="forecaster", late=pl.col("received_at") >= pl.col("due"), known_at=pl.max_horizontal("received_at", "known_at")
    )
    return SUBMISSIONS.validate(rows.select(SUBMISSIONS.names).sort(SUBMISSIONS.order))


def _deadline(rules: Mapping[str, Methodology]) -> timedelta:
    return timedelta(hours=max(one.deadline_hours for one in rules.values()))


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
