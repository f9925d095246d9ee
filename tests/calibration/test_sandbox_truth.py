"""Forecasters of known skill: the sandbox's personalities on known probabilities are measured as what they are."""

from __future__ import annotations

import numpy as np
import pytest

from bellwether.calibration import Bootstrap, Scores, compare, evaluate
from bellwether.sandbox.models import PERSONALITIES, skill

N, CLUSTERS = 1200, 400
FORECASTERS = ("calibrated", "overconfident", "timid", "contrarian", "noisy")


@pytest.fixture(scope="module")
def truth() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities that are known, outcomes drawn from them, and series that share a level."""
    generator = np.random.default_rng(2026)
    series = generator.integers(0, CLUSTERS, N)
    p = 1 / (1 + np.exp(-generator.normal(0, 1.2, N) - generator.normal(0, 0.8, CLUSTERS)[series]))
    return p, (generator.random(N) < p).astype(float), series


@pytest.fixture(scope="module")
def stated(truth: tuple[np.ndarray, np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.array([PERSONALITIES[name].states(p, 1, index, 0) for index, p in enumerate(truth[0])]) for name in FORECASTERS}


@pytest.fixture(scope="module")
def scores(truth: tuple[np.ndarray, np.ndarray, np.ndarray], stated: dict[str, np.ndarray]) -> dict[str, Scores]:
    _, y, series = truth
    return {name: evaluate(p, y, series, bootstrap=Bootstrap(600)) for name, p in stated.items()}


def test_the_reliability_of_the_calibrated_is_zero_within_its_interval(scores: dict[str, Scores]) -> None:
    found = scores["calibrated"]["murphy_reliability_debiased"]
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower <= 0 <= found.upper


@pytest.mark.parametrize("name", ["overconfident", "timid", "contrarian"])
def test_that_of_the_others_is_not(name: str, truth: tuple[np.ndarray, ...], scores: dict[str, Scores]) -> None:
    found = scores[name]["murphy_reliability_debiased"]
    assert found.lower is not None
    assert found.upper is not None
    assert 0 < found.lower < skill(name).excess_brier(truth[0]) < found.upper


def test_the_plain_reliability_term_would_deny_the_calibrated_its_calibration(scores: dict[str, Scores]) -> None:
    lower = scores["calibrated"]["murphy_reliability"].lower
    assert lower is not None
    assert lower > 0


def test_the_ranking_is_the_true_one_and_the_best_alone_in_the_set(
    truth: tuple[np.ndarray, np.ndarray, np.ndarray], stated: dict[str, np.ndarray]
) -> None:
    p, y, series = truth
    true = sorted(FORECASTERS, key=lambda name: skill(name).excess_brier(p))
    found = compare(stated, y, series, replicates=1000, permutations=1000).ranking
    assert found["forecaster"].to_list() == true
    assert found.filter("in_mcs")["forecaster"].to_list() == ["calibrated"]
    assert found["share_first"].to_list()[0] > 0.99
    assert found["group"].to_list()[0] == "a"
    assert "a" not in "".join(found["group"].to_list()[1:])


def test_the_differences_of_brier_scores_are_the_documented_ones(
    truth: tuple[np.ndarray, np.ndarray, np.ndarray], stated: dict[str, np.ndarray]
) -> None:
    p, y, series = truth
    for row in compare(stated, y, series, replicates=1000, permutations=0).pairs.filter(forecaster="calibrated").iter_rows(named=True):
        assert row["lower"] < -skill(row["other"]).excess_brier(p) < row["upper"], row["other"]
