"""Intervals: agreement with second implementations, missing intervals, and coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit
from scipy.stats import binomtest

from bellwether.calibration import METRICS, evaluate
from bellwether.calibration.intervals import RARE, UNVARIED_SCORE, wilson
from bellwether.calibration.metrics import TESTED
from benchmarks import coverage


def clustered(seed: int = 1, clusters: int = 30, size: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), size)
    p = generator.random(len(cluster))
    return p, (generator.random(len(cluster)) < p).astype(float), cluster


def test_the_interval_of_a_brier_score_is_students_t_on_the_logit_scale() -> None:
    p, y, cluster = clustered()
    brier = evaluate(p, y, cluster, replicates=0)["brier"]
    loss = np.square(p - y)
    without = np.array([loss[cluster != index].mean() for index in range(30)])
    error = np.sqrt(np.square(logit(without) - logit(loss.mean())).sum())
    reach = stats.t.ppf(0.975, 29) * error
    assert (brier.lower, brier.upper) == pytest.approx((expit(logit(loss.mean()) - reach), expit(logit(loss.mean()) + reach)))
    assert (brier.method, brier.df, brier.reason) == ("jackknife t, logit", pytest.approx(29), None)


def test_the_interval_of_a_skill_is_students_t_of_the_logarithm_of_the_ratio() -> None:
    p, y, cluster = clustered()
    market = np.clip(p + 0.1, 0, 1)
    skill = evaluate(p, y, cluster, market=market, replicates=0)["skill_vs_market"]

    def ratio(rows: np.ndarray) -> float:
        return float(np.log(np.square(p - y)[rows].sum() / np.square(market - y)[rows].sum()))

    whole = ratio(cluster >= 0)
    error = np.sqrt(sum((ratio(cluster != index) - whole) ** 2 for index in range(30)))
    reach = stats.t.ppf(0.975, 29) * error
    assert (skill.lower, skill.upper) == pytest.approx((1 - math.exp(whole + reach), 1 - math.exp(whole - reach)))


def test_wilson_intervals_agree_with_scipy() -> None:
    for successes, trials in ((0, 1), (1, 1), (0, 7), (3, 7), (19, 300), (300, 300)):
        expected = binomtest(successes, trials).proportion_ci(method="wilson")
        lower, upper = wilson(np.asarray(successes / trials), np.asarray(float(trials)), stats.norm.ppf(0.975))
        assert (lower, upper) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_interval_of_a_rate_over_independent_forecasts_is_wilsons_with_students_quantile() -> None:
    y = np.arange(50) < 20
    rate = evaluate(np.full(50, 0.5), y, range(50), replicates=0)["base_rate"]
    # The effective number of independent forecasts is their number minus one.
    expected = wilson(np.asarray(0.4), np.asarray(49.0), stats.t.ppf(0.975, 49))
    assert (rate.lower, rate.upper) == pytest.approx(expected, abs=1e-3)


def test_a_rate_without_an_exception_has_an_interval_over_clusters() -> None:
    accuracy = evaluate([0.9, 0.8, 0.1] * 10, [1, 1, 0] * 10, np.arange(30) // 3, replicates=0)["accuracy"]
    assert accuracy.upper == 1.0
    assert accuracy.lower == pytest.approx(10 / (10 + stats.t.ppf(0.975, 9) ** 2))


def test_a_function_of_another_metric_takes_over_its_interval() -> None:
    p, y, cluster = clustered()
    scores = evaluate(p, y, cluster, replicates=0)
    brier, rate = scores["brier"], scores["base_rate"]
    assert brier.lower is not None and brier.upper is not None and rate.lower is not None and rate.upper is not None
    assert (scores["skill_vs_half"].lower, scores["skill_vs_half"].upper) == pytest.approx((1 - 4 * brier.upper, 1 - 4 * brier.lower))
    ends = [rate.lower * (1 - rate.lower), rate.upper * (1 - rate.upper)]
    assert scores["uncertainty"].lower == pytest.approx(min(ends))
    assert scores["uncertainty"].upper == pytest.approx(0.25 if rate.lower <= 0.5 <= rate.upper else max(ends))


def test_no_interval_leaves_the_range_of_its_metric() -> None:
    largest = dict.fromkeys(("accuracy", "brier", "f1_yes", "macro_f1", "roc_auc", "base_rate", "yates_bias_squared"), 1.0)
    largest |= dict.fromkeys(("uncertainty", "yates_min_variance", "yates_excess_variance", "yates_covariance"), 0.25)
    intervals = dict.fromkeys(largest, 0)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        cluster = np.arange(24) % rng.integers(4, 9)
        p = rng.uniform(0, 1, 24).round(2)
        scores = evaluate(p, (rng.uniform(0, 1, 24) < p) ^ (seed % 3 == 0), cluster, replicates=0)
        for name, most in largest.items():
            estimate = scores[name]
            if estimate.lower is not None and estimate.upper is not None:
                intervals[name] += 1
                assert 0 <= estimate.lower <= estimate.upper <= most, (name, seed)
    assert min(intervals.values()) >= 20


@pytest.mark.parametrize(
    ("clusters", "metric", "reason"),
    [
        (None, "brier", "no clusters were given"),
        ([0] * 12, "brier", "1 cluster; an interval needs 3"),
        ([0, 1] * 6, "brier", "2 clusters; an interval needs 3"),
        ([0] * 8 + [1, 2, 3, 4], "brier", "one cluster holds 67% of it"),
        (range(12), "ece", "biased upwards"),
        (range(12), "within_bin_variance", "no method"),
        (range(12), "skill_vs_market", "undefined"),
        (range(12), "coverage", "known exactly"),
        ([0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6], "recall_yes", "one cluster holds 100% of it|1 cluster"),
    ],
)
def test_no_interval_has_a_reason(clusters: object, metric: str, reason: str) -> None:
    y = [1] + [0] * 11
    one = evaluate(np.linspace(0.05, 0.9, 12), y, clusters, replicates=0)[metric]
    assert (one.lower, one.upper, one.method, one.df) == (None,) * 4
    assert one.reason is not None
    assert any(part in one.reason for part in reason.split("|"))


@pytest.mark.parametrize("clusters", [3, 300])
def test_forecasts_whose_score_no_outcome_changes_have_an_interval_of_no_width(clusters: int) -> None:
    scores = evaluate([0.5] * 300, [0, 1, 1] * 100, [number % clusters for number in range(300)], replicates=0)
    for name, value in (("brier", 0.25), ("log_loss", np.log(2))):
        assert (scores[name].lower, scores[name].upper) == pytest.approx((value, value)), name
        assert scores[name].method == "constant", name
    assert (scores["skill_vs_half"].lower, scores["skill_vs_half"].upper) == (0.0, 0.0)


def test_few_lucky_clusters_do_not_look_certain() -> None:
    """Five bold forecasts that all came true. Their residuals do not vary, but their outcomes have a variance."""
    one = evaluate([0.97, 0.96, 0.95, 0.97, 0.96], [1] * 5, range(5), replicates=0)["brier"]
    assert one.upper > 0.05  # type: ignore[operator]
    many = evaluate([0.97, 0.96, 0.95, 0.97, 0.96] * 5, [1] * 25, range(25), replicates=0)["brier"]
    assert many.upper < 0.005  # type: ignore[operator]


def test_every_metric_says_how_its_interval_is_made() -> None:
    for name, metric in METRICS.items():
        plan = metric.interval
        assert (plan.scale is not None) + (plan.source is not None) + (plan.reason is not None) == 1, name
    assert all(METRICS[name].interval.reason for name in TESTED)


@pytest.mark.slow
def test_two_way_intervals_cover_the_truth() -> None:
    generator, inside, trials = np.random.default_rng(6), 0, 200
    question, date = np.repeat(np.arange(25), 20), np.tile(np.arange(20), 25)
    for _ in range(trials):
        truth = generator.random(500)
        shock = 0.5 * generator.standard_normal(25)[question] + 0.5 * generator.standard_normal(20)[date]
        y = shock + math.sqrt(0.5) * generator.standard_normal(500) < stats.norm.ppf(truth)
        one = evaluate(truth, y, {"question": question, "date": date}, replicates=0)["brier"]
        inside += one.lower <= 1 / 6 <= one.upper  # type: ignore[operator]
    assert 0.91 <= inside / trials <= 0.995


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "numbers"), [(3, (1, 6)), (8, (3, 9))])
def test_intervals_contain_the_truth_as_often_as_they_say(clusters: int, numbers: tuple[int, int]) -> None:
    sets, designs = 150, [coverage.DESIGNS[number] for number in numbers]
    found = {(design.name, clusters): coverage.cell((design, clusters, sets)) for design in designs}
    assert coverage.misses(found, coverage.HEADLINE, sets) == []


def rare(clusters: int, each: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw overconfident forecasts of events of which 5 % happen."""
    generator = np.random.default_rng(seed)
    truth = np.clip(generator.beta(0.3, 6, clusters * each), 1e-9, 1 - 1e-9)
    y = generator.uniform(size=len(truth)) < truth
    logit = 2 * np.log(truth / (1 - truth)) - 0.3
    return np.clip(1 / (1 + np.exp(-logit)), 0.005, 0.995), y.astype(float), np.repeat(np.arange(clusters), each)


