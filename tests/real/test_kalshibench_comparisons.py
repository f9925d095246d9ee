"""Paired comparisons on published KalshiBench predictions: the inverted reading makes differences that the corrected one does not have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bellwether.calibration import Comparison, compare

pytestmark = pytest.mark.real

CLAUDE = "Claude-Opus-4.5"


def compared(rows: pl.DataFrame, p: str, truth: str) -> Comparison:
    """All models on the entries of the one sample of questions that they share, clustered by series."""
    stated = pl.when(pl.col("predicted_answer").is_not_null()).then(p)
    shared = rows.filter(pl.col("question_set") == rows.filter(model=CLAUDE)["question_set"].first(), pl.col(truth).is_not_null())
    wide = shared.with_columns(stated.alias("stated")).pivot("model", index=["entry_index", "series_ticker", truth], values="stated")
    models = [name for name in wide.columns if name not in {"entry_index", "series_ticker", truth}]
    forecasts = {name: wide[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in sorted(models)}
    return compare(forecasts, wide[truth] == "yes", wide["series_ticker"].to_list())


def against_claude(comparison: Comparison, column: str) -> dict[str, float]:
    """One column of the pairs with Claude, whose name comes first, by the other's."""
    rows = comparison.pairs.filter(forecaster=CLAUDE)
    return dict(zip(rows["other"], rows[column], strict=True))


@pytest.fixture(scope="module")
def predictions(recordings: Path) -> pl.DataFrame:
    frame = pl.read_parquet(recordings / "kalshibench" / "predictions.parquet")
    if CLAUDE not in frame["model"]:
        pytest.skip(f"no predictions of {CLAUDE} in the recordings")
    return frame


@pytest.fixture(scope="module")
def as_published(predictions: pl.DataFrame) -> Comparison:
    return compared(predictions, "p_yes", "ground_truth_scored")


@pytest.fixture(scope="module")
def corrected(predictions: pl.DataFrame) -> Comparison:
    return compared(predictions, "p_yes_answer_consistent", "ground_truth_true")


def test_scored_as_published_everyone_loses_to_claude(as_published: Comparison) -> None:
    assert max(against_claude(as_published, "p_cluster").values()) <= 0.004
    assert as_published.ranking["forecaster"].first() == CLAUDE
    assert not as_published.ranking.filter(forecaster="GPT-5.2-XHigh")["in_mcs"].any()


def test_scored_correctly_nobody_differs_after_correction(corrected: Comparison) -> None:
    assert min(against_claude(corrected, "p_holm").values()) > 0.05
    assert corrected.ranking["forecaster"].first() == CLAUDE
    assert corrected.ranking.filter(forecaster="DeepSeek-V3.2")["in_mcs"].all()


@pytest.mark.parametrize(("model", "least", "most"), [("DeepSeek-V3.2", 0.4, 0.55), ("Qwen3-235B-Thinking", 0.01, 0.03)])
def test_corrected_p_values_are_near_those_by_families_of_events(model: str, least: float, most: float, corrected: Comparison) -> None:
    """Families of events, coarser than series, gave 0.47 and 0.023."""
    found = against_claude(corrected, "p_cluster")
    if model not in found:
        pytest.skip(f"no predictions of {model} in the recordings")
    assert least < found[model] < most


def test_permuting_signs_agrees_with_clustered_errors(corrected: Comparison) -> None:
    assert (corrected.pairs["p_sign_flip"] - corrected.pairs["p_cluster"]).abs().max() < 0.03
