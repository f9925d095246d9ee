"""The reliability table and its Wilson intervals."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest

from bellwether.calibration import reliability_bins
from bellwether.calibration.reliability import wilson


def test_wilson_intervals_agree_with_scipy() -> None:
    cases = [(0, 1), (1, 1), (0, 7), (3, 7), (19, 300), (300, 300)]
    lower, upper = wilson(np.array([k for k, _ in cases], dtype=float), np.array([n for _, n in cases], dtype=float))
    for index, (successes, trials) in enumerate(cases):
        expected = binomtest(successes, trials).proportion_ci(method="wilson")
        assert (lower[index], upper[index]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_a_wilson_interval_never_leaves_out_the_rate_itself() -> None:
    trials = np.arange(1.0, 2000.0)
    for rate in (0.0, 1.0):
        lower, upper = wilson(trials * rate, trials)
        assert (lower <= rate).all()
        assert (upper >= rate).all()


def test_empty_bins_are_present_with_nulls() -> None:
    bins = reliability_bins([0.05, 0.95], [0, 1])
    assert bins["bin"].to_list() == list(range(10))
    empty = bins.filter(pl.col("n") == 0)
    assert empty.height == 8
    for column in ("mean_forecast", "yes_rate", "gap", "yes_rate_lower", "yes_rate_upper"):
        assert empty[column].null_count() == 8


def test_a_bin_holds_its_means_and_its_gap() -> None:
    row = reliability_bins([0.72, 0.78, 0.74, 0.1], [1, 0, 1, 0]).row(7, named=True)
    assert row["n"] == 3
    assert row["mean_forecast"] == pytest.approx(2.24 / 3)
    assert row["yes_rate"] == pytest.approx(2 / 3)
    assert row["gap"] == pytest.approx(0.24 / 3)
    assert row["yes_rate_lower"] < 2 / 3 < row["yes_rate_upper"]


def test_certainty_is_in_the_last_bin() -> None:
    assert reliability_bins([1.0, 1.0], [1, 0])["n"].to_list() == [0] * 9 + [2]
