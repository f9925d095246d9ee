"""The cluster bootstrap: what a replicate is, which draws it uses, and when there is no interval."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.calibration import Bootstrap, bootstrap, evaluate
from bellwether.calibration.bootstrap import Clustered, bca_interval, jackknife, percentile_interval, replicate
from bellwether.calibration.forecasts import Forecasts
from bellwether.calibration.metrics import ESTIMATED
from bellwether.calibration.strict import point
from bellwether.errors import ScoringError

ROW = st.tuples(
    st.one_of(st.integers(0, 100).map(lambda c: c / 100), st.integers(0, 100).map(lambda c: 1 - c / 100), st.floats(0, 1)),
    st.booleans(),
    st.sampled_from(["yes", "no", None]),
    st.one_of(st.just(float("nan")), st.integers(0, 100).map(lambda c: c / 100)),
    st.integers(0, 5),
)


def clustered(n: int, n_clusters: int, seed: int) -> Clustered:
    generator = np.random.default_rng(seed)
    p = np.round(generator.random(n), 2)
    forecasts = Forecasts.of(p, generator.random(n) < p, market=np.where(generator.random(n) < 0.8, generator.random(n), np.nan))
    return Clustered(forecasts, np.concatenate([np.arange(n_clusters), generator.integers(0, n_clusters, n - n_clusters)]))


@settings(deadline=None, max_examples=60)
@given(st.lists(ROW, min_size=1, max_size=30))
def test_a_replicate_equals_the_metrics_on_the_resampled_arrays(rows: list[tuple[float, bool, str | None, float, int]]) -> None:
    p, y, answer, market, cluster = (list(column) for column in zip(*rows, strict=True))
    sample = Clustered(Forecasts.of(p, y, answer=answer, market=market), np.array(cluster))
    plan = Bootstrap(replicates=20, seed=3)
    ours = replicate([sample], 6, plan)[0]
    (weights,) = plan.weights(6, block=20)
    for index, drawn in enumerate(weights.astype(int)):
        resampled = np.repeat(np.arange(len(rows)), drawn[sample.cluster])
        theirs = point(sample.forecasts.take(resampled))
        assert_equal(ours[:, index], theirs)


@settings(deadline=None, max_examples=30)
@given(st.lists(ROW, min_size=1, max_size=30))
def test_the_jackknife_leaves_out_one_cluster_after_the_other(rows: list[tuple[float, bool, str | None, float, int]]) -> None:
    p, y, answer, market, cluster = (list(column) for column in zip(*rows, strict=True))
    sample = Clustered(Forecasts.of(p, y, answer=answer, market=market), np.array(cluster))
    ours = jackknife([sample], 6)[0]
    assert ours.shape == (len(ESTIMATED), 6)
    for index in range(6):
        assert_equal(ours[:, index], point(sample.forecasts.take(sample.cluster != index)))


def assert_equal(ours: np.ndarray, theirs: dict[str, float]) -> None:
    """Exact but for rounding; smECE on a coarser grid than the point estimate's."""
    for name, one in zip(ESTIMATED, ours, strict=True):
        assert one == pytest.approx(theirs[name], rel=1e-10, abs=3e-4 if name == "smece" else 1e-10, nan_ok=True), name


def test_every_replicate_draws_as_many_clusters_as_there_are() -> None:
    (weights,) = Bootstrap(replicates=200).weights(17, block=200)
    assert weights.shape == (200, 17)
    assert (weights.sum(axis=1) == 17).all()


def test_clusters_are_drawn_whole() -> None:
    """Two clusters of opposite quality: a replicate's Brier score can only be that of 0, 1 or 2 draws of the bad one."""
    sample = Clustered(Forecasts.of([0.0] * 4 + [1.0] * 4, [0] * 8), np.repeat([0, 1], 4))
    brier = replicate([sample], 2, Bootstrap(replicates=500))[0, ESTIMATED.index("brier")]
    assert set(brier) == {0.0, 0.5, 1.0}


def test_the_same_plan_gives_the_same_bytes_whatever_the_size_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [clustered(80, 30, seed) for seed in (1, 2)]
    whole = replicate(samples, 30, Bootstrap(replicates=301))
    monkeypatch.setattr(bootstrap, "_BLOCK", 4_000)
    assert replicate(samples, 30, Bootstrap(replicates=301)).tobytes() == whole.tobytes()


