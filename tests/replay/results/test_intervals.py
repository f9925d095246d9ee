"""Intervals over episodes."""

from __future__ import annotations

import numpy as np
import pytest

from bellwether.replay.results.intervals import mean_over


def test_an_interval_needs_three_episodes() -> None:
    assert mean_over(np.array([1.0, 2.0])).lower is None
    assert mean_over(np.array([1.0, 2.0])).reason == "2 episodes; an interval needs 3"
    found = mean_over(np.array([1.0, 2.0, 4.0]))
    assert found.lower < found.value < found.upper  # type: ignore[operator]
    assert found.df == pytest.approx(2)


def test_episodes_without_a_value_do_not_count() -> None:
    found = mean_over(np.array([1.0, np.nan, 3.0]))
    assert (found.value, found.n, found.lower) == (2.0, 2, None)
    assert mean_over(np.array([np.nan])).value is None
    assert mean_over(np.array([np.nan])).reason == "undefined in every episode"


def test_equal_values_say_nothing_of_their_variation() -> None:
    found = mean_over(np.full(5, 0.25))
    assert (found.value, found.lower, found.reason) == (0.25, None, "it is the same in every episode")


@pytest.mark.parametrize("episodes", [3, 40])
def test_the_interval_covers_the_truth_as_often_as_it_says(episodes: int) -> None:
    generator, inside = np.random.default_rng(7), 0
    for _ in range(400):
        found = mean_over(generator.normal(3.0, 1.0, episodes))
        inside += found.lower <= 3.0 <= found.upper  # type: ignore[operator]
    assert 0.93 <= inside / 400 <= 0.995


def test_a_skewed_sample_has_a_longer_interval_towards_its_tail() -> None:
    found = mean_over(np.random.default_rng(3).lognormal(0, 1.2, 40))
    assert found.upper - found.value > found.value - found.lower  # type: ignore[operator]
