"""Paired comparisons against statsmodels, scipy and arch, and what happens where there is nothing to compare."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.special import expit, logit
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of
from statsmodels.stats.multitest import multipletests

from bellwether.calibration import Bootstrap, compare, evaluate
from bellwether.calibration.comparison import p_text
from bellwether.calibration.comparison_pairs import CONSTANT, IDENTICAL, NO_COMMON, ONE_CLUSTER, holm
from bellwether.errors import ScoringError

N = 120
TESTS = ("lower", "upper", "standard_error", "t", "p_cluster", "p_sign_flip", "p_holm", "p_mcnemar")


def sample(seed: int = 7, models: int = 5, clusters: int = 40) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Forecasters of decreasing skill on questions whose clusters share a shock."""
    generator = np.random.default_rng(seed)
    cluster = generator.integers(0, clusters, N)
    truth = expit(generator.normal(0, 1, N) + generator.normal(0, 1, clusters)[cluster])
    y = (generator.random(N) < truth).astype(float)
    forecasts = {f"m{index}": expit((1 + 0.3 * index) * logit(truth) + generator.normal(0, 0.3 * index, N)) for index in range(models)}
    return forecasts, y, cluster


def pair(frame: pl.DataFrame, one: str = "a", other: str = "b") -> dict[str, Any]:
    return frame.filter(forecaster=one, other=other).row(0, named=True)


def test_every_pair_has_a_row_and_every_forecaster_a_place() -> None:
    forecasts, y, cluster = sample()
    found = compare(forecasts, y, cluster, replicates=200, permutations=200)
    assert found.pairs.select("forecaster", "other").rows() == list(itertools.combinations(forecasts, 2))
    assert sorted(found.ranking["forecaster"]) == sorted(forecasts)
    assert found.ranking["loss"].is_sorted()
    assert found.pairs.null_count().sum_horizontal().item() == found.pairs.height  # undefined_because alone


def test_differences_and_errors_are_those_of_a_clustered_regression_on_a_constant() -> None:
    forecasts, y, cluster = sample()
    for row in compare(forecasts, y, cluster, replicates=0, permutations=0).pairs.iter_rows(named=True):
        difference = (forecasts[row["forecaster"]] - y) ** 2 - (forecasts[row["other"]] - y) ** 2
        fit = OLS(difference, np.ones(N)).fit(cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True)
        assert row["difference"] == pytest.approx(fit.params[0], rel=1e-12)
        assert row["standard_error"] == pytest.approx(fit.bse[0], rel=1e-12)
        assert row["t"] == pytest.approx(fit.tvalues[0], rel=1e-12)
        assert row["p_cluster"] == pytest.approx(fit.pvalues[0], rel=1e-9)


def test_few_clusters_are_permuted_exactly_as_scipy_does() -> None:
    forecasts, y, cluster = sample(clusters=10)
    for row in compare(forecasts, y, cluster, replicates=0, permutations=2000).pairs.iter_rows(named=True):
        difference = (forecasts[row["forecaster"]] - y) ** 2 - (forecasts[row["other"]] - y) ** 2
        totals = np.bincount(cluster, difference)
        theirs = stats.permutation_test((totals,), np.sum, permutation_type="samples", n_resamples=np.inf)
        assert row["p_sign_flip"] == pytest.approx(theirs.pvalue, abs=1e-12)


def test_many_clusters_are_permuted_at_random_near_the_t_test() -> None:
    forecasts, y, cluster = sample()
    pairs = compare(forecasts, y, cluster, replicates=0, permutations=20_000).pairs
    totals = np.bincount(cluster, (forecasts["m0"] - y) ** 2 - (forecasts["m1"] - y) ** 2)
    theirs = stats.permutation_test((totals,), np.sum, permutation_type="samples", n_resamples=20_000, rng=1)
    assert pair(pairs, "m0", "m1")["p_sign_flip"] == pytest.approx(theirs.pvalue, abs=0.02)
    assert (pairs["p_sign_flip"] - pairs["p_cluster"]).abs().max() < 0.05


def test_a_permutation_p_is_never_zero() -> None:
    generator = np.random.default_rng(1)
    y = (generator.random(400) < 0.5).astype(float)
    row = pair(compare({"a": np.abs(y - 0.05), "b": np.abs(y - generator.uniform(0.8, 0.9, 400))}, y, range(400), permutations=99).pairs)
    assert row["p_sign_flip"] == pytest.approx(1 / 100)
    assert 0 < row["p_cluster"] < 1e-20


@pytest.mark.parametrize("size", [1, 2, 7, 66])
def test_holm_is_that_of_statsmodels(size: int) -> None:
    p = np.random.default_rng(size).random(size).round(1) ** 4
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], rel=1e-12)