def test_the_skill_over_a_base_rate_that_few_outcomes_tell_has_no_interval() -> None:
    for clusters, each in ((25, 5), (100, 1), (20, 20)):
        p, y, labels = rare(clusters, each, seed=clusters)
        assert 0 < y.sum() < 25
        scores = evaluate(p, y, clusters=labels, replicates=0)
        assert (scores["brier_skill"].lower, scores["brier_skill"].reason) == (None, RARE)
        assert scores["brier"].lower is not None
        mirrored = evaluate(1 - p, 1 - y, clusters=labels, replicates=0)
        assert mirrored["brier_skill"].reason == RARE


def test_with_enough_of_the_rarer_outcome_it_has_one_that_covers() -> None:
    p, y, _ = rare(1, 400_000, seed=0)
    truth = 1 - np.mean((p - y) ** 2) / np.var(y)
    inside = []
    for seed in range(60):
        p, y, labels = rare(200, 5, seed)
        found = evaluate(p, y, clusters=labels, replicates=0)["brier_skill"]
        if found.lower is not None:
            inside.append(found.lower <= truth <= found.upper)
    assert len(inside) > 50
    assert np.mean(inside) > 0.87


def test_the_skill_of_a_score_that_does_not_vary_has_no_interval() -> None:
    y = np.tile([0.0, 1.0], 20)
    for p in (np.where(y == 1, 0.8, 0.2), np.full(40, 0.5)):
        found = evaluate(p, y, clusters=range(40), replicates=0)["brier_skill"]
        assert (found.lower, found.reason) == (None, UNVARIED_SCORE)
