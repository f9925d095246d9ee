"""Scores of forecasts of several categories, compared with scikit-learn and scoringrules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from bellwether.calibration import evaluate
from bellwether.errors import ScoringError
from tests.reference.numpy_only import scoringrules


def drawn(seed: int, size: int = 80, count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.ones(count), size)
    return p, np.array([generator.choice(count, p=row) for row in p])


@pytest.mark.parametrize("weighted", [False, True])
def test_brier_and_log_loss_are_those_of_scikit_learn(weighted: bool) -> None:
    p, y = drawn(1)
    weight = np.random.default_rng(2).random(80) + 0.5 if weighted else None
    scores = evaluate(p, y, weights=weight)
    expected = brier_score_loss(y, p, sample_weight=weight, labels=range(4), scale_by_half=False)
    assert scores["brier"].value == pytest.approx(expected)
    assert scores["log_loss"].value == pytest.approx(log_loss(y, p, sample_weight=weight, labels=range(4)))


def test_ranked_probability_is_that_of_scoringrules_over_the_categories_less_one() -> None:
    p, y = drawn(3)
    expected = np.array([scoringrules.rps_score(int(outcome) + 1, row) for outcome, row in zip(y, p, strict=True)])
    scores = evaluate(p, y)
    assert scores.losses["ranked_probability"] == pytest.approx(expected / 3)
    assert scores["ranked_probability"].value == pytest.approx(expected.mean() / 3)


def test_of_two_categories_they_are_the_binary_scores() -> None:
    p, y = drawn(4, count=2)
    both, one = evaluate(p, y, range(80)), evaluate(p[:, 1], y, range(80))
    assert both["brier"].value == pytest.approx(2 * one["brier"].value)  # type: ignore[operator]
    assert both["ranked_probability"].value == pytest.approx(one["brier"].value)
    assert both["log_loss"].value == pytest.approx(one["log_loss"].value)
    assert both["ranked_probability"].lower == pytest.approx(one["brier"].lower)


def test_intervals_need_clusters_and_say_so() -> None:
    p, y = drawn(5)
    assert evaluate(p, y)["brier"].reason == "no clusters were given"
    one = evaluate(p, y, np.arange(80) // 4)["brier"]
    assert one.lower < one.value < one.upper  # type: ignore[operator]
    assert one.lower > 0 and one.upper < 2  # type: ignore[operator]
    frame = evaluate(p, y, np.arange(80) // 4).frame()
    assert frame["metric"].to_list() == ["brier", "log_loss", "ranked_probability"]


@pytest.mark.parametrize(
    ("p", "y", "message"),
    [
        ([[0.5, 0.4]], [0], r"\[0\.5, 0\.4\] at index 0; give probabilities in \[0, 1\] that add up to 1"),
        ([[0.5, 0.5]], [2], "2 at index 0; give the index of the observed category, 0 to 1"),
        ([[0.5, 0.5]], ["x"], "y is not numeric"),
        ([[1.0]], [0], r"shape \(1, 1\)"),
    ],
)
def test_what_cannot_be_scored_is_named(p: Any, y: Any, message: str) -> None:
    with pytest.raises(ScoringError, match=message):
        evaluate(p, y)
