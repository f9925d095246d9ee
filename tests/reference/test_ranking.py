"""The confidence set of the best, the probability of rank 1, and significance groups."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from arch.bootstrap import MCS
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit, ndtri

from bellwether.calibration import compare
from bellwether.calibration.ranking import letters


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


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "kind"), [(3, "overconfident and timid"), (8, "equally noisy")])
def test_the_set_holds_all_equally_good_forecasters_as_often_as_it_says(clusters: int, kind: str) -> None:
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


def test_there_are_letters_for_many_groups() -> None:
    found = letters(list(range(60)), ~np.eye(60, dtype=bool))
    assert len(set(found)) == 60
    assert found[25:27] == ["z", "A"]
