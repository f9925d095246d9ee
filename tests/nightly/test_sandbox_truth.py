"""Forecasters of known skill: measured values match the sandbox's personalities."""

from __future__ import annotations

import numpy as np
import pytest

from bellwether.calibration import Comparison, Scores, compare, evaluate
from bellwether.sandbox.models import PERSONALITIES, skill

N, CLUSTERS = 1200, 400
FORECASTERS = ("calibrated", "overconfident", "contrarian", "noisy")


@pytest.fixture(scope="module")
def truth() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw known probabilities, their outcomes, and series that share a level."""
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
    return {name: evaluate(p, y, series, replicates=600) for name, p in stated.items()}


@pytest.fixture(scope="module")
def compared(truth: tuple[np.ndarray, np.ndarray, np.ndarray], stated: dict[str, np.ndarray]) -> Comparison:
    _, y, series = truth
    return compare(stated, y, series)


CALIBRATION_ERRORS = ("ece", "smece", "murphy_reliability", "corp_miscalibration")


def test_the_calibrated_one_passes_every_test_of_calibration(scores: dict[str, Scores]) -> None:
    assert all(scores["calibrated"][metric].p_calibrated > 0.05 for metric in CALIBRATION_ERRORS)  # type: ignore[operator]
    assert abs(scores["calibrated"]["murphy_reliability_debiased"].value) < 0.002  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["overconfident", "contrarian"])
def test_the_others_fail_and_their_debiased_reliability_is_the_known_excess(
    name: str, truth: tuple[np.ndarray, ...], scores: dict[str, Scores]
) -> None:
    assert all(scores[name][metric].p_calibrated < 0.05 for metric in CALIBRATION_ERRORS)  # type: ignore[operator]
    assert scores[name]["murphy_reliability_debiased"].value == pytest.approx(skill(name).excess_brier(truth[0]), rel=0.35)


def test_the_ranking_is_the_true_one_and_the_best_alone_in_the_set(truth: tuple[np.ndarray, ...], compared: Comparison) -> None:
    true = sorted(FORECASTERS, key=lambda name: skill(name).excess_brier(truth[0]))
    found = compared.ranking
    assert found["forecaster"].to_list() == true
    assert found.filter("in_mcs")["forecaster"].to_list() == ["calibrated"]
    assert found["group"].to_list()[0] == "a"
    assert "a" not in "".join(found["group"].to_list()[1:])


def test_the_differences_of_brier_scores_are_the_documented_ones(truth: tuple[np.ndarray, ...], compared: Comparison) -> None:
    for row in compared.pairs.filter(forecaster="calibrated").iter_rows(named=True):
        assert row["lower"] < -skill(row["other"]).excess_brier(truth[0]) < row["upper"], row["other"]
