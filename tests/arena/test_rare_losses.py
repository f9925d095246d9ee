"""Intervals and ranks of agents that rarely lose: the variance of prices, simulated coverage, and the minimum for a rank."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.arena.rankings import compute_rankings
from bellwether.arena.rankings.price_noise import Exposure, LinearMetric, PricedMeans
from bellwether.formatting import floor_percent, rounded_down, rounded_up
from benchmarks.arena_intervals import COVERED, FALSE, HOLD, KINDS, measured
from tests.arena.test_questions import PLAN, Bet, arena, submitted


def means(chance: list[float], market: list[int] | None = None, event: list[int] | None = None) -> PricedMeans:
    one = list(range(len(chance)))
    return PricedMeans(Exposure.of(np.array(chance), np.array(market or one), np.array(event or one)), 0.95)


def test_the_variance_of_prices_is_that_of_all_outcomes_counted_out() -> None:
    """Three independent markets with two bets on the first. Moments are computed over all eight outcomes."""
    chance, slope = np.array([0.9, 0.9, 0.6, 0.2]), np.array([1.0, 2.0, -1.5, 0.5])
    by_market = np.array([3.0, -1.5, 0.5])
    sums, weights = [], []
    for outcome in product([0, 1], repeat=3):
        p = np.array([0.9, 0.6, 0.2])
        sums.append(float(by_market @ outcome))
        weights.append(float(np.prod(np.where(outcome, p, 1 - p))))
    centre = np.average(sums, weights=weights)
    variance = np.average(np.square(np.array(sums) - centre), weights=weights)
    spread = chance[[0, 2, 3]] * (1 - chance[[0, 2, 3]])
    tails = (by_market**4 * spread).sum() / variance**2
    found = Exposure.of(chance, np.array([5, 5, 7, 9]), np.array([1, 1, 2, 3])).variance(slope[:, None])
    assert found[0] == pytest.approx(variance * (1 + tails))


def test_a_favourite_that_never_lost_may_still_have_been_lucky() -> None:
    """30 bets at 0.97 without a loss, where the price implies 0.9 losses. The interval of the win rate contains the price; that of the
    return contains zero.
    """
    one = means([0.97] * 30)
    won, profit = np.ones(30), np.full(30, 0.25 * (1 / 0.97 - 1))
    rate = one.estimates({"win_rate": LinearMetric(won, np.ones(30), 0.0, 1.0)})["win_rate"]
    assert (rate.value, rate.upper) == (1.0, 1.0)
    assert rate.lower is not None
    assert 0.85 < rate.lower < 0.95
    earned = one.total(LinearMetric(profit, np.full(30, 0.25 / 0.97), -1.0))
    assert earned.lower is not None
    assert earned.lower < -0.2
    assert earned.value == pytest.approx(profit.sum())


def test_two_events_have_no_interval_and_a_score_without_slope_is_exact() -> None:
    few = means([0.97, 0.97]).estimates({"win_rate": LinearMetric(np.ones(2), np.ones(2))})["win_rate"]
    assert few.reason == "2 clusters; an interval needs 3"
    half = means([0.97] * 5).estimates({"brier": LinearMetric(np.full(5, 0.25), np.zeros(5))})["brier"]
    assert (half.lower, half.upper, half.method) == (0.25, 0.25, "constant")


def test_a_skill_over_ordinary_prices_is_fieller_s() -> None:
    """The ends are the ratios r at which the mean of loss − r × price has a t statistic equal to the quantile."""
    from scipy.stats import t as student

    generator = np.random.default_rng(3)
    price = generator.uniform(0.2, 0.8, 400)
    y = (generator.random(400) < price).astype(float)
    p = np.clip(price + generator.normal(0, 0.25, 400), 0.01, 0.99)
    loss, market = LinearMetric((p - y) ** 2, 1 - 2 * p), LinearMetric((price - y) ** 2, 1 - 2 * price)
    found = means(list(price)).skill(loss, market)
    assert found.lower is not None
    assert found.upper is not None
    assert found.value is not None
    assert found.lower < found.value < found.upper < 0
    for end in (found.lower, found.upper):
        change = loss.values - (1 - end) * market.values
        ratio = abs(change.mean()) / (change.std(ddof=1) / 20 * np.sqrt(400 / 399))
        assert ratio == pytest.approx(student.ppf(0.975, 399), rel=0.05)


def test_intervals_of_rare_losses_cover_and_equal_agents_do_not_differ() -> None:
    """60 replicates with seed 0; benchmarks/README.md has 2,000. The tolerance is three standard errors."""
    chosen = [
        kind
        for kind in KINDS
        if kind.name
        in ("ordinary", "favourites .95-.99, same in all cohorts", "favourites .88-.995", "favourites twin", "contrarian .005-.12")
    ]
    found, pairs = measured(60, 3, chosen)
    assert found.filter(pl.col("good") < pl.col("shown") * (COVERED - 3 * (0.9 * 0.1 / 60) ** 0.5)).is_empty()
    assert found["shown"].to_list() == found["replicates"].to_list()
    rates = pairs.select(pl.col("kind", "other"), false=1 - pl.col("good") / pl.col("shown"))
    assert HOLD in rates["other"]
    assert rates.filter(pl.col("false") > FALSE + 3 * (0.08 * 0.92 / 60) ** 0.5).is_empty()


def ranks(rows: pl.DataFrame, metric: str = "brier_vs_price") -> dict[str, tuple[int | None, str | None]]:
    chosen = rows.filter(metric=metric)
    return {row["family"]: (row["rank"], row["unranked_because"]) for row in chosen.iter_rows(named=True)}


def world(count: int = 20) -> list[Bet]:
    return [Bet("agent", f"m{number}", "YES", 0.4, won=number % 3 == 0, price=0.35) for number in range(count)]


def with_forecasts(said: list[tuple[str, str, float, bool]], count: int = 20) -> pl.DataFrame:
    from dataclasses import replace

    return compute_rankings(replace(arena(world(count)), submissions=submitted(said)), PLAN)["arena/rankings"]


def test_one_safe_forecast_has_no_rank_and_says_why() -> None:
    found = with_forecasts([("safe", "m1", 0.0001, False)])
    for metric in ("brier_stated", "brier_vs_price", "skill_price", "log_loss"):
        assert ranks(found, metric)["safe"] == (None, "forecasts of 1 of 20 questions (5%); a rank needs 90%"), metric
    assert ranks(found)["agent"] == (1, None)


def test_nine_of_ten_questions_earn_a_rank_and_fewer_do_not() -> None:
    said = [("wide", f"m{number}", 0.33, False) for number in range(18)]
    assert ranks(with_forecasts(said))["wide"][1] is None
    assert ranks(with_forecasts(said[:17]))["wide"] == (None, "forecasts of 17 of 20 questions (85%); a rank needs 90%")


def test_a_score_over_few_events_has_no_rank() -> None:
    found = compute_rankings(arena(world(9)), PLAN)["arena/rankings"]
    assert ranks(found)["agent"] == (None, "scored on 9 events; a rank needs 10")
    assert ranks(found, "win_rate")["agent"][0] is None
    missing = found.filter(pl.col("rank").is_null() == pl.col("unranked_because").is_null())
    assert missing.is_empty()


def test_the_relative_score_is_the_difference_of_both_brier_scores() -> None:
    found = compute_rankings(arena(world()), PLAN)["arena/rankings"]
    row: dict[str, Any] = found.filter(metric="brier_vs_price").row(0, named=True)
    won = np.array([number % 3 == 0 for number in range(20)])
    assert row["value"] == pytest.approx(((0.4 - won) ** 2).mean() - ((0.35 - won) ** 2).mean())
    assert row["lower"] < row["value"] < row["upper"]


@pytest.mark.parametrize(
    ("share", "text"), [(269 / 300, "89.6%"), (0.9, "90%"), (0.89999, "89.9%"), (1.0, "100%"), (0.29, "29%"), (0.0, "0%")]
)
def test_a_share_below_a_minimum_never_appears_to_reach_it(share: float, text: str) -> None:
    assert floor_percent(share) == text
    assert rounded_down(share) <= share <= float(rounded_up(share) or 0)
