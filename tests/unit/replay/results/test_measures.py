"""Drawdowns, Sharpe ratios, fill ratios and slippage."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.replay.results.curve import max_drawdown, sharpe
from bellwether.replay.results.execution import fill_ratio, fill_ratio_pmb, mean, median, notional, slippage, weighted_mean
from bellwether.replay.units import BUY, MINUTE, SECOND, SELL

curves = st.lists(st.integers(1, 2_000_000_000), min_size=1, max_size=60).map(lambda values: np.array(values, np.int64))


def minutes(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64) * MINUTE


def test_the_first_point_of_a_curve_counts_for_the_drawdown() -> None:
    assert max_drawdown(np.array([1000, 900, 950])) == 0.1


@pytest.mark.parametrize("equity", [[], [0, 5], [-1]])
def test_a_curve_without_a_positive_peak_has_no_drawdown(equity: list[int]) -> None:
    assert max_drawdown(np.array(equity, np.int64)) is None


@given(curves)
def test_the_drawdown_is_the_worst_of_all_pairs(equity: np.ndarray) -> None:
    pairs = [(early - late) / early for index, early in enumerate(equity.tolist()) for late in equity.tolist()[index:]]
    assert max_drawdown(equity) == max(pairs)


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


# Fill ratios, slippage and means of orders and fills


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("requested", "taken", "maker_requested", "made", "ours", "original"),
    [
        ([10_000], [8_000], [], [], 0.8, 0.8),
        ([1_000], [0], [0, 0], [400, 600], 1.0, 0.5),
        ([1_000, 3_000], [1_000, 0], [], [], 0.25, 1.0),
        ([], [], [], [], None, 1.0),
    ],
    ids=["in part", "two prints", "never filled", "nothing requested"],
)
def test_fill_ratios(
    requested: list[int], taken: list[int], maker_requested: list[int], made: list[int], ours: float | None, original: float
) -> None:
    """The original counts an order filled by two prints twice, and an unfilled order not at all."""
    filled = taken if not made else [sum(made)]
    assert fill_ratio(ints(*requested), ints(*filled)) == ours
    assert fill_ratio_pmb(ints(*requested), ints(*taken), ints(*maker_requested), ints(*made)) == original


def test_buying_10_at_48_with_the_middle_at_46_and_a_half_slips_15_cents() -> None:
    assert slippage(ints(BUY), ints(4800), ints(1_000), ints(9300)) == (150_000, 1_000)


def test_a_sale_below_the_middle_slips_and_one_above_it_gains() -> None:
    assert slippage(ints(SELL), ints(4500), ints(5_000), ints(9300)).micros == 750_000
    assert slippage(ints(SELL), ints(4800), ints(1_000), ints(9300)).micros == -150_000


def test_a_sale_turns_over_as_much_as_a_purchase() -> None:
    assert notional(ints(4800, 4800), ints(1_000, 1_000)) == 2 * 4_800_000


def test_the_weighted_mean_is_exact_beyond_64_bits() -> None:
    large = 10**12
    assert weighted_mean(ints(large, large + 4), ints(10**9, 3 * 10**9)) == large + 3
    assert weighted_mean(ints(-5, 3), ints(1, 3)) == 1.0


@pytest.mark.parametrize("function", [mean, median])
def test_of_nothing_there_is_no_mean_and_no_median(function) -> None:
    assert function(ints()) is None


def test_the_median_of_an_even_number_lies_between() -> None:
    assert median(ints(1, 9, 4, 6)) == 5.0
    assert mean(ints(1, 9, 4, 6)) == 5.0
