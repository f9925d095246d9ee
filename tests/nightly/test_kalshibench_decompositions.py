"""Decompositions of published KalshiBench predictions: the published poor calibration came from misread answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import relplot
from model_diagnostics.scoring import SquaredError, decompose

from bellwether.calibration import corp, murphy, smooth_ece

pytestmark = pytest.mark.real

#: Reliability and resolution over ten bins.
AS_PUBLISHED = {"Claude-Opus-4.5": (0.0197, 0.0337), "GPT-5.2-XHigh": (0.1935, 0.0042)}
CORRECTED = {"GPT-5.2-XHigh": (0.0221, 0.0350)}

Columns = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def predictions(recordings: Path) -> pl.DataFrame:
    return pl.read_parquet(recordings / "kalshibench" / "predictions.parquet").filter(pl.col("predicted_answer").is_not_null())


def columns(predictions: pl.DataFrame, model: str, *, corrected: bool = False) -> Columns:
    """Return probabilities and labels as published, or consistent with the answer and with each entry's own label."""
    rows = predictions.filter(pl.col("model") == model)
    if rows.is_empty():
        pytest.skip(f"no predictions of {model} in the recordings")
    probability, label = ("p_yes_answer_consistent", "ground_truth_true") if corrected else ("p_yes", "ground_truth_scored")
    rows = rows.drop_nulls(label)
    return rows[probability].to_numpy(), (rows[label] == "yes").to_numpy()


@pytest.mark.parametrize("model", AS_PUBLISHED)
def test_murphy_terms_as_published(predictions: pl.DataFrame, model: str) -> None:
    terms = murphy(*columns(predictions, model))
    assert (round(terms.reliability or 0, 4), round(terms.resolution or 0, 4)) == AS_PUBLISHED[model]
    assert round(terms.uncertainty or 0, 4) == 0.2407


@pytest.mark.parametrize("model", CORRECTED)
def test_murphy_terms_corrected(predictions: pl.DataFrame, model: str) -> None:
    terms = murphy(*columns(predictions, model, corrected=True))
    assert (round(terms.reliability or 0, 4), round(terms.resolution or 0, 4)) == CORRECTED[model]


def test_corp_terms_are_the_known_ones(predictions: pl.DataFrame) -> None:
    terms = corp(*columns(predictions, "Claude-Opus-4.5"))
    known = (terms.miscalibration, terms.discrimination, terms.uncertainty)
    assert tuple(round(term or 0, 4) for term in known) == (0.0232, 0.0369, 0.2407)


def test_smooth_ece_is_the_known_one(predictions: pl.DataFrame) -> None:
    assert smooth_ece(*columns(predictions, "Claude-Opus-4.5")) == pytest.approx(0.0985, abs=5e-4)


def test_every_model_agrees_with_the_libraries(predictions: pl.DataFrame) -> None:
    for model in predictions["model"].unique().sort():
        p, y = columns(predictions, model, corrected=True)
        theirs = decompose(y.astype(float), p, scoring_function=SquaredError()).row(0, named=True)
        ours = corp(p, y)
        assert (ours.miscalibration, ours.discrimination) == pytest.approx((theirs["miscalibration"], theirs["discrimination"]), abs=1e-12)
        assert smooth_ece(p, y) == pytest.approx(relplot.smECE(p, y.astype(float)), abs=2e-3)
