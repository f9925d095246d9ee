"""Paired comparisons, the confidence set of the best, and significance groups, checked against statsmodels, SciPy and arch."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.calibration import compare, evaluate
from bellwether.calibration.comparison import NO_COMMON, holm
from bellwether.calibration.ranking import group_letters, letters

N = 120
TESTS = ("lower", "upper", "p", "p_holm", "p_mcnemar")


def sample(seed: int = 7, models: int = 5, clusters: int = 40) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Draw forecasters of decreasing skill on questions whose clusters share a shock."""
    from scipy.special import expit, logit

    generator = np.random.default_rng(seed)
    cluster = generator.integers(0, clusters, N)
    truth = expit(generator.normal(0, 1, N) + generator.normal(0, 1, clusters)[cluster])
    y = (generator.random(N) < truth).astype(float)
    forecasts = {f"m{index}": expit((1 + 0.3 * index) * logit(truth) + generator.normal(0, 0.3 * index, N)) for index in range(models)}
    return forecasts, y, cluster


def pair(frame: pl.DataFrame, one: str = "a", other: str = "b") -> dict[str, Any]:
    return frame.filter(forecaster=one, other=other).row(0, named=True)


def test_p_is_below_5_percent_exactly_where_the_interval_excludes_0() -> None:
    found = []
    for seed in range(12):
        for row in compare(*sample(seed)).pairs.iter_rows(named=True):
            found.append(row["p"] < 0.05)
            assert found[-1] == (row["lower"] > 0 or row["upper"] < 0), (seed, row)
    assert 10 < sum(found) < 110


@pytest.mark.parametrize("size", [1, 66])
def test_holm_is_that_of_statsmodels(size: int) -> None:
    from statsmodels.stats.multitest import multipletests

    p = np.random.default_rng(size).random(size).round(1) ** 4
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], rel=1e-12)


def test_the_correction_covers_all_pairs_of_the_family() -> None:
    from statsmodels.stats.multitest import multipletests

    pairs = compare(*sample()).pairs
    assert pairs["p_holm"].to_numpy() == pytest.approx(multipletests(pairs["p"], method="holm")[1])


def test_decisions_are_compared_by_the_exact_mcnemar_test() -> None:
    from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of

    forecasts, y, cluster = sample(models=2)
    answers = {"m1": ["yes" if p > 0.7 else "no" for p in forecasts["m1"]]}
    row = pair(compare(forecasts, y, cluster, answers=answers).pairs, "m0", "m1")
    first = (forecasts["m0"] >= 0.5) == y
    second = np.array([answer == "yes" for answer in answers["m1"]]) == y
    table = [[np.sum(first & second), np.sum(first & ~second)], [np.sum(~first & second), np.sum(~first & ~second)]]
    assert row["p_mcnemar"] == pytest.approx(mcnemar_of(table, exact=True).pvalue)


def test_pairs_are_compared_on_the_questions_that_both_answered() -> None:
    forecasts, y, cluster = sample(models=3)
    some = np.arange(N) % 3 != 0
    gappy = {**forecasts, "m1": np.where(some, forecasts["m1"], np.nan)}
    whole, part = (compare(gappy, y, cluster).pairs, compare({k: v[some] for k, v in forecasts.items()}, y[some], cluster[some]).pairs)
    assert pair(whole, "m0", "m1")["n"] == some.sum()
    for column in ("n_clusters", "difference", "p_mcnemar"):
        assert pair(whole, "m0", "m1")[column] == pytest.approx(pair(part, "m0", "m1")[column], rel=1e-12)
    assert pair(whole, "m0", "m2")["n"] == N


def test_who_else_is_compared_changes_no_bit_of_a_pair() -> None:
    forecasts, y, cluster = sample()
    family = compare(forecasts, y, cluster).pairs
    alone = compare({name: forecasts[name] for name in ("m1", "m2")}, y, cluster).pairs
    # Smaller p-values are computed from more draws where there are more pairs.
    assert alone["p"].item() > 0.01
    columns = [name for name in family.columns if name != "p_holm"]
    assert family.filter(forecaster="m1", other="m2").select(columns).equals(alone.select(columns))


