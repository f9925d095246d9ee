"""ROC-AUC and average precision, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from bellwether.calibration import evaluate

ROWS = st.lists(st.tuples(st.integers(0, 10).map(lambda k: k / 10), st.booleans(), st.integers(1, 4)), min_size=2, max_size=60)


@settings(deadline=None)
@given(ROWS)
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
