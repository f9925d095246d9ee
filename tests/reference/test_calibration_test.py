"""Tests of calibration: level under dependence, power, and dependence on the residuals alone, like the metrics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri

from bellwether.calibration import evaluate
from bellwether.calibration.calibration_test import MIN_TEST_CLUSTERS, _Errors, calibrated_outcomes, calibration_tests
from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.forecasts import DECILES, Bins, Forecasts
from bellwether.calibration.formulas import compute_metrics
from bellwether.calibration.inference import Inference
from bellwether.calibration.metrics import TESTED


def drawn(
    seed: int, clusters: int, size: int = 5, correlation: float = 0.0, shared: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw true probabilities, outcomes and clusters. Outcomes in a cluster share a Gaussian shock."""
    generator = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), size)
    truth = generator.random(clusters)[cluster] if shared else generator.random(len(cluster))
    shock = math.sqrt(correlation) * generator.standard_normal(clusters)[cluster]
    y = shock + math.sqrt(1 - correlation) * generator.standard_normal(len(cluster)) < ndtri(truth)
    return truth, y.astype(float), cluster


@pytest.mark.parametrize("bins", [DECILES, Bins.of([0, 0.3, 0.35, 1])])
def test_the_errors_of_the_observed_residuals_are_the_metrics(bins: Bins) -> None:
    p, y, _ = drawn(1, 40)
    weight = np.random.default_rng(2).random(len(p)) + 0.5
    forecasts = Forecasts.of(np.round(p, 2), y, weights=weight)
    values = compute_metrics(forecasts, bins=bins)
    errors = _Errors.of(forecasts, bins)
    observed = errors.of_features(errors.features(errors.residual[None]))
    for name in TESTED:
        assert observed[name][0] == pytest.approx(values[name], abs=2e-3 if name == "smece" else 1e-9), name


def test_a_calibration_error_has_its_mean_under_calibration_and_a_p_value_and_no_interval() -> None:
    p, y, cluster = drawn(2, 60)
    for name, one in evaluate(p, y, cluster).items():
        assert (one.expected is not None) == (one.p_calibrated is not None) == (name in TESTED)
        if name in TESTED:
            assert one.lower is None
            assert 0 < one.p_calibrated <= 1  # type: ignore[operator]
            assert 0.3 * one.expected < one.value < 3 * one.expected  # type: ignore[operator]


def test_there_is_no_test_with_few_clusters_or_without_replicates() -> None:
    p, y, cluster = drawn(5, MIN_TEST_CLUSTERS - 1)
    assert evaluate(p, y, cluster)["ece"].p_calibrated is None
    p, y, cluster = drawn(5, MIN_TEST_CLUSTERS)
    assert evaluate(p, y, cluster)["ece"].p_calibrated is not None
    assert evaluate(p, y, cluster, replicates=0)["ece"].p_calibrated is None


def test_drawn_outcomes_have_the_forecasts_as_their_means_and_are_correlated_inside_clusters() -> None:
    p = np.array([0.2, 0.2, 0.7, 0.7])
    y = np.concatenate(list(calibrated_outcomes(p, Grouping.of(np.array([0, 0, 1, 2])), 40_000, np.random.PCG64(1))))
    assert y.mean(axis=0) == pytest.approx(p, abs=0.01)
    correlation = np.corrcoef(y.T)
    assert correlation[0, 1] > 0.2
    assert abs(correlation[2, 3]) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clusters", "size", "correlation", "shared"),
    [(8, 5, 0.5, False), (20, 5, 0.8, True)],
)
def test_calibrated_forecasters_are_rejected_as_rarely_as_the_level_says(
    clusters: int, size: int, correlation: float, shared: bool
) -> None:
    sets, rejected = 120, dict.fromkeys(TESTED, 0)
    for seed in range(sets):
        p, y, cluster = drawn(1_000 + seed, clusters, size, correlation, shared)
        found = calibration_tests(Forecasts.of(p, y), Clusters.of(cluster, len(p)), Inference(replicates=300), DECILES)
        assert found.keys() == rejected.keys()
        for name, null in found.items():
            rejected[name] += null.p <= 0.05
    most = 0.07 + 3 * math.sqrt(0.05 * 0.95 / sets)
    assert max(rejected.values()) / sets <= most, rejected
