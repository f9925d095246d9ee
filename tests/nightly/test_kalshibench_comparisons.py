"""Comparisons and decompositions of published KalshiBench predictions: misread answers caused the published differences and poor calibration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bellwether.calibration import Comparison, compare, evaluate

pytestmark = pytest.mark.real
CLAUDE = "Claude-Opus-4.5"


def compared(rows: pl.DataFrame, p: str, truth: str) -> Comparison:
    """Compare all models on the entries of their one shared sample, clustered by series."""
    stated = pl.when(pl.col("predicted_answer").is_not_null()).then(p)
    shared = rows.filter(pl.col("question_set") == rows.filter(model=CLAUDE)["question_set"].first(), pl.col(truth).is_not_null())
    wide = shared.with_columns(stated.alias("stated")).pivot("model", index=["entry_index", "series_ticker", truth], values="stated")
    models = [name for name in wide.columns if name not in {"entry_index", "series_ticker", truth}]
    forecasts = {name: wide[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in sorted(models)}
    return compare(forecasts, wide[truth] == "yes", wide["series_ticker"].to_list())


def against_claude(comparison: Comparison, column: str) -> dict[str, float]:
    """Return a column of the pairs with Claude by the other model. Claude is first in every pair."""
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
    assert max(against_claude(as_published, "p").values()) <= 0.004
    assert as_published.ranking["forecaster"].first() == CLAUDE
    assert not as_published.ranking.filter(forecaster="GPT-5.2-XHigh")["in_mcs"].any()


def test_scored_correctly_nobody_differs_after_correction(corrected: Comparison) -> None:
    assert min(against_claude(corrected, "p_holm").values()) > 0.05
    assert corrected.ranking["forecaster"].first() == CLAUDE
    assert corrected.ranking.filter(forecaster="DeepSeek-V3.2")["in_mcs"].all()


@pytest.mark.parametrize(("model", "least", "most"), [("DeepSeek-V3.2", 0.4, 0.55), ("Qwen3-235B-Thinking", 0.005, 0.04)])
def test_corrected_p_values_are_near_those_by_families_of_events(model: str, least: float, most: float, corrected: Comparison) -> None:
    """Families of events, coarser than series, give 0.47 and 0.023."""
    found = against_claude(corrected, "p")
    if model not in found:
        pytest.skip(f"no predictions of {model} in the recordings")
    assert least < found[model] < most


def test_p_values_are_near_those_of_permuted_signs(predictions: pl.DataFrame, corrected: Comparison) -> None:
    """SciPy permutes the signs of the sums of whole series."""
    from scipy import stats

    rows = predictions.filter(pl.col("predicted_answer").is_not_null(), pl.col("ground_truth_true").is_not_null())
    loss = rows.with_columns(loss=(pl.col("p_yes_answer_consistent") - (pl.col("ground_truth_true") == "yes").cast(pl.Float64)) ** 2)
    wide = loss.pivot("model", index=["question_set", "entry_index", "series_ticker"], values="loss")
    for row in corrected.pairs.iter_rows(named=True):
        common = wide.drop_nulls([row["forecaster"], row["other"]])
        totals = (
            common.group_by("series_ticker", maintain_order=True)
            .agg(total=(pl.col(row["forecaster"]) - pl.col(row["other"])).sum())["total"]
            .to_numpy()
        )
        theirs = stats.permutation_test((totals,), np.sum, permutation_type="samples", n_resamples=20_000, rng=1)
        assert row["p"] == pytest.approx(theirs.pvalue, abs=0.05)


Columns = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def answered(recordings: Path) -> pl.DataFrame:
    return pl.read_parquet(recordings / "kalshibench" / "predictions.parquet").filter(pl.col("predicted_answer").is_not_null())


def columns(predictions: pl.DataFrame, model: str, *, corrected: bool = False) -> Columns:
    """Return probabilities and labels as published, or consistent with the answer and with each entry's own label."""
    rows = predictions.filter(pl.col("model") == model)
    if rows.is_empty():
        pytest.skip(f"no predictions of {model} in the recordings")
    probability, label = ("p_yes_answer_consistent", "ground_truth_true") if corrected else ("p_yes", "ground_truth_scored")
    rows = rows.drop_nulls(label)
    return rows[probability].to_numpy(), (rows[label] == "yes").to_numpy()


def test_every_model_agrees_with_the_libraries(answered: pl.DataFrame) -> None:
    import relplot
    from model_diagnostics.scoring import SquaredError, decompose

    for model in answered["model"].unique().sort():
        p, y = columns(answered, model, corrected=True)
        theirs = decompose(y.astype(float), p, scoring_function=SquaredError()).row(0, named=True)
        ours = evaluate(p, y)
        assert (ours["corp_miscalibration"].value, ours["corp_discrimination"].value) == pytest.approx(
            (theirs["miscalibration"], theirs["discrimination"]), abs=1e-12
        )
        assert ours["smece"].value == pytest.approx(relplot.smECE(p, y.astype(float)), abs=2e-3)
