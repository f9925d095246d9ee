"""The CORP curve and consistency bands."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom
from sklearn.isotonic import IsotonicRegression

from bellwether.calibration import consistency, corp_curve, reliability_bands, reliability_bins
from bellwether.calibration.clusters import Clusters
from bellwether.calibration.forecasts import Bins, Forecasts
from bellwether.errors import ScoringError


def calibrated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    p = np.round(generator.random(n), 2)
    return p, generator.random(n) < p


def test_the_curve_is_the_isotonic_regression_of_the_outcomes() -> None:
    p, y = calibrated(200, seed=1)
    curve = corp_curve(p, y, resamples=10)
    expected = IsotonicRegression().fit(p, y).predict(curve["forecast"].to_numpy())
    assert curve["recalibrated"].to_numpy() == pytest.approx(expected, abs=1e-12)
    assert curve["n"].sum() == 200
    assert curve["forecast"].is_sorted()


def test_the_band_of_a_bin_of_equal_forecasts_is_the_binomial_one() -> None:
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


def test_a_seed_fixes_the_band_whatever_the_size_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    p, y = calibrated(80, seed=4)
    curve, bands = corp_curve(p, y), reliability_bands(p)
    assert not corp_curve(p, y, seed=2).equals(curve)
    monkeypatch.setattr(consistency, "_BLOCK", 5_000)
    assert reliability_bands(p).equals(bands)
    for name in curve.columns:
        assert corp_curve(p, y)[name].to_numpy() == pytest.approx(curve[name].to_numpy(), abs=1e-9)


def test_many_distinct_forecasts_are_thinned_to_points_that_reach_both_ends() -> None:
    p = np.linspace(0, 1, 5_000)
    curve = corp_curve(p, p > 0.5, resamples=20)
    assert curve.height == 1_000
    assert (curve["forecast"].min(), curve["forecast"].max()) == (0.0, 1.0)


@pytest.mark.filterwarnings("error")
def test_nothing_and_one_forecast_have_a_frame_too() -> None:
    assert corp_curve([], []).height == 0
    assert corp_curve([1.0], [1]).row(0) == (1.0, 1, 1.0, 1.0, 1.0)
    assert reliability_bands([])["n"].sum() == 0
    assert reliability_bands([0.5])["lower"].null_count() == 9


@pytest.mark.parametrize("arguments", [{"level": 1.0}, {"resamples": 0}])
def test_a_band_that_makes_no_sense_is_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ScoringError, match="consistency band"):
        corp_curve([0.5], [1], **arguments)  # type: ignore[arg-type]
    with pytest.raises(ScoringError, match="consistency band"):
        reliability_bands([0.5], **arguments)  # type: ignore[arg-type]


def test_bands_of_a_large_sample_are_nearly_those_of_many_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(8)
    p = generator.random(4_000)
    y, cluster = generator.random(4_000) < p, np.arange(4_000) // 10
    exact = [reliability_bands(p, cluster), corp_curve(p, y, cluster)]
    monkeypatch.setattr(consistency, "_MAX_OUTCOMES", 0)
    monkeypatch.setattr(consistency, "_CELLS", 500)
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


def test_bands_and_curve_from_the_same_resamples_are_those_of_each() -> None:
    p, y = calibrated(120, seed=9)
    cluster = np.arange(120) // 4
    forecasts = Forecasts.of(p, y)
    bands, curve = consistency.bands_and_curve(forecasts, Clusters.of(cluster, 120), Bins.of(5), level=0.9, resamples=300, seed=4)
    assert bands.equals(reliability_bands(p, cluster, bins=5, level=0.9, resamples=300, seed=4))
    assert curve.equals(corp_curve(p, y, cluster, level=0.9, resamples=300, seed=4))