def test_sums_over_a_replicate_are_the_same_in_any_order() -> None:
    generator = np.random.default_rng(2)
    weights = next(Bootstrap(replicates=50).weights(400, block=50))
    exact = bootstrap.exactly_summable(generator.random((400, 3)) * [1e-9, 1.0, 1e9])
    for row in weights:
        terms = row[:, None] * exact
        assert (np.cumsum(terms, axis=0)[-1] == np.cumsum(terms[::-1], axis=0)[-1]).all()


def test_a_statistic_that_is_tiny_or_zero_everywhere_is_no_error() -> None:
    assert (bootstrap.exactly_summable(np.array([[0.0, 1e-300], [0.0, 0.0]])) == 0).all()


def test_another_seed_gives_other_draws() -> None:
    sample = clustered(80, 30, seed=1)
    first, second = (replicate([sample], 30, Bootstrap(replicates=50, seed=seed)) for seed in (1, 2))
    assert not np.array_equal(first, second, equal_nan=True)


def test_a_forecaster_scored_alone_or_with_others_gets_the_same_replicates() -> None:
    samples = [clustered(90, 40, seed) for seed in range(5)]
    together = replicate(samples, 40, Bootstrap(replicates=100))
    for index, sample in enumerate(samples):
        assert np.array_equal(replicate([sample], 40, Bootstrap(replicates=100))[0], together[index], equal_nan=True)


def test_forecasters_share_their_draws() -> None:
    """The better forecaster is better on every replicate, which independent draws would not give."""
    generator = np.random.default_rng(5)
    y = generator.random(60) < 0.5
    good, worse = (Clustered(Forecasts.of(np.where(y, 0.5 + edge, 0.5 - edge), y), np.arange(60)) for edge in (0.11, 0.1))
    brier = replicate([good, worse], 60, Bootstrap(replicates=300))[:, ESTIMATED.index("brier")]
    assert (brier[0] < brier[1]).all()


