"""Intervals and p-values of the Bayesian bootstrap: exact cases, second computations, missing intervals, and coverage."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from bellwether.calibration import METRICS, compare, evaluate, reliability_bins
from bellwether.calibration.metrics import AGAINST_MARKET, NO_INTERVAL
from benchmarks import intervals


def clustered(seed: int = 1, clusters: int = 30, largest: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw forecasts, outcomes, clusters of unequal size and market prices."""
    generator = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), generator.integers(1, largest + 1, clusters))
    p = generator.random(len(cluster))
    y = (generator.random(len(cluster)) < p).astype(float)
    return p, y, cluster, np.clip(p + generator.normal(0, 0.1, len(cluster)), 0, 1)


@pytest.mark.parametrize(("right", "clusters"), [(7, 7), (5, 12), (0, 30), (60, 61)])
def test_the_interval_of_a_rate_over_independent_forecasts_is_that_of_two_beta_distributions(right: int, clusters: int) -> None:
    """Sums of exponential weights are gamma variables, and the pseudo-cluster adds one half to the wrong or to the right decisions."""
    from scipy import stats

    accuracy = evaluate([0.9] * clusters, [1] * right + [0] * (clusters - right), range(clusters), replicates=0)["accuracy"]
    wrong = clusters - right
    lower = stats.beta(right, wrong + 0.5).ppf(0.025) if right else 0.0
    upper = stats.beta(right + 0.5, wrong).ppf(0.975) if wrong else 1.0
    assert (accuracy.lower, accuracy.upper) == pytest.approx((lower, upper), abs=0.015)


def second_interval(
    numerator: Callable[[np.ndarray], np.ndarray],
    denominator: Callable[[np.ndarray], np.ndarray],
    y: np.ndarray,
    cluster: np.ndarray,
    *,
    relative: bool = False,
) -> tuple[float, float]:
    """Compute the 95 % interval of a ratio of sums from the definition, one cluster at a time, with other random numbers.

    relative: whether the ratio is a skill, whose possible change is that of the numerator.
    """
    generator = np.random.default_rng(99)
    value = numerator(y).sum() / denominator(y).sum()
    ends = []
    for sign, level in ((-1, 0.025), (1, 0.975)):
        no, yes = (sign * (numerator(np.full(len(y), one)) - value * denominator(np.full(len(y), one))) for one in (0.0, 1.0))
        outcome = (yes > no).astype(float)
        change = np.abs(numerator(np.ones(len(y))) - numerator(np.zeros(len(y)))) if relative else np.abs(yes - no)
        pseudo, over, under = generator.gamma(0.5, size=20_000), np.zeros(20_000), np.zeros(20_000)
        for name in np.unique(cluster):
            weight, share = generator.exponential(size=20_000), change[cluster == name].sum() / change.sum()
            over += pseudo * share * numerator(outcome)[cluster == name].sum()
            under += pseudo * share * denominator(outcome)[cluster == name].sum()
            over += weight * numerator(y)[cluster == name].sum()
            under += weight * denominator(y)[cluster == name].sum()
        ends.append(float(np.quantile(over / under, level)))
    return ends[0], ends[1]


@pytest.mark.parametrize("clusters", [4, 30])
def test_intervals_are_those_of_a_second_computation(clusters: int) -> None:
    p, y, cluster, market = clustered(clusters=clusters)
    scores = evaluate(p, y, cluster, market=market, replicates=0)
    said = p >= 0.5
    expected = {
        "brier": second_interval(lambda o: (p - o) ** 2, np.ones_like, y, cluster),
        "log_loss": second_interval(lambda o: -np.log(np.where(o == 1, p, 1 - p)), np.ones_like, y, cluster),
        "precision_yes": second_interval(lambda o: o * said, lambda _: said.astype(float), y, cluster),
        "recall_yes": second_interval(lambda o: o * said, lambda o: o, y, cluster),
        "f1_no": second_interval(lambda o: 2 * (1 - o) * ~said, lambda o: 1 - o + ~said, y, cluster),
    }
    expected["skill_vs_market"] = second_interval(
        lambda o: (market - o) ** 2 - (p - o) ** 2, lambda o: (market - o) ** 2, y, cluster, relative=True
    )
    for name, (lower, upper) in expected.items():
        width = upper - lower
        assert (scores[name].lower, scores[name].upper) == pytest.approx((lower, upper), abs=0.06 * width), name


