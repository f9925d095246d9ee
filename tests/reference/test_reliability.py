"""The reliability table and its intervals."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtri
from scipy.stats import beta

from bellwether.calibration import reliability_bins


def test_intervals_of_independent_forecasts_are_those_of_two_beta_distributions() -> None:
    generator = np.random.default_rng(2)
    p = generator.random(400)
    bins = reliability_bins(p, generator.random(400) < p, range(400))
    for row in bins.iter_rows(named=True):
        yes = round(row["yes_rate"] * row["n"])
        no = row["n"] - yes
        assert row["yes_rate_lower"] == pytest.approx(beta(yes, no + 0.5).ppf(0.025) if yes else 0.0, abs=0.01)
        assert row["yes_rate_upper"] == pytest.approx(beta(yes + 0.5, no).ppf(0.975) if no else 1.0, abs=0.01)
        assert row["n_clusters"] == row["n"]


def test_a_bin_without_an_interval_says_why() -> None:
    frame = reliability_bins([0.05, 0.06, 0.95, 0.95, 0.95], [0, 1, 1, 1, 0], ["a", "b", "a", "b", "c"])
    reasons = dict(frame.select("bin", "reason").rows())
    assert reasons == dict.fromkeys(range(10), "no forecast in the bin") | {0: "2 clusters; an interval needs 3", 9: None}
    assert reliability_bins([0.5], [1])["reason"][5] == "no clusters were given"


@pytest.mark.slow
def test_intervals_of_bins_contain_the_truth() -> None:
    generator, inside = np.random.default_rng(4), []
    for _ in range(200):
        cluster = np.repeat(np.arange(60), 5)
        p = generator.random(300)
        shock = np.sqrt(0.5) * generator.standard_normal(60)[cluster]
        y = shock + np.sqrt(0.5) * generator.standard_normal(300) < ndtri(p)
        for row in reliability_bins(p, y, cluster).drop_nulls("yes_rate_lower").iter_rows(named=True):
            inside.append(row["yes_rate_lower"] <= (row["lower_edge"] + row["upper_edge"]) / 2 <= row["yes_rate_upper"])
    assert 0.93 <= np.mean(inside) <= 0.985


def test_empty_bins_are_present_with_nulls() -> None:
    bins = reliability_bins([0.05, 0.95], [0, 1])
    assert bins["bin"].to_list() == list(range(10))
    empty = bins.filter(pl.col("n") == 0)
    assert empty.height == 8
    for column in ("mean_forecast", "yes_rate", "gap", "yes_rate_lower", "yes_rate_upper"):
        assert empty[column].null_count() == 8


def test_certainty_is_in_the_last_bin() -> None:
    assert reliability_bins([1.0, 1.0], [1, 0])["n"].to_list() == [0] * 9 + [2]
