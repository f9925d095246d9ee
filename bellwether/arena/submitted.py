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
from bellwether.tables.arena_rankings import SUBMISSIONS
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

    stored: accepted forecasts, columns of `bellwether.submissions.checking.SCHEMA`. markets: as `listed` returns them. known: as `weeks` does.
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
