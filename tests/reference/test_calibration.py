"""Tests of calibration, the CORP curve and consistency bands."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from bellwether.calibration import corp_curve, evaluate, reliability, reliability_bands, reliability_bins
from bellwether.calibration.bootstrap import Inference
from bellwether.calibration.calibration_test import MIN_TEST_CLUSTERS, _Errors, calibrated_outcomes, calibration_tests
from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.forecasts import Forecasts
from bellwether.calibration.formulas import compute_metrics
from bellwether.calibration.metrics import TESTED


def drawn(
    seed: int, clusters: int, size: int = 5, correlation: float = 0.0, shared: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw true probabilities, outcomes and clusters. Outcomes in a cluster share a Gaussian shock."""
    from scipy.special import ndtri

    generator = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), size)
    truth = generator.random(clusters)[cluster] if shared else generator.random(len(cluster))
    shock = math.sqrt(correlation) * generator.standard_normal(clusters)[cluster]
    y = shock + math.sqrt(1 - correlation) * generator.standard_normal(len(cluster)) < ndtri(truth)
    return truth, y.astype(float), cluster


def test_the_errors_of_the_observed_residuals_are_the_metrics() -> None:
    p, y, _ = drawn(1, 40)
    weight = np.random.default_rng(2).random(len(p)) + 0.5
    forecasts = Forecasts.of(np.round(p, 2), y, weights=weight)
    values = compute_metrics(forecasts)
    errors = _Errors.of(forecasts)
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


@pytest.mark.nightly
@pytest.mark.parametrize(("clusters", "size", "correlation", "shared"), [(8, 5, 0.5, False), (20, 5, 0.8, True)])
def test_calibrated_forecasters_are_rejected_as_rarely_as_the_level_says(
    clusters: int, size: int, correlation: float, shared: bool
) -> None:
    sets, rejected = 120, dict.fromkeys(TESTED, 0)
    for seed in range(sets):
        p, y, cluster = drawn(1_000 + seed, clusters, size, correlation, shared)
        found = calibration_tests(Forecasts.of(p, y), Clusters.of(cluster, len(p)), Inference(replicates=300))
        assert found.keys() == rejected.keys()
        for name, null in found.items():
            rejected[name] += null.p <= 0.05
    most = 0.07 + 3 * math.sqrt(0.05 * 0.95 / sets)
    assert max(rejected.values()) / sets <= most, rejected


def calibrated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    p = np.round(generator.random(n), 2)
    return p, generator.random(n) < p


def test_the_curve_is_the_isotonic_regression_of_the_outcomes() -> None:
    from sklearn.isotonic import IsotonicRegression

    p, y = calibrated(200, seed=1)
    curve = corp_curve(p, y)
    expected = IsotonicRegression().fit(p, y).predict(curve["forecast"].to_numpy())
    assert curve["recalibrated"].to_numpy() == pytest.approx(expected, abs=1e-12)
    assert curve["n"].sum() == 200
    assert curve["forecast"].is_sorted()


def test_the_band_of_a_bin_of_equal_forecasts_is_the_binomial_one() -> None:
    from scipy.stats import binom

    band = reliability_bands([0.25] * 40, resamples=20_000).row(2, named=True)
    assert (band["n"], band["mean_forecast"]) == (40, 0.25)
    assert (band["lower"], band["upper"]) == pytest.approx((binom.ppf(0.025, 40, 0.25) / 40, binom.ppf(0.975, 40, 0.25) / 40), abs=0.026)


def test_a_calibrated_forecaster_stays_inside_the_band_and_an_inverted_one_does_not() -> None:
    p, y = calibrated(500, seed=2)
    inside = pl.col("recalibrated").is_between(pl.col("lower"), pl.col("upper")).mean()
    assert corp_curve(p, y).select(inside).item() > 0.85
    assert corp_curve(1 - p, y).select(inside).item() < 0.3
    bins = reliability_bins(p, y).join(reliability_bands(p), on="bin")
    assert bins.select(pl.col("yes_rate").is_between(pl.col("lower"), pl.col("upper")).sum()).item() >= 8


def test_dependent_outcomes_have_a_wider_band() -> None:
    p, y = calibrated(300, seed=6)
    cluster = np.arange(300) // 10
    for wide, narrow in ((reliability_bands(p, cluster), reliability_bands(p)), (corp_curve(p, y, cluster), corp_curve(p, y))):
        widths = [(band["upper"] - band["lower"]).mean() for band in (wide, narrow)]
        assert widths[0] > 1.1 * widths[1]


def test_a_seed_fixes_the_band() -> None:
    p, y = calibrated(80, seed=4)
    assert corp_curve(p, y).equals(corp_curve(p, y)) and not corp_curve(p, y, seed=2).equals(corp_curve(p, y))
    assert reliability_bands(p).equals(reliability_bands(p))


@pytest.mark.filterwarnings("error")
def test_nothing_and_one_forecast_have_a_frame_too() -> None:
    assert corp_curve([], []).height == 0
    assert corp_curve([1.0], [1]).row(0) == (1.0, 1, 1.0, 1.0, 1.0)
    assert reliability_bands([])["n"].sum() == 0
    assert reliability_bands([0.5])["lower"].null_count() == 9


def test_bands_of_a_large_sample_are_nearly_those_of_many_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(8)
    p = generator.random(4_000)
    y, cluster = generator.random(4_000) < p, np.arange(4_000) // 10
    exact = [reliability_bands(p, cluster), corp_curve(p, y, cluster)]
    monkeypatch.setattr(reliability, "_MAX_OUTCOMES", 0)
    monkeypatch.setattr(reliability, "_CELLS", 500)
    for whole, few in zip(exact, [reliability_bands(p, cluster), corp_curve(p, y, cluster)], strict=True):
        width = (whole["upper"] - whole["lower"]).mean()
        assert (few["upper"] - few["lower"]).mean() == pytest.approx(width, rel=0.1)
        assert max((few[end] - whole[end]).abs().mean() for end in ("lower", "upper")) < 0.1 * width


def test_weighted_forecasts_have_weighted_bands() -> None:
    p, weights = np.tile([0.12, 0.18], 400), np.tile([1.0, 9.0], 400)
    band = reliability_bands(p, range(800), weights=weights).row(1, named=True)
    assert (band["n"], band["mean_forecast"]) == (800, pytest.approx(0.174))
    # The variance of a weighted mean of independent outcomes.
    error = np.sqrt((np.square(weights) * p * (1 - p)).sum()) / weights.sum()
    assert band["upper"] - band["lower"] == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert (band["upper"] + band["lower"]) / 2 == pytest.approx(0.174, abs=0.1 * error * 2)
