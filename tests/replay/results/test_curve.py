"""Drawdown and Sharpe ratio of equity curves."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.replay.results.curve import curve_of, drawdowns, max_drawdown, sharpe
from bellwether.replay.units import MINUTE, SECOND

curves = st.lists(st.integers(1, 2_000_000_000), min_size=1, max_size=60).map(lambda values: np.array(values, np.int64))


def minutes(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64) * MINUTE


def test_steady_growth_has_no_variance_and_so_no_sharpe_ratio() -> None:
    grown = np.array([1_000_000 * 11**step * 10 ** (6 - step) for step in range(7)])
    assert sharpe(minutes(7), grown, MINUTE)[:2] == (None, None)


def test_the_bankroll_before_the_first_sample_counts_for_the_drawdown() -> None:
    _, equity = curve_of(0, 1000, minutes(2), np.array([900, 950]))
    assert max_drawdown(equity) == 0.1


@pytest.mark.parametrize("equity", [[], [0, 5], [-1]])
def test_a_curve_without_a_positive_peak_has_no_drawdown(equity: list[int]) -> None:
    assert max_drawdown(np.array(equity, np.int64)) is None


@given(curves)
def test_the_drawdown_is_the_worst_of_all_pairs(equity: np.ndarray) -> None:
    pairs = [(early - late) / early for index, early in enumerate(equity.tolist()) for late in equity.tolist()[index:]]
    assert max_drawdown(equity) == max(pairs)
    assert drawdowns(equity).max() == max(pairs)


@given(curves)
def test_the_sharpe_ratio_is_that_of_the_textbook(equity: np.ndarray) -> None:
    values = equity.tolist()
    returns = [(late - early) / early for early, late in pairwise(values)]
    found = sharpe(minutes(len(equity)), equity, MINUTE)
    assert found.returns == len(returns)
    if len(returns) < 2 or len(set(returns)) == 1:
        assert found.ratio is None
    else:
        assert found.ratio == pytest.approx(statistics.mean(returns) / statistics.stdev(returns), rel=1e-9, abs=1e-12)
        assert found.annualised == pytest.approx(found.ratio * math.sqrt(525_960), rel=1e-12)


def test_samples_nearer_than_the_interval_are_left_out() -> None:
    ts = np.array([0, 0, 59, 60, 61, 120, 150]) * SECOND
    equity = np.array([100, 1, 1, 110, 1, 99, 1])
    assert sharpe(ts, equity, MINUTE) == sharpe(minutes(3), np.array([100, 110, 99]), MINUTE)
    assert sharpe(ts, equity, MINUTE).returns == 2


def test_a_return_from_nothing_makes_the_ratio_undefined() -> None:
    assert sharpe(minutes(4), np.array([100, 0, 50, 60]), MINUTE)[:2] == (None, None)
    assert sharpe(minutes(3), np.array([100, 50, 0]), MINUTE).ratio is not None


def test_a_longer_interval_is_annualised_by_its_own_length() -> None:
    equity = np.array([100, 110, 99, 120])
    short, long = sharpe(minutes(4), equity, MINUTE), sharpe(minutes(4) * 4, equity, 4 * MINUTE)
    assert short.ratio == long.ratio
    assert short.annualised == pytest.approx(2 * long.annualised)
