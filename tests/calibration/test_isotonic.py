"""Isotonic recalibration of many replicates at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from bellwether.calibration.isotonic import explained, fit

GROUP = st.integers(0, 4).flatmap(lambda mass: st.tuples(st.just(mass), st.integers(0, mass)))
REPLICATES = st.integers(1, 8).flatmap(lambda groups: st.lists(st.lists(GROUP, min_size=groups, max_size=groups), min_size=1, max_size=6))


def by_sklearn(mass: np.ndarray, yes: np.ndarray) -> np.ndarray:
    some = mass > 0
    fitted = np.zeros(len(mass))
    if some.any():
        fitted[some] = IsotonicRegression().fit_transform(np.flatnonzero(some), yes[some] / mass[some], sample_weight=mass[some])
    return fitted


@settings(deadline=None)
@given(REPLICATES)
def test_the_explained_sum_is_that_of_each_replicate_fitted_alone(replicates: list[list[tuple[int, int]]]) -> None:
    mass, yes = np.moveaxis(np.array(replicates, dtype=float), -1, 0)
    expected = [float(np.sum(m * np.square(by_sklearn(m, k)))) for m, k in zip(mass, yes, strict=True)]
    assert explained(mass, yes) == pytest.approx(expected, abs=1e-12)
    assert [float(explained(m, k)) for m, k in zip(mass, yes, strict=True)] == explained(mass, yes).tolist()


@settings(deadline=None)
@given(REPLICATES)
def test_the_fit_is_that_of_each_replicate_alone(replicates: list[list[tuple[int, int]]]) -> None:
    mass, yes = np.moveaxis(np.array(replicates, dtype=float), -1, 0)
    mass += 1
    expected = np.array([by_sklearn(m, k) for m, k in zip(mass, yes, strict=True)])
    assert fit(mass, yes) == pytest.approx(expected, abs=1e-9)


def test_pools_of_equal_rates_count_as_one_whatever_the_order_of_pooling() -> None:
    """Ten groups of one rate: 1/3 of 3, of 6, of 9 … have sums of squares whose rounding differs if pools stay apart."""
    mass = 3.0 * np.arange(1, 11)
    total = float(explained(mass, mass / 3))
    assert total == (mass.sum() / 3) ** 2 / mass.sum()