def test_memory_is_bounded_by_the_block_and_not_by_the_replicates() -> None:
    sample = clustered(50_000, 20_000, seed=1)
    tracemalloc.start()
    replicate([sample], 20_000, Bootstrap(replicates=100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    one_array_of_all_replicates = 100 * 50_000 * 8
    assert peak < 1.5 * one_array_of_all_replicates


def test_the_interval_is_the_percentile_interval_of_the_defined_replicates() -> None:
    values = np.arange(1001.0)
    assert percentile_interval(values, Bootstrap()) == pytest.approx((25, 975))
    assert percentile_interval(np.append(values, np.nan), Bootstrap()) == pytest.approx((25, 975))


def test_no_interval_when_more_than_a_twentieth_of_the_replicates_is_undefined() -> None:
    values = np.arange(1000.0)
    values[:50] = np.nan
    assert not np.isnan(percentile_interval(values, Bootstrap())).any()
    values[50] = np.nan
    assert np.isnan(percentile_interval(values, Bootstrap())).all()


def test_bca_equals_that_of_scipy_but_for_the_draws() -> None:
    generator = np.random.default_rng(4)
    p = generator.beta(0.5, 2.0, 60)
    y = generator.random(60) < p
    error = np.square(p - y)
    ours = evaluate(p, y, range(60), bootstrap=Bootstrap(40_000))["brier"]
    theirs = scipy.stats.bootstrap((error,), np.mean, n_resamples=40_000, method="BCa", rng=1).confidence_interval
    assert (ours.bca_lower, ours.bca_upper) == pytest.approx((theirs.low, theirs.high), abs=0.002)
    assert ours.bca_lower > ours.lower + 0.002  # type: ignore[operator]


def test_bca_without_bias_and_skewness_is_the_percentile_interval() -> None:
    values = np.arange(1001.0)
    assert bca_interval(500.0, values, np.array([499.0, 500.0, 501.0]), Bootstrap()) == pytest.approx((25, 975))


def test_bca_moves_against_the_bias_of_the_replicates() -> None:
    values = np.arange(1001.0)
    lower, upper = bca_interval(400.0, values, np.array([399.0, 400.0, 401.0]), Bootstrap())
    bias = scipy.stats.norm.ppf(400.5 / 1001)
    assert (lower, upper) == pytest.approx(
        1000 * scipy.stats.norm.cdf(2 * bias + np.array([-1, 1]) * scipy.stats.norm.ppf(0.975)), abs=1e-6
    )


def test_bca_is_undefined_when_a_cluster_cannot_be_left_out_or_all_replicates_are_on_one_side() -> None:
    values = np.arange(1001.0)
    assert np.isnan(bca_interval(500.0, values, np.array([499.0, np.nan]), Bootstrap())).all()
    assert np.isnan(bca_interval(-1.0, values, np.array([-1.0, -2.0]), Bootstrap())).all()


def test_a_metric_that_is_the_same_on_every_replicate_has_an_interval_of_no_width() -> None:
    brier = evaluate([0.5] * 20, [0, 1] * 10, range(20), bootstrap=Bootstrap(100))["brier"]
    assert (brier.lower, brier.upper, brier.bca_lower, brier.bca_upper) == (0.25,) * 4


def test_the_debiased_reliability_of_a_calibrated_forecaster_is_zero_within_its_interval_and_that_of_an_overconfident_one_is_not() -> None:
    generator = np.random.default_rng(8)
    truth = generator.random(600)
    y = generator.random(600) < truth
    odds = (truth / (1 - truth)) ** 2.5
    honest, extreme = (evaluate(p, y, range(600), bootstrap=Bootstrap(1_000)) for p in (truth, odds / (1 + odds)))
    name = "murphy_reliability_debiased"
    assert honest[name].lower < 0 < honest[name].upper  # type: ignore[operator]
    assert extreme[name].lower > 0  # type: ignore[operator]


def test_a_metric_that_hangs_on_one_cluster_has_a_value_and_no_interval() -> None:
    scores = evaluate([0.7, *[0.2] * 9], [1, *[0] * 9], range(10), bootstrap=Bootstrap(1_000))
    assert scores["recall_yes"].value == 1.0
    assert scores["recall_yes"].lower is None
    assert scores["recall_yes"].replicates == 0
    assert scores["brier"].lower is not None


def test_one_cluster_gives_no_interval() -> None:
    scores = evaluate([0.7, 0.2, 0.6], [1, 0, 1], ["only"] * 3, bootstrap=Bootstrap(100))
    assert scores.n_clusters == 1
    assert all(one.lower is None and one.upper is None and one.replicates == 0 for one in scores.values())


def test_intervals_of_dependent_forecasts_are_wider_than_independence_would_say() -> None:
    generator = np.random.default_rng(11)
    y = np.repeat(generator.random(40) < 0.5, 10)
    p = np.repeat(generator.random(40), 10)
    by_series = evaluate(p, y, np.repeat(np.arange(40), 10), bootstrap=Bootstrap(1_000))["brier"]
    as_independent = evaluate(p, y, np.arange(400), bootstrap=Bootstrap(1_000))["brier"]
    assert by_series.upper - by_series.lower > 2 * (as_independent.upper - as_independent.lower)  # type: ignore[operator]


@pytest.mark.slow
def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(7)
    truth, held, trials = 1 / 6, 0, 200
    for _ in range(trials):
        p = generator.random(120)
        interval = evaluate(p, generator.random(120) < p, np.arange(120), bootstrap=Bootstrap(400))["brier"]
        held += interval.lower <= truth <= interval.upper  # type: ignore[operator]
    assert 0.90 <= held / trials <= 0.99


@pytest.mark.parametrize("arguments", [{"replicates": -1}, {"level": 1.0}, {"level": 0.0}])
def test_a_plan_that_makes_no_sense_is_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ScoringError, match="bootstrap"):
        Bootstrap(**arguments)  # type: ignore[arg-type]


def test_a_corrected_interval_beside_the_value_is_withheld() -> None:
    """Nearly all replicates above the value: Efron's correction points below it, where only the few others are."""
    replicates = np.append(np.full(30, 0.9), np.linspace(1.1, 2.0, 9_970))
    without = np.linspace(0.99, 1.01, 50)
    plan = Bootstrap()
    assert all(np.isnan(bca_interval(1.0, replicates, without, plan)))
    lower, upper = bca_interval(1.0, np.append(np.full(400, 0.9), np.linspace(1.1, 2.0, 9_600)), without, plan)
    assert lower <= 1.0 <= upper


@given(st.integers(0, 2**32), st.integers(4, 40))
@settings(max_examples=25)
def test_every_corrected_interval_contains_its_value(seed: int, n: int) -> None:
    generator = np.random.default_rng(seed)
    p = generator.choice([0.0, 0.1, 0.3, 0.6, 0.9, 1.0], n)
    y = generator.random(n) < p
    for name, one in evaluate(p, y, clusters=range(n), bootstrap=Bootstrap(200, seed)).items():
        if one.bca_lower is not None:
            assert one.bca_lower - 1e-6 <= one.value <= one.bca_upper + 1e-6, name