def test_the_log_loss_can_be_compared_instead() -> None:
    forecasts, y, cluster = sample(models=2)
    row = pair(compare(forecasts, y, cluster, loss="log_loss").pairs, "m0", "m1")
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
        (P, 1 - P, Y, [0] * 6, "1 cluster; an interval needs 3"),
        (P, np.where(np.arange(6) < 2, 1 - P, P), Y, range(6), "2 clusters; an interval needs 3"),
        (P, NOWHERE, Y, range(6), NO_COMMON),
        (np.where(Y == 1, P, np.nan), np.where(Y == 0, P, np.nan), Y, range(6), NO_COMMON),
    ],
)
def test_without_enough_common_questions_there_is_a_reason_and_no_p(
    a: np.ndarray, b: np.ndarray, y: np.ndarray, clusters: Any, reason: str
) -> None:
    found = compare({"a": a, "b": b}, y, clusters)
    row = pair(found.pairs)
    assert row["reason"] == reason
    assert [row[name] for name in TESTS] == [None] * len(TESTS)
    assert len(set(found.ranking["group"].drop_nulls())) <= 1


def test_a_few_outcomes_that_all_came_the_same_way_do_not_settle_a_difference() -> None:
    """On six outcomes of no, 0.1 scored better than 0.3 each time. A single yes would have cost more than the total difference."""
    row = pair(compare({"a": np.full(6, 0.1), "b": np.full(6, 0.3)}, np.zeros(6), range(6)).pairs)
    assert row["lower"] < 0 < row["upper"]
    assert row["p"] > 0.05


def test_identical_forecasters_share_everything() -> None:
    ranking = compare({"a": P, "b": P, "c": 1 - P}, Y, range(6)).ranking
    first, second = ranking.filter(pl.col("forecaster").is_in(["a", "b"])).drop("forecaster").rows()
    assert first == second
    row = pair(compare({"a": P, "b": P}, Y, range(6)).pairs)
    assert [row[name] for name in ("difference", "lower", "upper", "p", "reason")] == [0.0, None, None, 1.0, "no outcome changes it"]


def test_a_forecaster_without_a_forecast_is_listed_without_a_place() -> None:
    ranking = compare({"silent": NOWHERE, "a": P, "b": 1 - P}, Y, range(6)).ranking
    assert ranking.row(-1, named=True) == {"forecaster": "silent", "n": 0, "loss": None, "mcs_p": None, "in_mcs": None, "group": None}


@pytest.mark.nightly
@pytest.mark.parametrize("clusters", [3, 12])
def test_the_test_keeps_its_level_where_neither_is_better(clusters: int) -> None:
    from scipy.special import expit, logit

    generator, found = np.random.default_rng(clusters), []
    for _ in range(400):
        cluster = np.repeat(np.arange(clusters), 4)
        size = len(cluster)
        truth = expit(generator.normal(0, 1, size) + generator.normal(0, 1, clusters)[cluster])
        y = (generator.random(size) < truth).astype(float)
        noisy = [expit(logit(truth) + generator.normal(0, 0.5, clusters)[cluster] + generator.normal(0, 0.3, size)) for _ in range(2)]
        row = pair(compare({"a": noisy[0], "b": noisy[1]}, y, cluster).pairs)
        found.append(row["p"] <= 0.05)
    assert np.mean(found) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 400)


def losses(seed: int, spread: float, models: int = 6, size: int = 200) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draw losses of forecasters whose error grows from one to the next."""
    generator = np.random.default_rng(seed)
    y = (generator.random(size) < 0.5).astype(float)
    errors = [np.clip(0.3 + spread * index + generator.normal(0, 0.15, size), 0, 1) for index in range(models)]
    return {f"m{index}": np.abs(y - error) for index, error in enumerate(errors)}, y


@pytest.mark.parametrize("seed", range(2))
def test_the_set_leaves_out_exactly_those_that_lose_a_pair_after_correction(seed: int) -> None:
    forecasts, y = losses(seed, 0.02)
    found = compare(forecasts, y, range(len(y)))
    lost = {
        row["forecaster"] if row["difference"] > 0 else row["other"] for row in found.pairs.iter_rows(named=True) if row["p_holm"] <= 0.10
    }
    assert set(found.ranking.filter(~pl.col("in_mcs"))["forecaster"]) == lost


def test_the_set_is_near_that_of_arch_on_independent_questions() -> None:
    """Hansen's bootstrap set is narrower. Both exclude clearly worse forecasters and contain the best."""
    from arch.bootstrap import MCS

    forecasts, y = losses(4, 0.05)
    ours = set(compare(forecasts, y, range(len(y))).ranking.filter("in_mcs")["forecaster"])
    theirs = MCS(np.stack([(p - y) ** 2 for p in forecasts.values()], axis=1), size=0.10, reps=5_000, block_size=1, seed=4)
    theirs.compute()
    narrower = {f"m{index}" for index in theirs.included}
    assert "m0" in narrower <= ours
    assert "m5" not in ours


