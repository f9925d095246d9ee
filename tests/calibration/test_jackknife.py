"""The jackknife over clusters: omitted clusters, variance and degrees of freedom."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score
from statsmodels.regression.linear_model import OLS

from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.discrimination import influence_on_average_precision, jackknife_roc_auc
from bellwether.calibration.forecasts import Forecasts
from bellwether.calibration.formulas import compute_metrics
from bellwether.calibration.jackknife import LeaveOneOut, jackknife, satterthwaite

ROW = st.tuples(
    st.integers(0, 20).map(lambda k: k / 20),
    st.booleans(),
    st.sampled_from(["yes", "no", None]),
    st.one_of(st.just(float("nan")), st.integers(0, 20).map(lambda k: k / 20)),
    st.integers(0, 4),
    st.integers(1, 3),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(ROW, min_size=2, max_size=30))
def test_each_value_is_that_of_the_forecasts_without_the_cluster(rows: list[tuple[float, bool, str | None, float, int, int]]) -> None:
    p, y, answer, market, cluster, weight = (list(column) for column in zip(*rows, strict=True))
    forecasts = Forecasts.of(p, y, answer=answer, market=market, weights=weight)
    groups = Grouping.of(np.array(cluster))
    left = LeaveOneOut.of(forecasts, groups)
    for index in range(groups.count):
        without = compute_metrics(forecasts.take(groups.index != index))
        for name, values in left.values.items():
            if name in without and name not in {"average_precision", "ace", "smece"}:
                assert values[index] == pytest.approx(without[name], abs=1e-9, nan_ok=True), name


def test_the_variance_of_a_mean_is_that_of_a_regression_with_hc3_errors_when_each_forecast_is_a_cluster() -> None:
    generator = np.random.default_rng(1)
    p, y = generator.random(30), generator.random(30) < 0.5
    forecasts = Forecasts.of(p, y)
    left = LeaveOneOut.of(forecasts, Grouping(np.arange(30), 30))
    found = jackknife((left,), None, "brier", size="n", value=compute_metrics(forecasts)["brier"], scale=lambda value: value)
    fit = OLS(np.square(p - y), np.ones(30)).fit(cov_type="HC3")
    assert found.variance == pytest.approx(fit.bse[0] ** 2, rel=1e-12)
    assert (found.clusters, found.df) == (30, pytest.approx(29))


def test_two_ways_add_both_and_subtract_what_they_share() -> None:
    generator = np.random.default_rng(2)
    p, y = generator.random(60), generator.random(60) < 0.5
    forecasts, value = Forecasts.of(p, y), compute_metrics(Forecasts.of(p, y))["brier"]
    clusters = Clusters.of((np.arange(60) % 6, np.arange(60) // 6), 60)
    ways = tuple(LeaveOneOut.of(forecasts, way) for way in clusters.ways)
    assert clusters.both is not None
    both = LeaveOneOut.of(forecasts, clusters.both)

    def variance(*parts: LeaveOneOut) -> float:
        return sum(float(np.square(part.values["brier"] - value).sum()) for part in parts)

    found = jackknife(ways, both, "brier", size="n", value=value, scale=lambda one: one)
    assert found.variance == pytest.approx(max(variance(*ways) - variance(both), *(variance(way) for way in ways)))
    assert found.clusters == 6


def by_matrices(size: np.ndarray, variance: np.ndarray) -> float:
    """Compute Bell and McCaffrey's degrees of freedom of a mean from the matrices of their definition."""
    share = size / size.sum()
    residual = np.diag(variance) - np.outer(share, variance) - np.outer(variance, share) + np.outer(share, share) * variance.sum()
    adjusted = residual / np.sqrt(np.outer(1 - share, 1 - share))
    return float(np.trace(adjusted) ** 2 / np.square(adjusted).sum())


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0.1, 50)), min_size=3, max_size=12))
def test_degrees_of_freedom_are_those_of_their_definition(clusters: list[tuple[float, float]]) -> None:
    size, variance = np.array(clusters).T
    assert satterthwaite(size, variance) == pytest.approx(min(by_matrices(size, variance), len(size) - 1), rel=1e-6)


def test_equal_clusters_have_one_degree_less_than_clusters_and_a_dominating_one_leaves_few() -> None:
    assert satterthwaite(np.full(8, 5.0), np.full(8, 5.0)) == pytest.approx(7)
    assert satterthwaite(np.array([95.0, 1, 1, 1, 1, 1]), np.array([95.0, 1, 1, 1, 1, 1])) < 1.2
    assert satterthwaite(np.array([3.0]), np.array([3.0])) == 0


def test_many_means_have_the_degrees_of_each() -> None:
    size = np.array([[3.0, 1, 0], [2, 1, 4], [5, 1, 2], [0, 1, 6]])
    together = satterthwaite(size, size)
    for column in range(3):
        own = size[size[:, column] > 0, column]
        assert together[column] == pytest.approx(float(satterthwaite(own, own)))


@pytest.mark.parametrize("seed", range(2))
def test_roc_auc_without_a_cluster_is_that_of_scikit_learn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    p, weight = np.round(generator.random(50), 1), generator.random(50) + 0.1
    y, cluster = generator.random(50) < p, generator.integers(0, 6, 50)
    groups = Grouping.of(cluster)
    ours = jackknife_roc_auc(Forecasts.of(p, y, weights=weight), groups)
    for index in range(groups.count):
        rest = groups.index != index
        assert ours[index] == pytest.approx(roc_auc_score(y[rest], p[rest], sample_weight=weight[rest]))


def test_roc_auc_is_undefined_where_one_outcome_remains() -> None:
    forecasts = Forecasts.of([0.9, 0.2, 0.4], [1, 0, 0])
    assert np.isnan(jackknife_roc_auc(forecasts, Grouping(np.arange(3), 3))).tolist() == [True, False, False]


def test_the_influence_on_the_average_precision_is_its_derivative_by_the_weight() -> None:
    generator = np.random.default_rng(4)
    p, weight = np.round(generator.random(30), 1), generator.random(30) + 0.5
    y = generator.random(30) < p
    ours = influence_on_average_precision(Forecasts.of(p, y, weights=weight))
    for index in range(30):
        more = weight.copy()
        more[index] *= 1 + 1e-6
        change = average_precision_score(y, p, sample_weight=more) - average_precision_score(y, p, sample_weight=weight)
        assert ours[index] == pytest.approx(change / 1e-6, abs=1e-5)