def test_holm_corrects_only_for_the_tests_that_were_made() -> None:
    assert holm(np.array([0.01, np.nan, 0.04])) == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)


def test_the_correction_covers_all_pairs_of_the_family() -> None:
    pairs = compare(*sample(), replicates=0, permutations=0).pairs
    assert pairs["p_holm"].to_numpy() == pytest.approx(multipletests(pairs["p_cluster"], method="holm")[1])


def test_decisions_are_compared_by_the_exact_mcnemar_test() -> None:
    forecasts, y, cluster = sample(models=2)
    answers = {"m1": ["yes" if p > 0.7 else "no" for p in forecasts["m1"]]}
    row = pair(compare(forecasts, y, cluster, answers=answers, replicates=0, permutations=0).pairs, "m0", "m1")
    first = (forecasts["m0"] >= 0.5) == y
    second = np.array([answer == "yes" for answer in answers["m1"]]) == y
    table = [[np.sum(first & second), np.sum(first & ~second)], [np.sum(~first & second), np.sum(~first & ~second)]]
    assert row["p_mcnemar"] == pytest.approx(mcnemar_of(table, exact=True).pvalue)


def test_the_bootstrap_draws_are_those_of_the_intervals_of_a_score() -> None:
    forecasts, y, cluster = sample(models=1)
    row = pair(compare({"a": forecasts["m0"], "b": y}, y, cluster, replicates=500, seed=3).pairs)
    brier = evaluate(forecasts["m0"], y, cluster, bootstrap=Bootstrap(500, seed=3))["brier"]
    assert (row["lower"], row["upper"]) == pytest.approx((brier.lower, brier.upper), rel=1e-12)


def test_pairs_are_compared_on_the_questions_that_both_answered() -> None:
    forecasts, y, cluster = sample(models=3)
    some = np.arange(N) % 3 != 0
    gappy = {**forecasts, "m1": np.where(some, forecasts["m1"], np.nan)}
    whole, part = compare(gappy, y, cluster).pairs, compare({k: v[some] for k, v in forecasts.items()}, y[some], cluster[some]).pairs
    assert pair(whole, "m0", "m1")["n"] == some.sum()
    for column in ("n_clusters", "difference", "standard_error", "p_cluster", "p_mcnemar"):
        assert pair(whole, "m0", "m1")[column] == pytest.approx(pair(part, "m0", "m1")[column], rel=1e-12)
    assert pair(whole, "m0", "m2")["n"] == N


def test_who_else_is_compared_changes_no_bit_of_a_pair() -> None:
    forecasts, y, cluster = sample()
    family = compare(forecasts, y, cluster, replicates=300, permutations=300).pairs
    alone = compare({name: forecasts[name] for name in ("m1", "m4")}, y, cluster, replicates=300, permutations=300).pairs
    columns = [name for name in family.columns if name != "p_holm"]
    assert family.filter(forecaster="m1", other="m4").select(columns).equals(alone.select(columns))


def test_the_log_loss_can_be_compared_instead() -> None:
    forecasts, y, cluster = sample(models=2)
    row = pair(compare(forecasts, y, cluster, loss="log_loss", replicates=0, permutations=0).pairs, "m0", "m1")
    first, second = (evaluate(forecasts[name], y)["log_loss"].value for name in ("m0", "m1"))
    assert first is not None
    assert second is not None
    assert row["difference"] == pytest.approx(first - second)


Y = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
P = np.array([0.9, 0.2, 0.6, 0.4, 0.3, 0.5])
NOWHERE = np.full(6, np.nan)


@pytest.mark.parametrize(
    ("a", "b", "y", "clusters", "reason"),
    [
        (P, P, Y, range(6), IDENTICAL),
        (P, 1 - P, Y, [0] * 6, ONE_CLUSTER),
        (P, P, Y, [0] * 6, IDENTICAL),
        (P, NOWHERE, Y, range(6), NO_COMMON),
        (np.where(Y == 1, P, np.nan), np.where(Y == 0, P, np.nan), Y, range(6), NO_COMMON),
        (np.full(6, 0.1), np.full(6, 0.2), np.zeros(6), range(6), CONSTANT),
        (np.full(6, 0.1), np.full(6, 0.3), np.zeros(6), [0, 0, 0, 1, 2, 2], CONSTANT),
    ],
)
def test_without_variation_there_is_a_reason_and_no_p(a: np.ndarray, b: np.ndarray, y: np.ndarray, clusters: Any, reason: str) -> None:
    found = compare({"a": a, "b": b}, y, clusters, replicates=100, permutations=100)
    row = pair(found.pairs)
    assert row["undefined_because"] == reason
    assert [row[name] for name in TESTS] == [None] * len(TESTS)
    assert len(set(found.ranking["group"].drop_nulls())) <= 1


