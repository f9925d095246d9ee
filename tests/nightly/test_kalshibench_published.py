"""Published KalshiBench predictions: `compat` gives the published numbers, `strict` the corrected ones."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bellwether.calibration import compat, evaluate
from tests.nightly.kalshibench_folder import token_prices

pytestmark = pytest.mark.real

#: The paper rounded these twice (73.647 -> 73.65 -> 73.7). The result files, tested to the last bit, contain the number itself.
ROUNDED_TWICE = {("DeepSeek-V3.2", "avg_confidence", "paper:table5"), ("Kimi-K2", "avg_confidence", "paper:table5")}

#: Brier score, skill, ECE, accuracy and n with each entry's own label and the answer-consistent reading of the stated confidence.
CORRECTED = {
    "Claude-Opus-4.5": (0.1975, 0.172, 0.087, 0.728, 283),
    "Kimi-K2": (0.2215, 0.065, 0.127, 0.687, 275),
    "Qwen3-235B-Thinking": (0.2370, 0.006, 0.147, 0.686, 283),
    "GPT-5.2-XHigh": (0.2253, 0.055, 0.129, 0.689, 283),
    "DeepSeek-V3.2": (0.2045, 0.142, 0.076, 0.675, 283),
}


@pytest.fixture(scope="module")
def published(recordings: Path) -> pl.DataFrame:
    return pl.read_parquet(recordings / "kalshibench" / "published_metrics.parquet")


@pytest.fixture(scope="module")
def predictions(recordings: Path) -> dict[str, pl.DataFrame]:
    frame = pl.read_parquet(recordings / "kalshibench" / "predictions.parquet").sort("model", "entry_index")
    return {str(model): rows for (model,), rows in frame.partition_by("model", as_dict=True, maintain_order=True).items()}


@pytest.fixture(scope="module")
def recomputed(predictions: dict[str, pl.DataFrame]) -> dict[str, dict[str, compat.Number]]:
    """Recompute from each entry's own label where it is known, so that the lookup by a shared id is tested as well."""
    label = pl.coalesce("ground_truth_true", "ground_truth_scored")
    return {
        model: compat.recompute(rows.with_columns(ground_truth=label), prices=token_prices(rows)).flat()
        for model, rows in predictions.items()
    }


def test_every_published_model_has_predictions(published: pl.DataFrame, predictions: dict[str, pl.DataFrame]) -> None:
    assert published.height
    assert set(published["model"]) == set(predictions)


def test_every_published_name_is_recomputed(published: pl.DataFrame, recomputed: dict[str, dict[str, compat.Number]]) -> None:
    unknown = {(row["model"], row["metric"]) for row in published.rows(named=True) if row["metric"] not in recomputed[row["model"]]}
    assert not unknown


def test_every_number_of_the_result_files_is_equal_to_the_last_bit(
    published: pl.DataFrame, recomputed: dict[str, dict[str, compat.Number]]
) -> None:
    exact = published.filter(pl.col("decimals").is_null())
    assert exact.height
    differences = [
        (row, ours)
        for row in exact.rows(named=True)
        if not _equal(ours := recomputed[row["model"]][row["metric"]], row["value"], row["scale"])
    ]
    assert not differences


def test_every_number_of_the_paper_is_equal_after_rounding(
    published: pl.DataFrame, recomputed: dict[str, dict[str, compat.Number]]
) -> None:
    differences = []
    for row in published.filter(pl.col("decimals").is_not_null()).rows(named=True):
        ours = (recomputed[row["model"]][row["metric"]] or 0.0) * row["scale"]
        places = row["decimals"]
        if (row["model"], row["metric"], row["source"]) in ROUNDED_TWICE:
            ours = round(ours, places + 1) + 10.0 ** -(places + 3)
        if abs(round(ours, places) - row["value"]) > 1e-12:
            differences.append((row, ours))
    assert not differences


@pytest.mark.parametrize("model", CORRECTED)
def test_strict_scores_are_the_corrected_numbers(model: str, predictions: dict[str, pl.DataFrame]) -> None:
    if model not in predictions:
        pytest.skip(f"no predictions of {model} in the recordings")
    rows = predictions[model].filter(pl.col("predicted_answer").is_not_null(), pl.col("ground_truth_true").is_not_null())
    brier, skill, ece, accuracy, n = CORRECTED[model]
    scores = evaluate(rows["p_yes_answer_consistent"], rows["ground_truth_true"] == "yes", answer=rows["predicted_answer"].to_list())
    assert scores.n == n
    assert round(scores["brier"].value or 0, 4) == brier
    assert round(scores["brier_skill"].value or 0, 3) == skill
    assert round(scores["ece"].value or 0, 3) == ece
    assert round(scores["accuracy"].value or 0, 3) == accuracy


@pytest.mark.parametrize(("model", "lower", "upper"), [("Claude-Opus-4.5", 0.06, 0.27), ("DeepSeek-V3.2", 0.04, 0.23)])
def test_skill_has_the_known_series_cluster_interval(model: str, lower: float, upper: float, predictions: dict[str, pl.DataFrame]) -> None:
    if model not in predictions:
        pytest.skip(f"no predictions of {model} in the recordings")
    rows = predictions[model].filter(pl.col("predicted_answer").is_not_null(), pl.col("ground_truth_true").is_not_null())
    scores = evaluate(rows["p_yes_answer_consistent"], rows["ground_truth_true"] == "yes", rows["series_ticker"], replicates=0)
    assert scores["brier_skill"].lower == pytest.approx(lower, abs=0.015)
    assert scores["brier_skill"].upper == pytest.approx(upper, abs=0.015)


def _equal(ours: compat.Number, theirs: float | None, scale: float) -> bool:
    if ours is None or theirs is None:
        return ours is None and theirs is None
    return ours * scale == theirs
