"""Decompositions of the Brier score: sums, formulas of the literature, and interpretation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bellwether.calibration import evaluate
from bellwether.calibration.forecasts import Forecasts, bin_index
from bellwether.calibration.formulas import compute_metrics

STATED = st.one_of(st.integers(0, 100).map(lambda c: c / 100), st.integers(0, 100).map(lambda c: 1 - c / 100), st.floats(0, 1))
ROWS = st.lists(st.tuples(STATED, st.booleans()), min_size=1, max_size=60)


def columns(rows: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])


@given(ROWS)
def test_corp_adds_up_to_the_brier_score(rows: list[tuple[float, bool]]) -> None:
    p, y = columns(rows)
    ours = compute_metrics(Forecasts.of(p, y))
    brier = float(np.mean(np.square(p - y)))
    assert ours["corp_miscalibration"] - ours["corp_discrimination"] + ours["uncertainty"] == pytest.approx(brier, abs=1e-12)


@given(ROWS)
def test_murphy_equals_its_definition_bin_by_bin(rows: list[tuple[float, bool]]) -> None:
    p, y = columns(rows)
    terms = dict.fromkeys(("murphy_reliability", "murphy_resolution"), 0.0)
    for index in range(10):
        inside = bin_index(p) == index
        if inside.any():
            p_in, y_in = p[inside], y[inside].astype(float)
            terms["murphy_reliability"] += len(p_in) * (p_in.mean() - y_in.mean()) ** 2
            terms["murphy_resolution"] += len(p_in) * (y_in.mean() - y.mean()) ** 2
    ours = compute_metrics(Forecasts.of(p, y))
    assert {name: ours[name] for name in terms} == pytest.approx({name: one / len(p) for name, one in terms.items()}, abs=1e-12)


@given(st.lists(st.tuples(STATED, st.booleans()), min_size=2, max_size=60))
def test_corp_agrees_with_model_diagnostics(rows: list[tuple[float, bool]]) -> None:
    from model_diagnostics.scoring import SquaredError, decompose

    p, y = columns(rows)
    assume(0 < y.sum() < len(y))  # the library returns NaN for a single class
    theirs = decompose(y.astype(float), p, scoring_function=SquaredError())
    ours = compute_metrics(Forecasts.of(p, y))
    assume(theirs["miscalibration"].is_finite().all())  # nor does it merge forecasts that differ by rounding
    for name, term in (
        ("corp_miscalibration", "miscalibration"),
        ("corp_discrimination", "discrimination"),
        ("uncertainty", "uncertainty"),
    ):
        assert ours[name] == pytest.approx(theirs[term].item(), abs=1e-12)


def reliability(p: Any, y: Any, clusters: Any = None, weights: Any = None) -> float | None:
    """Return the debiased reliability."""
    return evaluate(p, y, clusters, weights=weights, replicates=0)["murphy_reliability_debiased"].value


DEPENDENT = {"one question asked at several horizons": (True, 1.0), "probabilities of their own, correlated outcomes": (False, 0.8)}


@pytest.mark.nightly
@pytest.mark.parametrize("kind", DEPENDENT)
def test_debiased_reliability_is_zero_on_average_under_dependence(kind: str) -> None:
    from scipy.special import ndtri

    generator, (shared, correlation) = np.random.default_rng(9), DEPENDENT[kind]
    found, naive = [], []
    for _ in range(1_000):
        cluster = np.repeat(np.arange(60), generator.integers(1, 7, 60))
        p = generator.random(60)[cluster] if shared else generator.random(len(cluster))
        shock = np.sqrt(correlation) * generator.standard_normal(60)[cluster]
        y = shock + np.sqrt(1 - correlation) * generator.standard_normal(len(cluster)) < ndtri(p)
        found.append(reliability(p, y, cluster))
        naive.append(reliability(p, y))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found)) < 3 * error
    if shared:
        assert np.mean(naive) > 10 * error


def test_debiased_terms_of_single_equal_forecasts_are_those_of_ferro_and_fricker() -> None:
    generator = np.random.default_rng(10)
    p = (generator.integers(0, 10, 80) + 0.5) / 10
    y = generator.random(80) < p
    reliability, resolution = 0.0, y.mean() * (1 - y.mean()) / 79
    for value in np.unique(p):
        inside = y[p == value]
        n, rate = len(inside), inside.mean()
        if n > 1:
            noise = rate * (1 - rate) / (n - 1)
            reliability += n / 80 * ((value - rate) ** 2 - noise)
            resolution += n / 80 * ((rate - y.mean()) ** 2 - noise)
    ours = evaluate(p, y)
    assert ours["murphy_reliability_debiased"].value == pytest.approx(reliability, abs=1e-12)
    assert ours["murphy_resolution_debiased"].value == pytest.approx(resolution, abs=1e-12)


def test_debiased_reliability_is_the_mean_over_pairs_of_different_clusters() -> None:
    generator = np.random.default_rng(11)
    p, y = np.round(generator.random(40), 2), generator.random(40) < 0.5
    first, second, weight = generator.integers(0, 6, 40), generator.integers(0, 4, 40), generator.random(40) + 0.5
    for clusters, apart in ((first, first[:, None] != first), ((first, second), (first[:, None] != first) & (second[:, None] != second))):
        expected = 0.0
        for index in range(10):
            inside = np.flatnonzero(bin_index(p) == index)
            pairs = [(i, j) for i in inside for j in inside if i != j and apart[i, j]]
            if pairs:
                products = sum(weight[i] * weight[j] * (p[i] - y[i]) * (p[j] - y[j]) for i, j in pairs)
                expected += weight[inside].sum() / weight.sum() * products / sum(weight[i] * weight[j] for i, j in pairs)
        assert reliability(p, y, clusters, weights=weight) == pytest.approx(expected, abs=1e-12)


def test_a_bin_of_one_forecast_has_no_debiased_term() -> None:
    assert reliability([0.05, 0.95], [0, 0]) is None
    assert reliability([0.05, 0.95, 0.95], [0, 0, 1]) == pytest.approx((0.45**2 - 0.25) * 2 / 3)
