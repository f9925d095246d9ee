"""Statistics of sorted forecasts: the adaptive calibration error with ties and weights, and isotonic recalibration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from bellwether.calibration.forecasts import Forecasts
from bellwether.calibration.sorted_forecasts import SortedForecasts, ace, isotonic_fit, shares, sum_explained_squares

ROWS = st.lists(st.tuples(st.integers(0, 20).map(lambda k: k / 20), st.booleans(), st.integers(0, 3)), min_size=1, max_size=40)


def by_copies(p: np.ndarray, y: np.ndarray) -> float:
    """Compute the ACE of N forecasts from ten copies of each in ten bins of N, with tied outcomes replaced by their mean."""
    mean_outcome = np.array([y[p == value].mean() for value in p])
    order = np.argsort(p, kind="stable")
    copies_p, copies_y = np.repeat(p[order], 10), np.repeat(mean_outcome[order], 10)
    bins = [slice(index * len(p), (index + 1) * len(p)) for index in range(10)]
    return float(np.mean([abs(copies_p[b].mean() - copies_y[b].mean()) for b in bins]))


@settings(deadline=None, max_examples=50)
@given(ROWS)
def test_ace_equals_its_definition_on_physical_copies(rows: list[tuple[float, bool, int]]) -> None:
    p, y = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    assert ace(SortedForecasts.of(Forecasts.of(p, y))) == pytest.approx(by_copies(p, y), abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(ROWS)
def test_weights_count_as_repetitions(rows: list[tuple[float, bool, int]]) -> None:
    p, y, times = (np.array([r[index] for r in rows]) for index in range(3))
    times = times + 1
    weighted = ace(SortedForecasts.of(Forecasts.of(p, y, weights=times)))
    repeated = ace(SortedForecasts.of(Forecasts.of(np.repeat(p, times), np.repeat(y, times))))
    assert weighted == pytest.approx(repeated, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(ROWS, st.integers(1, 12))
def test_shares_of_bins_give_the_error_and_add_up_to_one(rows: list[tuple[float, bool, int]], bins: int) -> None:
    p, y, times = (np.array([r[index] for r in rows]) for index in range(3))
    ordered = SortedForecasts.of(Forecasts.of(p, y, weights=times + 1))
    parts = list(shares(ordered, bins))
    total = np.zeros(len(p))
    for rows_of_bin, share in parts:
        total[rows_of_bin] += share
    assert total == pytest.approx(np.ones(len(p)), abs=1e-9)
    error = sum(abs((ordered.gap[rows_of_bin] * share).sum()) for rows_of_bin, share in parts) / ordered.weight.sum()
    assert error == pytest.approx(ace(ordered, bins), abs=1e-12)


def test_distinct_forecasts_whose_number_divides_by_ten_give_the_textbook_bins() -> None:
    generator = np.random.default_rng(3)
    p, y = generator.random(200), generator.random(200) < 0.4
    order = np.argsort(p)
    expected = np.mean([abs(p[part].mean() - y[part].mean()) for part in order.reshape(10, 20)])
    assert ace(SortedForecasts.of(Forecasts.of(p, y))) == pytest.approx(float(expected), abs=1e-12)


def test_ties_do_not_depend_on_the_order_in_which_they_came() -> None:
    p = np.full(20, 0.3)
    first, last = np.arange(20) < 6, np.arange(20) >= 14
    assert ace(SortedForecasts.of(Forecasts.of(p, first))) == pytest.approx(0.0, abs=1e-12)
    assert ace(SortedForecasts.of(Forecasts.of(p, last))) == pytest.approx(0.0, abs=1e-12)


GROUP = st.integers(1, 4).flatmap(lambda mass: st.tuples(st.just(mass), st.integers(0, mass)))
GROUPS = st.lists(GROUP, min_size=1, max_size=8)
RATES = st.integers(1, 8).flatmap(
    lambda groups: st.lists(st.lists(st.floats(-1, 2), min_size=groups, max_size=groups), min_size=1, max_size=6)
)


def by_sklearn(mass: np.ndarray, rate: np.ndarray) -> np.ndarray:
    return np.asarray(IsotonicRegression().fit_transform(np.arange(len(mass)), rate, sample_weight=mass))


@settings(deadline=None, max_examples=50)
@given(GROUPS)
def test_the_explained_sum_is_that_of_the_fit(groups: list[tuple[int, int]]) -> None:
    mass, yes = np.array(groups, dtype=float).T
    assert sum_explained_squares(mass, yes) == pytest.approx(float(np.sum(mass * np.square(by_sklearn(mass, yes / mass)))), abs=1e-12)


def test_nothing_explains_nothing() -> None:
    assert sum_explained_squares(np.zeros(0), np.zeros(0)) == 0.0


@settings(deadline=None, max_examples=50)
@given(RATES)
def test_each_row_is_fitted_alone(rows: list[list[float]]) -> None:
    rate = np.array(rows)
    mass = 1.0 + np.arange(rate.shape[1])
    expected = np.array([np.clip(by_sklearn(mass, row), 0, 1) for row in rate])
    assert isotonic_fit(mass, rate * mass) == pytest.approx(expected, abs=1e-9)


def test_pools_of_equal_rates_count_as_one_whatever_the_order_of_pooling() -> None:
    """Ten groups with the same rate: 1/3 of 3, of 6, of 9, … Separate pools would round their sums of squares differently."""
    mass = 3.0 * np.arange(1, 11)
    assert sum_explained_squares(mass, mass / 3) == (mass.sum() / 3) ** 2 / mass.sum()