def test_the_interval_of_a_difference_is_that_of_a_second_computation() -> None:
    p, y, cluster, market = clustered()
    row = compare({"a": p, "b": market}, y, cluster).pairs.row(0, named=True)
    lower, upper = second_interval(lambda o: (p - o) ** 2 - (market - o) ** 2, np.ones_like, y, cluster)
    assert (row["lower"], row["upper"]) == pytest.approx((lower, upper), abs=0.06 * (upper - lower))


def test_weights_are_repetitions() -> None:
    p, y, cluster, _ = clustered()
    weight = np.random.default_rng(3).integers(1, 4, len(p))
    repeated = evaluate(np.repeat(p, weight), np.repeat(y, weight), np.repeat(cluster, weight), replicates=0)["brier"]
    weighted = evaluate(p, y, cluster, weights=weight, replicates=0)["brier"]
    assert (weighted.lower, weighted.upper) == pytest.approx((repeated.lower, repeated.upper), rel=1e-6)


def test_the_order_of_the_forecasts_changes_no_bit() -> None:
    p, y, cluster, market = clustered()
    order = np.random.default_rng(5).permutation(len(p))
    first = evaluate(p, y, cluster, market=market, replicates=0)
    second = evaluate(p[order], y[order], cluster[order], market=market[order], replicates=0)
    for name in first:
        assert (first[name].lower, first[name].upper) == (second[name].lower, second[name].upper), name


def test_one_more_good_forecast_narrows_the_interval_a_little() -> None:
    widths = []
    for size in range(3, 15):
        brier = evaluate(np.linspace(0.8, 0.99, size), [1] * size, range(size), replicates=0)["brier"]
        assert brier.lower is not None and brier.upper is not None
        # A single surprise among as many questions again is not excluded.
        assert brier.upper > 0.5 / size
        widths.append(brier.upper - brier.lower)
    assert all(2 / 3 < after / before < 1.02 for before, after in pairwise(widths))


def test_no_interval_leaves_the_range_of_its_metric() -> None:
    unbounded = ("log_loss", "brier_skill", "skill_vs_half", *AGAINST_MARKET)
    names = [name for name in METRICS if name not in NO_INTERVAL and name not in unbounded]
    counted = dict.fromkeys(names, 0)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        cluster, p = np.arange(24) % rng.integers(4, 9), rng.uniform(0, 1, 24).round(2)
        scores = evaluate(p, (rng.uniform(0, 1, 24) < p) ^ (seed % 3 == 0), cluster, replicates=0)
        for name in names:
            estimate = scores[name]
            if estimate.lower is not None and estimate.upper is not None and estimate.value is not None:
                counted[name] += 1
                assert 0 <= estimate.lower <= estimate.value <= estimate.upper <= 1, (name, seed)
    assert min(counted.values()) >= 20


@pytest.mark.parametrize(
    ("clusters", "metric", "reason"),
    [
        (None, "brier", "no clusters were given"),
        ([0] * 12, "brier", "1 cluster; an interval needs 3"),
        ([0, 1] * 6, "brier", "2 clusters; an interval needs 3"),
        (([0, 1] * 6, range(12)), "brier", "2 clusters; an interval needs 3"),
        (range(12), "recall_yes", "2 clusters; an interval needs 3"),
        (range(12), "skill_vs_market", "undefined on these forecasts"),
        (range(12), "brier_skill", "the rarer outcome is in 2 clusters; an interval needs 3"),
        (range(12), "roc_auc", "no interval with a known coverage"),
        (range(12), "ece", NO_INTERVAL["ece"]),
        (range(12), "coverage", "counts what was asked; it is known exactly"),
    ],
)
def test_a_missing_interval_has_a_reason(clusters: object, metric: str, reason: str) -> None:
    one = evaluate(np.linspace(0.05, 0.9, 12), [1, 1] + [0] * 10, clusters, replicates=0)[metric]
    assert (one.lower, one.upper, one.reason) == (None, None, reason)


