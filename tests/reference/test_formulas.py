"""Point metrics: agreement with scikit-learn, undefined cases, and invariances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.metrics import average_precision_score, roc_auc_score

from bellwether.calibration import evaluate
from bellwether.calibration.forecasts import DECILES, EDGES, Forecasts
from bellwether.calibration.formulas import compute_metrics
from bellwether.calibration.metrics import ESTIMATED

#: Multiples of 1/256 have exact complements. Only 0.5 is a threshold or an inner edge.
DYADIC = st.integers(1, 255).map(lambda k: k / 256)
STATED = st.one_of(st.integers(0, 100).map(lambda c: c / 100), st.integers(0, 100).map(lambda c: 1 - c / 100), st.floats(0, 1))


def forecasts_of(probability: st.SearchStrategy[float], least: int = 1) -> st.SearchStrategy[Forecasts]:
    row = st.tuples(probability, st.booleans(), st.sampled_from(["yes", "no", None]), st.one_of(st.just(math.nan), probability))
    return st.lists(row, min_size=least, max_size=60).map(
        lambda rows: Forecasts.of([r[0] for r in rows], [r[1] for r in rows], answer=[r[2] for r in rows], market=[r[3] for r in rows])
    )


def close(ours: float, theirs: float, tolerance: float = 1e-12) -> bool:
    return (math.isnan(ours) and math.isnan(theirs)) or abs(ours - theirs) <= tolerance * max(1.0, abs(theirs))


def random_forecasts(n: int, seed: int) -> Forecasts:
    generator = np.random.default_rng(seed)
    p = np.round(generator.random(n), 2)
    return Forecasts.of(p, generator.random(n) < p, market=generator.random(n))


@pytest.mark.parametrize("n", [1, 20_000])
def test_proper_scores_agree_with_scikit_learn(n: int) -> None:
    one = random_forecasts(n, seed=n)
    ours = compute_metrics(one)
    assert close(ours["brier"], sk.brier_score_loss(one.y, one.p))
    assert close(ours["log_loss"], sk.log_loss(one.y, np.clip(one.p, 1e-15, 1 - 1e-15), labels=[False, True]))
    if 0 < one.y.sum() < n:
        assert close(ours["brier_skill"], sk.d2_brier_score(one.y, one.p))


@settings(deadline=None, max_examples=40)
@given(forecasts_of(STATED))
def test_classification_agrees_with_scikit_learn(one: Forecasts) -> None:
    ours = compute_metrics(one)
    assert close(ours["accuracy"], sk.accuracy_score(one.y, one.decision))
    for name, label in (("yes", True), ("no", False)):
        for metric, score in (("precision", sk.precision_score), ("recall", sk.recall_score), ("f1", sk.f1_score)):
            assert close(ours[f"{metric}_{name}"], score(one.y, one.decision, pos_label=label, zero_division=np.nan))


@settings(deadline=None, max_examples=40)
@given(forecasts_of(STATED))
def test_binned_errors_equal_their_definition_bin_by_bin(one: Forecasts) -> None:
    gaps, sizes = [], []
    for index in range(10):
        inside = (one.p >= EDGES[index]) & ((one.p < EDGES[index + 1]) | (index == 9))
        if inside.any():
            gaps.append(abs(one.p[inside].mean() - one.y[inside].mean()))
            sizes.append(inside.sum())
    ours = compute_metrics(one)
    assert close(ours["ece"], float(np.dot(gaps, sizes) / len(one)))
    assert close(ours["mce"], float(max(gaps)))


@settings(deadline=None, max_examples=40)
@given(forecasts_of(STATED, least=2), st.randoms(use_true_random=False))
def test_the_order_of_the_forecasts_does_not_matter(one: Forecasts, random: object) -> None:
    order = list(range(len(one)))
    random.shuffle(order)  # type: ignore[attr-defined]
    before, after = compute_metrics(one), compute_metrics(one.take(np.array(order)))
    assert all(close(before[name], after[name], 1e-9) for name in ESTIMATED)


@settings(deadline=None, max_examples=40)
@given(forecasts_of(DYADIC))
def test_asking_the_opposite_question_swaps_the_classes_and_nothing_else(one: Forecasts) -> None:
    opposite = Forecasts(1 - one.p, 1 - one.y, ~one.decision, 1 - one.market, one.weight)
    before, after = compute_metrics(one), compute_metrics(opposite)
    same = ("accuracy", "macro_f1", "brier", "brier_skill", "skill_vs_market", "log_loss", "ace", "average_confidence")
    same += ("skill_vs_half", "uncertainty", "smece", "corp_miscalibration", "corp_discrimination")
    same += ("yates_bias_squared", "yates_min_variance", "yates_excess_variance", "yates_covariance")
    same += ("confidence_when_correct", "confidence_when_wrong", "overconfidence_70", "overconfidence_80", "overconfidence_90")
    assert all(close(before[name], after[name], 1e-9) for name in same)
    for metric in ("precision", "recall", "f1"):
        assert close(before[f"{metric}_yes"], after[f"{metric}_no"])
        assert close(before[f"{metric}_no"], after[f"{metric}_yes"])
    assert close(before["brier_yes"], after["brier_no"])
    assert close(before["base_rate"], 1 - after["base_rate"])


def test_a_hand_computed_sample() -> None:
    ours = compute_metrics(
        Forecasts.of([0.9, 0.75, 0.2, 0.65], [1, 0, 0, 1], answer=["yes", "yes", "no", "no"], market=[0.8, math.nan, 0.1, math.nan])
    )
    expected = {
        "accuracy": 2 / 4,
        "precision_yes": 1 / 2,
        "recall_yes": 1 / 2,
        "f1_no": 1 / 2,
        "brier": (0.01 + 0.5625 + 0.04 + 0.1225) / 4,
        "brier_yes": (0.01 + 0.1225) / 2,
        "brier_no": (0.5625 + 0.04) / 2,
        "brier_skill": 1 - (0.735 / 4) / 0.25,
        "skill_vs_half": 1 - 0.735,
        "skill_vs_market": 1 - 0.05 / 0.05,
        "log_loss": -(math.log(0.9) + math.log(0.25) + math.log(0.8) + math.log(0.65)) / 4,
        "ece": (0.1 + 0.75 + 0.2 + 0.35) / 4,
        "mce": 0.75,
        "average_confidence": (0.9 + 0.75 + 0.8 + 0.65) / 4,
        "confidence_when_correct": (0.9 + 0.8) / 2,
        "confidence_when_wrong": (0.75 + 0.65) / 2,
        "overconfidence_70": 1 / 3,
        "overconfidence_80": 0.0,
        "base_rate": 0.5,
    }
    assert {name: ours[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_the_answer_decides_where_one_was_given_and_else_half_is_a_yes() -> None:
    one = Forecasts.of([0.9, 0.1, 0.5, 0.49], [1, 1, 1, 1], answer=["no", "yes", None, None])
    assert one.decision.tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("p", "y", "answer", "undefined"),
    [
        ([0.2, 0.35], [1, 0], None, {"precision_yes"}),
        ([0.8, 0.9], [1, 0], None, {"precision_no"}),
        ([0.8, 0.9], [1, 1], None, {"precision_no", "recall_no", "f1_no", "macro_f1", "brier_skill", "brier_no", "confidence_when_wrong"}),
        ([0.6, 0.4], [1, 1], None, {"recall_no", "brier_skill", "brier_no", "overconfidence_70", "overconfidence_80", "overconfidence_90"}),
    ],
)
def test_what_is_undefined_is_not_a_number(p: list[float], y: list[int], answer: None, undefined: set[str]) -> None:
    always = {"skill_vs_market", "murphy_reliability_debiased", "murphy_resolution_debiased"}  # no bin contains two forecasts
    one_class = {"roc_auc"} if len(set(y)) == 1 else set()
    one_class |= {"average_precision"} if not any(y) else set()
    ours = compute_metrics(Forecasts.of(p, y, answer=answer))
    missing = {name for name, value in ours.items() if math.isnan(value)}
    assert missing - {f"overconfidence_{t}" for t in (70, 80, 90)} == (undefined | always | one_class) - {
        f"overconfidence_{t}" for t in (70, 80, 90)
    }
    assert {name for name in undefined if name.startswith("over")} <= missing


@pytest.mark.parametrize(
    ("p", "expected"),
    [(0.0, 0), (0.1, 1), (1 - 0.9, 0), (1 - 0.8, 1), (0.3, 2), (1 - 0.7, 3), (0.6, 5), (0.7, 6), (0.5, 5), (0.9, 9), (1.0, 9)],
)
def test_a_forecast_on_an_edge_falls_where_the_literal_edges_put_it(p: float, expected: int) -> None:
    assert DECILES.index(np.array([p])).tolist() == [expected]


@pytest.mark.parametrize("percent", [70, 80, 90])
def test_a_forecast_exactly_at_a_threshold_is_not_above_it_on_either_side(percent: int) -> None:
    at = percent / 100
    ours = compute_metrics(Forecasts.of([at, 1 - at, (100 - percent) / 100], [1, 0, 0]))
    assert math.isnan(ours[f"overconfidence_{percent}"])


RANKED = st.lists(st.tuples(st.integers(0, 10).map(lambda k: k / 10), st.booleans(), st.integers(1, 4)), min_size=2, max_size=60)


@settings(deadline=None)
@given(RANKED)
def test_both_are_those_of_scikit_learn_with_ties_and_weights(rows: list[tuple[float, bool, int]]) -> None:
    p, y, weight = (np.array(column) for column in zip(*rows, strict=True))
    assume(0 < y.sum() < len(y))
    scores = evaluate(p, y, weights=weight)
    assert scores["roc_auc"].value == pytest.approx(roc_auc_score(y, p, sample_weight=weight))
    assert scores["average_precision"].value == pytest.approx(average_precision_score(y, p, sample_weight=weight))


def test_they_are_undefined_with_one_outcome_and_with_fractional_ones() -> None:
    assert evaluate([0.2, 0.8], [1, 1])["roc_auc"].value is None
    assert evaluate([0.2, 0.8], [1, 1])["average_precision"].value == 1.0
    assert evaluate([0.2, 0.8], [0, 0])["average_precision"].value is None
    assert evaluate([0.2, 0.8], [0.5, 1])["roc_auc"].value is None
