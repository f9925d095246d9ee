"""Forecasts that users submit to the arena: the weeks to which they belong, and their conversion to inputs of rankings.

A forecast belongs to the first week whose decisions it precedes: decisions of a live week are due at its deadline, decisions of a
reconstructed week are made as of its universe (the markets offered to agents). A forecast counts if the universe of its week contains the
market, the market is binary, and the forecast precedes the market's close. A cohort-week is one week in which a cohort decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import polars as pl

from bellwether.arena.identity import WEEK
from bellwether.arena.methodology import Methodology
from bellwether.tables.arena_rankings import GROUP, SUBMISSIONS
from bellwether.tables.schema import day_start

_BINARY = pl.col("outcomes").list.eval(pl.element().str.strip_chars().str.to_lowercase()).list.sort() == pl.lit(["no", "yes"])


def forecastable_markets(universe: pl.DataFrame) -> pl.DataFrame:
    """Return all markets of arena/universe, with the columns by which submitted forecasts are assigned to weeks.

    Columns: week, market_id, venue, market (venue:id), binary (sides are YES and NO), closes_at, reconstructed and known_at.
    """
    market = pl.concat_str("venue", "market_id", separator=":")
    return universe.select("week", "market_id", "closes_at", "reconstructed", "known_at", "venue", market=market, binary=_BINARY)


def find_submission_weeks(markets: pl.DataFrame, rules: Mapping[str, Methodology]) -> pl.DataFrame:
    """Return one row per week of `forecastable_markets`: week, due (deadline), before (forecasts of the week must be earlier, UTC) and venues."""
    due = day_start(pl.col("week")) + _latest_deadline(rules)
    weeks = markets.group_by("week").agg(pl.col("known_at").min(), pl.col("reconstructed").any(), venues=pl.col("venue").unique().sort())
    return weeks.select("week", "venues", due=due, before=pl.when("reconstructed").then("known_at").otherwise(due)).sort("week")


def find_weeks(stated_at: pl.DataFrame, weeks: pl.DataFrame, rules: Mapping[str, Methodology]) -> pl.Series:
    """Return the week (its Sunday) to which each forecast belongs.

    stated_at: frame with the column `stated_at`, UTC. weeks: from `find_submission_weeks`. rules: methodologies by name; other weeks have the latest
    deadline of any methodology.
    """
    day = pl.col("stated_at").dt.date()
    sunday = (day - pl.duration(days=day.dt.weekday() % 7)).alias("week")
    rows = stated_at.select("stated_at", sunday).join(weeks.select("week", "before"), on="week", how="left", maintain_order="left")
    before = pl.coalesce("before", day_start(pl.col("week")) + _latest_deadline(rules))
    return rows.select(pl.when(pl.col("stated_at") < before).then("week").otherwise(pl.col("week") + WEEK)).to_series()


def select_fitting(stored: pl.DataFrame, markets: pl.DataFrame, weeks: pl.DataFrame, rules: Mapping[str, Methodology]) -> pl.DataFrame:
    """Return the submitted forecasts that count in the arena, with the columns week, market_id, due and reconstructed added.

    stored: accepted forecasts with the columns of `bellwether.submissions.validation.SCHEMA`. markets: from `forecastable_markets`. weeks: from
    `find_submission_weeks`.
    """
    binary = markets.filter("binary").select("week", "market", "market_id", "closes_at", "reconstructed", "known_at")
    return (
        stored.with_columns(find_weeks(stored, weeks, rules).alias("week"))
        .join(binary, on=["week", "market"])
        .filter((pl.col("stated_at") < pl.col("closes_at")).fill_null(value=True))
        .join(weeks.select("week", "due"), on="week")
    )


def submissions_frame(stored: pl.DataFrame, universe: pl.DataFrame, rules: Mapping[str, Methodology]) -> pl.DataFrame:
    """Build rows of arena/submissions. stored: as in `select_fitting`. universe: rows of arena/universe. rules: methodologies by name."""
    markets = forecastable_markets(universe)
    rows = select_fitting(stored, markets, find_submission_weeks(markets, rules), rules).with_columns(
        family="forecaster", late=pl.col("received_at") >= pl.col("due"), known_at=pl.max_horizontal("received_at", "known_at")
    )
    return SUBMISSIONS.validate(rows.select(SUBMISSIONS.names).sort(SUBMISSIONS.order))


def _latest_deadline(rules: Mapping[str, Methodology]) -> timedelta:
    return timedelta(hours=max(methodology.deadline_hours for methodology in rules.values()))


_ASKED = ("methodology", "reconstructed", "cohort", "week")


def build_submitted_forecasts(bets: pl.DataFrame, due: pl.DataFrame, submissions: pl.DataFrame, prices: pl.DataFrame) -> pl.DataFrame:
    """Return the submitted forecasts of questions on which agents bet, by cohort-week, with the columns of `RankingInputs.bets`. Columns about
    trades are null.

    bets, due: rows of the families. submissions, prices: rows of their tables. The last forecast before the decisions of the week counts. price
    is the last mark between the families' bets and the interval of ten minutes that contains the forecast; for a live week only live marks.
    Without a mark it is the mean price paid by the bets on the question.
    """
    questions = (
        bets.filter(pl.col("p").is_not_null(), "binary")
        .group_by(*_ASKED, "market_id", "event", "market", "question")
        .agg(pl.col("y").first(), paid=pl.col("price").sort().mean())
    )
    last = pl.col("stated_at", "probability").sort_by("stated_at").last()
    stated = submissions.group_by("week", "market_id", "family", "reconstructed", contaminated="late").agg(last)
    rows = stated.join(questions, on=["week", "market_id", "reconstructed"]).join(due.select(_ASKED).unique(), on=_ASKED, how="semi")
    marks = (
        prices.filter(pl.col("outcome") == "YES")
        .select("market_id", "reconstructed", "at", mark=pl.col("price").cast(pl.Float64))
        .sort("at")
    )
    marks = pl.concat([marks.filter(~pl.col("reconstructed")), marks.with_columns(reconstructed=True)])
    start = day_start(pl.col("week"))
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
            won=pl.lit(None, pl.Float64),
            paid=pl.lit(None, pl.Float64),
            size=pl.lit(None, pl.Float64),
            direction=pl.lit(1.0),
            binary=True,
        )
        .sort("contaminated", "methodology", "trade_id")
    )


def submitted_due(due: pl.DataFrame, submissions: pl.DataFrame) -> pl.DataFrame:
    """Return the decisions that submitted forecasters had to make, with the columns of `RankingInputs.due`.

    A forecaster has a due decision in each cohort-week between its first and last forecast. The decision is finished if a forecast of the week
    counts, else missing.
    """
    cohort_weeks = due.select(_ASKED).unique()
    kind = ["family", "reconstructed", "late"]
    spans = submissions.group_by(kind).agg(first=pl.col("week").min(), last=pl.col("week").max())
    decided = submissions.select(*kind, "week").unique().with_columns(kind=pl.lit("finished"))
    rows = cohort_weeks.join(spans, on="reconstructed").filter(pl.col("week").is_between("first", "last"))
    return (
        rows.join(decided, on=[*kind, "week"], how="left")
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
