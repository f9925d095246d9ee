"""Submitted forecasts in the arena's rankings: scored like families, without trading columns, and ranked separately if reconstructed or
late.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from bellwether.arena.rankings import RankingInputs, compute_rankings
from bellwether.arena.rankings.estimates import NO_TRADES, TRADED
from bellwether.calibration.inference import Inference
from bellwether.tables.arena import PRICES
from bellwether.tables.arena_rankings import SUBMISSIONS
from tests.arena.simulated_arena import Simulated
from tests.arena.test_rankings import metric

FEW = Inference(replicates=200)
AT = pl.col("week").cast(pl.Datetime("us")).dt.replace_time_zone("UTC") + timedelta(hours=1)


def submit_forecasts(inputs: RankingInputs, p: pl.Expr, family: str = "oracle", *, late: bool = False) -> pl.DataFrame:
    """Return a forecast of every question of the families."""
    asked = inputs.bets.select("week", "market_id", "y", "price").unique(["week", "market_id"], keep="first", maintain_order=True)
    rows = asked.select("week", "market_id", family=pl.lit(family), stated_at=AT, known_at=AT, probability=p)
    return rows.with_columns(late=late, reconstructed=pl.lit(value=False)).select(SUBMISSIONS.names)


@pytest.fixture(scope="module")
def inputs() -> RankingInputs:
    return Simulated({"worst": 2.5, "best": 0.0}).inputs(1)


@pytest.fixture(scope="module")
def alone(inputs: RankingInputs) -> dict[str, pl.DataFrame]:
    return compute_rankings(inputs, FEW)


@pytest.fixture(scope="module")
def joined(inputs: RankingInputs) -> dict[str, pl.DataFrame]:
    return compute_rankings(replace(inputs, submissions=submit_forecasts(inputs, 0.1 + 0.8 * pl.col("y"))), FEW)


def test_a_submitted_forecaster_is_ranked_with_the_families(joined: dict[str, pl.DataFrame]) -> None:
    rows = joined["arena/rankings"]
    for name in ("brier_stated", "brier_vs_price", "log_loss", "skill_price"):
        assert {family: row["rank"] for family, row in metric(rows, name).items()} == {"oracle": 1, "best": 2, "worst": 3}, name
    oracle = metric(rows, "brier_stated")["oracle"]
    assert oracle["value"] == pytest.approx(0.01)
    assert metric(rows, "brier_stated")["best"]["lower"] is not None
    assert oracle["in_mcs"] is True
    assert metric(rows, "finished")["oracle"]["value"] == 1
    pairs = joined["arena/pairs"].filter(metric="brier_stated", family="best", other="oracle").row(0, named=True)
    assert pairs["n"] == metric(rows, "finished")["oracle"]["n"] == 60
    assert pairs["p_holm"] < 0.05
    bins = joined["arena/calibration"].filter(family="oracle")
    assert bins["n"].sum() == oracle["n"]
    assert "oracle" not in joined["arena/equity_by_day"]["family"]


def test_it_has_no_trading_columns(joined: dict[str, pl.DataFrame]) -> None:
    for name, _ in TRADED:
        row = metric(joined["arena/rankings"], name)["oracle"]
        assert (row["value"], row["rank"], row["n"], row["reason"]) == (None, None, 0, NO_TRADES), name
    assert joined["arena/rankings"].group_by("family").len()["len"].unique().to_list() == [16]


def test_it_changes_no_score_of_the_families(alone: dict[str, pl.DataFrame], joined: dict[str, pl.DataFrame]) -> None:
    columns = ["family", "metric", "value", "lower", "upper", "n", "n_events"]
    families = joined["arena/rankings"].filter(pl.col("family") != "oracle")
    assert families.select(columns).equals(alone["arena/rankings"].select(columns))


def test_a_week_that_it_left_out_lowers_its_coverage(inputs: RankingInputs) -> None:
    whole = submit_forecasts(inputs, pl.lit(0.5))
    weeks = whole["week"].unique().sort()
    gap = whole.filter(pl.col("week").is_in(weeks[:4].to_list()), pl.col("week") != weeks[1])
    rows = compute_rankings(replace(inputs, submissions=gap), replace(FEW, replicates=0))["arena/rankings"]
    asked = 1 + 2 + 3 + 4
    assert metric(rows, "finished")["oracle"]["value"] == pytest.approx((asked - 2) / asked)
    assert metric(rows, "missing")["oracle"]["value"] == pytest.approx(2 / asked)


def test_late_forecasts_are_ranked_apart_and_those_of_live_weeks_never_meet_reconstructed_cohorts(inputs: RankingInputs) -> None:
    both = pl.concat([submit_forecasts(inputs, pl.lit(0.6)), submit_forecasts(inputs, pl.col("y"), late=True)])
    rows = compute_rankings(replace(inputs, submissions=both), replace(FEW, replicates=0))["arena/rankings"]
    scored = rows.filter(family="oracle", metric="brier_stated").select("contaminated", "reconstructed", "value")
    assert [row[:2] for row in scored.rows()] == [(False, False), (True, False)]
    assert scored["value"][1] == 0
    assert set(rows.filter("contaminated")["family"]) == {"oracle"}
    past = Simulated({"worst": 2.5, "best": 0.0}, reconstructed=True).inputs(1)
    apart = compute_rankings(replace(past, submissions=submit_forecasts(past, pl.lit(0.6))), replace(FEW, replicates=0))["arena/rankings"]
    assert "oracle" not in apart.filter(pl.col("n") > 0)["family"], "forecasts of live weeks"


def test_the_last_forecast_before_the_decisions_counts_and_its_price_is_the_last_mark(inputs: RankingInputs) -> None:
    first = submit_forecasts(inputs, pl.lit(0.5))
    second = first.with_columns(stated_at=pl.col("stated_at") + timedelta(hours=5), probability=0.25)
    market, week = first.row(0, named=True)["market_id"], first.row(0, named=True)["week"]
    begun = datetime(week.year, week.month, week.day, tzinfo=UTC)
    marks = [
        {
            "day": week,
            "market_id": market,
            "outcome": "YES",
            "at": at,
            "price": price,
            "source": "live",
            "disagrees": False,
            "reconstructed": False,
        }
        for at, price in ((begun - timedelta(days=1), 0.9), (begun + timedelta(hours=2), 0.35), (begun + timedelta(hours=9), 0.8))
    ]
    known = replace(inputs, submissions=pl.concat([second, first]), prices=PRICES.frame(list(marks)))
    assert known.submitted["p"].unique().to_list() == [0.25]
    own = pl.col("market_id") == market, pl.col("week") == week
    assert known.submitted.filter(own)["price"].unique().to_list() == [0.35]
    early = replace(known, submissions=first)
    paid = inputs.bets.filter(own).group_by("cohort").agg(pl.col("price").mean()).sort("cohort")["price"]
    assert early.submitted.filter(own).sort("cohort")["price"].to_list() == pytest.approx(paid.to_list())


@pytest.mark.parametrize(("minutes", "expected"), [(0, 0.35), (9, 0.35), (10, 0.8)])
def test_a_mark_of_the_ten_minutes_of_the_forecast_may_be_younger_than_it(inputs: RankingInputs, minutes: int, expected: float) -> None:
    first = submit_forecasts(inputs, pl.lit(0.5)).head(1)
    market, week = first.row(0, named=True)["market_id"], first.row(0, named=True)["week"]
    ten = datetime(week.year, week.month, week.day, 10, tzinfo=UTC)
    mark = {"day": week, "market_id": market, "outcome": "YES", "source": "live", "disagrees": False}
    marks = [
        {**mark, "at": ten - timedelta(minutes=50), "price": 0.35, "reconstructed": False},
        {**mark, "at": ten - timedelta(minutes=20), "price": 0.1, "reconstructed": True},
        {**mark, "at": ten, "price": 0.8, "reconstructed": False},
    ]
    stated = first.with_columns(stated_at=ten + timedelta(minutes=minutes))
    known = replace(inputs, submissions=stated, prices=PRICES.frame(list(marks)))
    assert known.submitted["price"].unique().to_list() == [expected], "a live forecast has the price of a live mark"


def test_a_forecaster_with_the_name_of_a_family_is_told_apart(inputs: RankingInputs) -> None:
    rows = compute_rankings(replace(inputs, submissions=submit_forecasts(inputs, pl.lit(0.5), "best")), replace(FEW, replicates=0))[
        "arena/rankings"
    ]
    assert rows["family"].unique().sort().to_list() == ["best", "best (submitted)", "worst"]
