"""Adaptive calibration error with tied forecasts and weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.calibration.forecasts import Forecasts
from bellwether.calibration.ordered import Ordered, ace, shares

ROWS = st.lists(st.tuples(st.integers(0, 20).map(lambda k: k / 20), st.booleans(), st.integers(0, 3)), min_size=1, max_size=40)


def by_copies(p: np.ndarray, y: np.ndarray) -> float:
    """ACE of N forecasts from ten copies of each, cut into ten bins of N, every tied outcome replaced by its group's mean."""
    mean_outcome = np.array([y[p == value].mean() for value in p])
    order = np.argsort(p, kind="stable")
    copies_p, copies_y = np.repeat(p[order], 10), np.repeat(mean_outcome[order], 10)
    bins = [slice(index * len(p), (index + 1) * len(p)) for index in range(10)]
    return float(np.mean([abs(copies_p[b].mean() - copies_y[b].mean()) for b in bins]))


@settings(deadline=None, max_examples=50)
@given(ROWS)
def test_ace_equals_its_definition_on_physical_copies(rows: list[tuple[float, bool, int]]) -> None:
    p, y = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    assert ace(Ordered.of(Forecasts.of(p, y))) == pytest.approx(by_copies(p, y), abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(ROWS)
def test_weights_count_as_repetitions(rows: list[tuple[float, bool, int]]) -> None:
    p, y, times = (np.array([r[index] for r in rows]) for index in range(3))
    times = times + 1
    weighted = ace(Ordered.of(Forecasts.of(p, y, weights=times)))
    repeated = ace(Ordered.of(Forecasts.of(np.repeat(p, times), np.repeat(y, times))))
    assert weighted == pytest.approx(repeated, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(ROWS, st.integers(1, 12))
def test_shares_of_bins_give_the_error_and_add_up_to_one(rows: list[tuple[float, bool, int]], bins: int) -> None:
    p, y, times = (np.array([r[index] for r in rows]) for index in range(3))
    ordered = Ordered.of(Forecasts.of(p, y, weights=times + 1))
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
    assert ace(Ordered.of(Forecasts.of(p, y))) == pytest.approx(float(expected), abs=1e-12)


def test_ties_do_not_depend_on_the_order_in_which_they_came() -> None:
    p = np.full(20, 0.3)
    first, last = np.arange(20) < 6, np.arange(20) >= 14
    assert ace(Ordered.of(Forecasts.of(p, first))) == pytest.approx(0.0, abs=1e-12)
    assert ace(Ordered.of(Forecasts.of(p, last))) == pytest.approx(0.0, abs=1e-12)
