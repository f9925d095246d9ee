"""Means over clusters: agreement of intervals and tests, and coverage for skewed values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bellwether.calibration.mean_inference import CONSTANT, NOTHING, ClusterSums, mean_tests


def singles(values: np.ndarray) -> ClusterSums:
    """Build clusters of one value each. Each column is a mean."""
    return ClusterSums(values, np.ones_like(values))


def test_symmetric_values_have_students_interval_with_the_jackknifes_variance() -> None:
    values = np.array([-3.0, -1.0, 1.0, 3.0, 5.0])[:, None]  # symmetric about 1
    found = mean_tests([singles(values)])
    error = values.std(ddof=1) / np.sqrt(5) * np.sqrt(5 / 4)
    reach = stats.t.ppf(0.975, 4) * error
    assert (found.lower[0], found.upper[0]) == pytest.approx((1 - reach, 1 + reach))
    assert found.p[0] == pytest.approx(2 * stats.t.sf(1 / error, 4))
    assert (found.df[0], found.clusters[0]) == (pytest.approx(4), 5)


@settings(deadline=None, max_examples=60)
@given(st.integers(3, 40), st.integers(0, 2**32 - 1), st.floats(0.5, 0.999), st.booleans())
def test_the_interval_excludes_zero_exactly_when_p_is_below_one_minus_its_level(n: int, seed: int, level: float, floor: bool) -> None:
    generator = np.random.default_rng(seed)
    sums = ClusterSums(generator.gamma(1, 1, (n, 3)) - generator.random(3), generator.integers(1, 4, (n, 3)).astype(float))
    found = mean_tests([sums], level=level, min_variance=(lambda _: 0.01) if floor else None)
    for lower, upper, p, reason in zip(found.lower, found.upper, found.p, found.reason, strict=True):
        if reason is None and abs(p - (1 - level)) > 1e-9:
            assert (lower > 0 or upper < 0) == (p < 1 - level)


def test_the_least_variance_holds_for_few_clusters_only() -> None:
    for n, widened in ((19, True), (20, False)):
        values = np.random.default_rng(1).normal(0, 1, (n, 1))
        plain, held = mean_tests([singles(values)]), mean_tests([singles(values)], min_variance=lambda _: 4.0)
        assert (held.standard_error[0] == 2.0) == widened
        assert plain.standard_error[0] < 0.5


def test_no_test_has_a_reason() -> None:
    total = np.array([[1.0, 1, 0, 9], [1, 2, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1]])
    weight = np.array([[1.0, 1, 0, 9], [1, 1, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1]])
    found = mean_tests([ClusterSums(total, weight)])
    assert found.reason[0] == CONSTANT
    assert found.reason[1] == "2 clusters; an interval needs 3"
    assert found.reason[2] == NOTHING
    assert str(found.reason[3]).startswith("one cluster holds 75%")
    assert np.isnan(found.p).all()
    assert found.method == [None] * 4


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 20])
@pytest.mark.parametrize(
    ("name", "truth"), [("normal", 1.0), ("exponential", 1.0), ("lognormal", np.exp(0.32)), ("heavy-tailed", 0.0), ("mixture", 0.0)]
)
def test_intervals_of_skewed_values_contain_the_mean(n: int, name: str, truth: float) -> None:
    generator, sets = np.random.default_rng(n), 3_000
    draw = {
        "normal": lambda: generator.normal(1, 1, (n, sets)),
        "exponential": lambda: generator.exponential(1, (n, sets)),
        "lognormal": lambda: generator.lognormal(0, 0.8, (n, sets)),
        "heavy-tailed": lambda: generator.standard_t(3, (n, sets)),
        "mixture": lambda: np.where(
            generator.random((n, sets)) < 0.8, generator.normal(1, 1, (n, sets)), generator.normal(-4, 2, (n, sets))
        ),
    }
    found = mean_tests([singles(draw[name]())])
    inside = np.mean((found.lower <= truth) & (truth <= found.upper))
    assert inside >= (0.90 if n < 20 else 0.925) - 0.01
    assert n < 20 or inside <= 0.975
