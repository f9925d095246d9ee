"""Intervals over episodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.calibration.bootstrap import Bootstrap
from bellwether.replay.results.intervals import _mean, _median, mean_over, median_over

PLAN = Bootstrap(2_000)


def test_an_interval_needs_three_episodes() -> None:
    assert mean_over(np.array([1.0, 2.0]), PLAN).lower is None
    assert mean_over(np.array([1.0, 2.0, 4.0]), PLAN).lower is not None


def test_episodes_without_a_value_do_not_count() -> None:
    found = mean_over(np.array([1.0, np.nan, 3.0]), PLAN)
    assert (found.value, found.n, found.lower) == (2.0, 2, None)
    assert mean_over(np.array([np.nan]), PLAN).value is None


def test_an_interval_over_equal_values_is_that_value() -> None:
    found = mean_over(np.full(5, 0.25), PLAN)
    assert (found.value, found.lower, found.upper) == (0.25, 0.25, 0.25)


@pytest.mark.parametrize("statistic", [mean_over, median_over])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(statistic) -> None:
    generator, inside = np.random.default_rng(7), 0
    for _ in range(100):
        found = statistic(generator.normal(3.0, 1.0, 40), Bootstrap(400))
        inside += found.lower <= 3.0 <= found.upper
    assert 85 <= inside <= 99


def test_the_same_plan_gives_the_same_interval() -> None:
    values = np.random.default_rng(1).normal(size=30)
    assert mean_over(values, PLAN) == mean_over(values.copy(), PLAN)


def test_a_skewed_sample_moves_the_corrected_interval_towards_its_tail() -> None:
    found = mean_over(np.random.default_rng(3).lognormal(0, 1.2, 40), PLAN)
    assert found.bca_upper > found.upper
    assert found.bca_lower > found.lower


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_replicates_are_the_statistics_of_the_drawn_values(values: list[float], seed: int) -> None:
    array = np.array(values)
    weights = next(Bootstrap(6, seed).weights(len(values), 6))
    drawn = [np.repeat(array, row.astype(int)) for row in weights]
    assert _median(array, weights).tolist() == pytest.approx([float(np.median(one)) for one in drawn])
    assert _mean(array, weights).tolist() == pytest.approx([float(one.mean()) for one in drawn], abs=1e-6)