def test_a_set_without_a_tested_pair_is_withheld() -> None:
    forecasts, y = losses(1, 0.1)
    assert compare(forecasts, y, np.arange(200) // 100).ranking["in_mcs"].null_count() == 6


@pytest.mark.nightly
@pytest.mark.parametrize(("clusters", "kind"), [(3, "overconfident and timid"), (8, "equally noisy")])
def test_the_set_holds_all_equally_good_forecasters_as_often_as_it_says(clusters: int, kind: str) -> None:
    from scipy.special import expit, logit, ndtri

    generator = np.random.default_rng(clusters)
    held = []
    for _ in range(250):
        cluster = np.repeat(np.arange(clusters), 5)
        truth = generator.random(5 * clusters)
        shock = np.sqrt(0.5) * generator.standard_normal(clusters)[cluster]
        y = (shock + np.sqrt(0.5) * generator.standard_normal(5 * clusters) < ndtri(truth)).astype(float)
        odds = logit(np.clip(truth, 1e-6, 1 - 1e-6))
        # For uniform probabilities, doubling and halving the odds have the same Brier score.
        scales = [1.0] * 5 if kind == "equally noisy" else [2.0, 0.5, 2.0, 0.5]
        noise = 1.0 if kind == "equally noisy" else 0.05
        forecasts = {f"m{index}": expit(scale * odds + generator.normal(0, noise, len(y))) for index, scale in enumerate(scales)}
        held.append(compare(forecasts, y, cluster).ranking["in_mcs"].all())
    assert np.mean(held) >= 0.90 - 2 * np.sqrt(0.09 / 250)


@st.composite
def relations(draw: st.DrawFn) -> tuple[list[int], np.ndarray]:
    size = draw(st.integers(1, 8))
    differ = np.zeros((size, size), dtype=bool)
    for one, other in combinations(range(size), 2):
        differ[one, other] = differ[other, one] = draw(st.booleans())
    return draw(st.permutations(range(size))), differ


@given(relations())
def test_forecasters_share_a_letter_exactly_when_they_do_not_differ(relation: tuple[list[int], np.ndarray]) -> None:
    order, differ = relation
    groups = dict(zip(order, letters(order, differ), strict=True))
    assert all(groups.values())
    assert "a" in groups[order[0]]
    for one, other in combinations(order, 2):
        assert bool(set(groups[one]) & set(groups[other])) != differ[one, other]


def test_no_letter_is_superfluous() -> None:
    chain = np.array([[False, False, True], [False, False, False], [True, False, False]])
    assert letters([0, 1, 2], chain) == ["a", "ab", "b"]
    assert letters([0, 1, 2], np.zeros((3, 3), dtype=bool)) == ["a", "a", "a"]
    assert letters([2, 0], np.ones((3, 3), dtype=bool)) == ["a", "b"]
    assert letters([], np.zeros((0, 0), dtype=bool)) == []


def test_a_pair_differs_at_the_significance_itself() -> None:
    pairs = np.array([0, 0, 1]), np.array([1, 2, 2])
    assert group_letters(np.array([0.1, 0.2, 0.3]), np.array([0.05, 0.04, 0.0501]), pairs, 0.05) == ["a", "b", "b"]
    assert group_letters(np.array([0.3, np.nan, 0.1]), np.array([np.nan, 0.2, np.nan]), pairs, 0.05) == ["a", None, "a"]


def test_there_are_letters_for_many_groups() -> None:
    found = letters(list(range(60)), ~np.eye(60, dtype=bool))
    assert (found[0], found[25:27], found[51:53], len(set(found))) == ("a", ["z", "A"], ["Z", "a1"], 60)
