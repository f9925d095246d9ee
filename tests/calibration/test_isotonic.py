"""Isotonic recalibration, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from bellwether.calibration.ordered import explained, isotonic_fit

GROUP = st.integers(1, 4).flatmap(lambda mass: st.tuples(st.just(mass), st.integers(0, mass)))
GROUPS = st.lists(GROUP, min_size=1, max_size=8)
ROWS = st.integers(1, 8).flatmap(
    lambda groups: st.lists(st.lists(st.floats(-1, 2), min_size=groups, max_size=groups), min_size=1, max_size=6)
)


def by_sklearn(mass: np.ndarray, rate: np.ndarray) -> np.ndarray:
    return np.asarray(IsotonicRegression().fit_transform(np.arange(len(mass)), rate, sample_weight=mass))


@settings(deadline=None, max_examples=50)
@given(GROUPS)
def test_the_explained_sum_is_that_of_the_fit(groups: list[tuple[int, int]]) -> None:
    mass, yes = np.array(groups, dtype=float).T
    assert explained(mass, yes) == pytest.approx(float(np.sum(mass * np.square(by_sklearn(mass, yes / mass)))), abs=1e-12)


def test_nothing_explains_nothing() -> None:
    assert explained(np.zeros(0), np.zeros(0)) == 0.0


@settings(deadline=None, max_examples=50)
@given(ROWS)
def test_each_row_is_fitted_alone(rows: list[list[float]]) -> None:
    rate = np.array(rows)
    mass = 1.0 + np.arange(rate.shape[1])
    expected = np.array([np.clip(by_sklearn(mass, row), 0, 1) for row in rate])
    assert isotonic_fit(mass, rate * mass) == pytest.approx(expected, abs=1e-9)


def test_pools_of_equal_rates_count_as_one_whatever_the_order_of_pooling() -> None:
    """Ten groups of one rate: 1/3 of 3, of 6, of 9 … have sums of squares whose rounding differs if pools stay apart."""
    mass = 3.0 * np.arange(1, 11)
    assert explained(mass, mass / 3) == (mass.sum() / 3) ** 2 / mass.sum()
