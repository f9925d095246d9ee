"""Fill ratios, slippage and means of orders and fills."""

from __future__ import annotations

import numpy as np
import pytest

from bellwether.replay.results.execution import fill_ratio, fill_ratio_pmb, mean, median, notional, slippage, weighted_mean
from bellwether.replay.units import BUY, SELL


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
    """The original counts an order that two prints filled twice, and one that never filled not at all."""
    filled = taken if not made else [sum(made)]
    assert fill_ratio(ints(*requested), ints(*filled)) == ours
    assert fill_ratio_pmb(ints(*requested), ints(*taken), ints(*maker_requested), ints(*made)) == original


def test_buying_10_at_48_with_the_middle_at_46_and_a_half_slips_15_cents() -> None:
    assert slippage(ints(BUY), ints(480), ints(1_000), ints(930)) == (150_000, 1_000)


def test_a_sale_below_the_middle_slips_and_one_above_it_gains() -> None:
    assert slippage(ints(SELL), ints(450), ints(5_000), ints(930)).micros == 750_000
    assert slippage(ints(SELL), ints(480), ints(1_000), ints(930)).micros == -150_000


def test_fills_without_a_middle_slip_nothing_and_weigh_nothing() -> None:
    assert slippage(ints(BUY, BUY), ints(480, 500), ints(1_000, 700), ints(930, -1)) == (150_000, 1_000)


def test_a_sale_turns_over_as_much_as_a_purchase() -> None:
    assert notional(ints(480, 480), ints(1_000, 1_000)) == 2 * 4_800_000


def test_the_weighted_mean_is_exact_beyond_64_bits() -> None:
    large = 10**12
    assert weighted_mean(ints(large, large + 4), ints(10**9, 3 * 10**9)) == large + 3
    assert weighted_mean(ints(-5, 3), ints(1, 3)) == 1.0


@pytest.mark.parametrize("function", [mean, median])
def test_of_nothing_there_is_no_mean_and_no_median(function) -> None:
    assert function(ints()) is None


def test_no_weight_has_no_mean() -> None:
    assert weighted_mean(ints(), ints()) is None
    assert weighted_mean(ints(4), ints(0)) is None


def test_the_median_of_an_even_number_lies_between() -> None:
    assert median(ints(1, 9, 4, 6)) == 5.0
    assert mean(ints(1, 9, 4, 6)) == 5.0