def test_a_score_that_no_outcome_changes_has_no_interval() -> None:
    scores = evaluate([0.5] * 300, [0, 1, 1] * 100, range(300), replicates=0)
    for name, value in (("brier", 0.25), ("log_loss", np.log(2)), ("skill_vs_half", 0.0)):
        assert (scores[name].value, scores[name].lower, scores[name].reason) == (pytest.approx(value), None, "no outcome changes it"), name


def test_fractional_outcomes_may_equal_the_forecasts() -> None:
    p = np.linspace(0.2, 0.8, 10)
    brier = evaluate(p, p, range(10), replicates=0)["brier"]
    assert brier.lower == brier.value == 0.0
    assert brier.upper is not None and brier.upper > 0.05


def test_more_clusters_than_are_drawn_have_the_interval_of_a_normal_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether.calibration.bootstrap._CELLS", 2_500)
    generator = np.random.default_rng(8)
    p = generator.random(3_000)
    y = (generator.random(3_000) < p).astype(float)
    brier, loss = evaluate(p, y, range(3_000), replicates=0)["brier"], (p - y) ** 2
    reach = 1.96 * loss.std() / np.sqrt(len(loss))
    assert (brier.lower, brier.upper) == pytest.approx((loss.mean() - reach, loss.mean() + reach), abs=0.1 * reach)


@pytest.mark.parametrize("rounded", [False, True])
def test_a_few_forecasts_that_differ_from_the_price_are_no_evidence_however_many_copy_it(rounded: bool) -> None:
    """The forecasts that differ were right, as by chance; 57 copies add nothing, be they exact or rounded to cents."""
    generator = np.random.default_rng(6)
    price = generator.uniform(0.055, 0.945, 60)
    y = (generator.random(60) < price).astype(float)
    for differing in (1, 2, 3):
        p = price.round(2) if rounded else price.copy()
        p[:differing] += np.where(y[:differing] == 1, 0.04, -0.04)
        skill = evaluate(p, y, range(60), market=price, replicates=0)["skill_vs_market"]
        pair = compare({"a": p, "price": price}, y, range(60)).pairs.row(0, named=True)
        if not rounded and differing < 3:
            reason = f"{differing} cluster{'s'[: differing - 1]}; an interval needs 3"
            assert (skill.lower, skill.reason, pair["p"], pair["reason"]) == (None, reason, None, reason)
        else:
            assert skill.lower is not None and skill.upper is not None
            assert skill.lower < 0 < skill.upper
            assert pair["p"] > 0.05