def test_identical_forecasters_share_everything() -> None:
    ranking = compare({"a": P, "b": P, "c": 1 - P}, Y, range(6), replicates=500).ranking
    first, second = ranking.filter(pl.col("forecaster").is_in(["a", "b"])).drop("forecaster").rows()
    assert first == second
    assert first[ranking.columns.index("share_first") - 1] == pytest.approx(0.5, abs=0.05)


def test_a_forecaster_without_a_forecast_is_listed_without_a_place() -> None:
    ranking = compare({"silent": NOWHERE, "a": P, "b": 1 - P}, Y, range(6), replicates=50).ranking
    assert ranking.row(-1, named=True) == {
        "forecaster": "silent",
        "n": 0,
        "loss": None,
        "share_first": None,
        "mcs_p": None,
        "in_mcs": None,
        "group": None,
    }


@pytest.mark.parametrize("forecasts", [{}, {"a": P}])
def test_nobody_or_one_makes_no_pair(forecasts: Mapping[str, np.ndarray]) -> None:
    found = compare(forecasts, Y, range(6), replicates=10)
    assert found.pairs.height == 0
    assert found.ranking.height == len(forecasts)
    assert found.ranking["mcs_p"].null_count() == len(forecasts)


def test_no_question_makes_rows_that_say_so() -> None:
    assert pair(compare({"a": [], "b": []}, [], []).pairs)["undefined_because"] == NO_COMMON


def test_without_replicates_and_permutations_only_the_exact_tests_remain() -> None:
    found = compare(*sample(), replicates=0, permutations=0)
    assert found.pairs.select("lower", "upper", "p_sign_flip").null_count().row(0) == (10, 10, 10)
    assert found.pairs["p_holm"].null_count() == 0
    assert found.ranking.select("share_first", "mcs_p").null_count().row(0) == (5, 5)


@pytest.mark.parametrize(
    ("forecasts", "y", "clusters", "message"),
    [
        ({"a": [0.5, 1.5]}, [0, 1], [0, 1], r"'a'.*1\.5.*index 1"),
        ({"a": [0.5]}, [0, 1], [0, 1], "'a'.*1 forecasts and 2 outcomes"),
        ({"a": ["x", "y"]}, [0, 1], [0, 1], "'a'"),
        ({"a": [0.5, 0.5]}, [0, 2], [0, 1], "column y.*2"),
        ({"a": [0.5, 0.5]}, [0, math.nan], [0, 1], "column y.*nan"),
        ({"a": [0.5, 0.5]}, [0, 1], [0], "clusters"),
        ({"a": [0.5, 0.5]}, [0, 1], [0, None], "clusters.*None"),
        ({"a": [0.5, 0.5]}, [0, 1], [0, math.nan], "clusters holds nan at index 1"),
        ([[0.5, 0.5]], [0, 1], [0, 1], "a list; give a dictionary"),
        (pl.DataFrame({"a": [0.5, 0.5]}), [0, 1], [0, 1], "a DataFrame; give a dictionary"),
    ],
)
def test_what_cannot_be_compared_is_named(forecasts: Any, y: Any, clusters: Any, message: str) -> None:
    with pytest.raises(ScoringError, match=message):
        compare(forecasts, y, clusters)


def test_answers_of_nobody_compared_are_named() -> None:
    with pytest.raises(ScoringError, match="answers are given of b, without forecasts"):
        compare({"a": [0.5, 0.5]}, [0, 1], [0, 1], answers={"b": ["yes", "no"]})


def test_a_p_value_is_never_shown_as_zero() -> None:
    assert [p_text(p) for p in (0.0, 9.999e-5, 1e-4, 1.0)] == ["< 0.0001", "< 0.0001", "0.0001", "1.0000"]
    assert p_text(0.0004, 3) == "< 0.001"


def test_an_unknown_loss_is_named() -> None:
    with pytest.raises(ScoringError, match=r"accuracy.*brier"):
        compare({"a": P}, Y, range(6), loss="accuracy")


def test_the_tests_keep_their_level_where_nobody_is_better() -> None:
    generator = np.random.default_rng(11)
    found = []
    for _ in range(300):
        cluster = generator.integers(0, 40, N)
        truth = expit(generator.normal(0, 1, N) + generator.normal(0, 1, 40)[cluster])
        y = (generator.random(N) < truth).astype(float)
        noisy = [expit(logit(truth) + generator.normal(0, 0.5, 40)[cluster] + generator.normal(0, 0.3, N)) for _ in range(2)]
        row = pair(compare({"a": noisy[0], "b": noisy[1]}, y, cluster, replicates=0, permutations=500).pairs)
        found.append((row["p_cluster"] <= 0.05, row["p_sign_flip"] <= 0.05))
    assert (np.mean(found, axis=0) < 0.09).all()