@pytest.mark.nightly
@pytest.mark.parametrize("versus", ["ratio", "difference"])
@pytest.mark.parametrize("truth", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("rounded", [False, True])
def test_intervals_of_copies_contain_the_truth_as_often_as_they_state(rounded: bool, truth: float, versus: str) -> None:
    for differing in (1, 3, 4, 5, 10):
        coverage = intervals.measure_copies(intervals.Copies(60, rounded, truth, versus), differing, sets=400)
        assert np.isnan(coverage) if differing < 3 and not rounded else coverage >= 0.93 - 2 * np.sqrt(0.93 * 0.07 / 400), differing


@pytest.mark.nightly
@pytest.mark.parametrize("world", ["ordinary", "favourites", "two copies that differ rarely"])
def test_intervals_contain_the_truth_as_often_as_they_state(world: str) -> None:
    for clusters in (3, 12):
        cell = intervals.measure(intervals.WORLDS[world], clusters, sets=300, seed=1)
        assert cell.coverage >= 0.93 - 2 * np.sqrt(0.93 * 0.07 / 300), (world, clusters)
        assert cell.false_positives is None or cell.false_positives <= 0.06 + 2 * np.sqrt(0.06 * 0.94 / 300), (world, clusters)


def test_intervals_of_independent_forecasts_are_those_of_two_beta_distributions() -> None:
    from scipy.stats import beta

    generator = np.random.default_rng(2)
    p = generator.random(400)
    bins = reliability_bins(p, generator.random(400) < p, range(400))
    for row in bins.iter_rows(named=True):
        yes = round(row["yes_rate"] * row["n"])
        no = row["n"] - yes
        assert row["yes_rate_lower"] == pytest.approx(beta(yes, no + 0.5).ppf(0.025) if yes else 0.0, abs=0.01)
        assert row["yes_rate_upper"] == pytest.approx(beta(yes + 0.5, no).ppf(0.975) if no else 1.0, abs=0.01)
        assert row["n_clusters"] == row["n"]


def test_a_bin_without_an_interval_says_why() -> None:
    frame = reliability_bins([0.05, 0.06, 0.95, 0.95, 0.95], [0, 1, 1, 1, 0], ["a", "b", "a", "b", "c"])
    reasons = dict(frame.select("bin", "reason").rows())
    assert reasons == dict.fromkeys(range(10), "no forecast in the bin") | {0: "2 clusters; an interval needs 3", 9: None}
    assert reliability_bins([0.5], [1])["reason"][5] == "no clusters were given"


@pytest.mark.nightly
def test_intervals_of_bins_contain_the_truth() -> None:
    from scipy.special import ndtri

    generator, inside = np.random.default_rng(4), []
    for _ in range(200):
        cluster = np.repeat(np.arange(60), 5)
        p = generator.random(300)
        shock = np.sqrt(0.5) * generator.standard_normal(60)[cluster]
        y = shock + np.sqrt(0.5) * generator.standard_normal(300) < ndtri(p)
        for row in reliability_bins(p, y, cluster).drop_nulls("yes_rate_lower").iter_rows(named=True):
            inside.append(row["yes_rate_lower"] <= (row["lower_edge"] + row["upper_edge"]) / 2 <= row["yes_rate_upper"])
    assert 0.93 <= np.mean(inside) <= 0.985


def test_empty_bins_are_present_with_nulls() -> None:
    bins = reliability_bins([0.05, 0.95], [0, 1])
    assert bins["bin"].to_list() == list(range(10))
    empty = bins.filter(pl.col("n") == 0)
    assert empty.height == 8
    for column in ("mean_forecast", "yes_rate", "gap", "yes_rate_lower", "yes_rate_upper"):
        assert empty[column].null_count() == 8


def test_certainty_is_in_the_last_bin() -> None:
    assert reliability_bins([1.0, 1.0], [1, 0])["n"].to_list() == [0] * 9 + [2]


def test_ends_and_p_values_are_order_statistics_of_the_documented_draws() -> None:
    """Each of 4,000 draws weights clusters by standard exponential variables, and a typical cluster with its extreme outcomes by Gamma(1/2)."""
    p, q, y = np.linspace(0.1, 0.85, 12), np.full(12, 0.4), np.array([0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1.0])
    draws = []
    for block in range(20):
        weights, pseudo = (np.random.Generator(np.random.PCG64([7, stream, block])) for stream in (0, 1))
        draws.append((np.rint(weights.standard_exponential((200, 12)) * 4096) / 4096, pseudo.standard_gamma(0.5, 200)))

    def sorted_draws(loss: np.ndarray, extreme: np.ndarray) -> np.ndarray:
        typical = np.average(extreme, weights=np.abs(at_yes - at_no))
        return np.sort(np.concatenate([(w @ loss + typical * g) / (w.sum(axis=1) + g) for w, g in draws]))

    at_yes, at_no = (p - 1) ** 2, p**2
    lows, highs = (sorted_draws((p - y) ** 2, extreme) for extreme in (np.minimum(at_yes, at_no), np.maximum(at_yes, at_no)))
    for level, rank in ((0.95, 100), (0.9, 200), (0.5, 1000)):
        brier = evaluate(p, y, range(12), level=level, seed=7, replicates=0)["brier"]
        assert (brier.lower, brier.upper) == pytest.approx((lows[rank - 1], highs[-rank]), abs=1e-9), level

    at_yes, at_no = (p - 1) ** 2 - (q - 1) ** 2, p**2 - q**2
    difference = (p - y) ** 2 - (q - y) ** 2
    lows, highs = (sorted_draws(difference, extreme) for extreme in (np.minimum(at_yes, at_no), np.maximum(at_yes, at_no)))
    row = compare({"p": p, "q": q}, y, range(12), seed=7).pairs.row(0, named=True)
    beyond = min((lows <= 0).sum(), (highs >= 0).sum())
    assert row["p"] == pytest.approx(min(2 * (beyond + 1) / 4001, 1))
    assert (row["lower"], row["upper"]) == pytest.approx((lows[99], highs[-100]), abs=1e-9)
