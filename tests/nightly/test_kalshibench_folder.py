"""Published KalshiBench numbers: recomputed from the recordings to the last bit, and the known corrected ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bellwether.calibration import compat, evaluate
from bellwether.kalshibench import Examination, examine, read_labels, read_results
from tests.nightly.kalshibench_folder import token_prices, write_folder

pytestmark = pytest.mark.real

#: Brier score, skill and ECE as published, then answer-consistent with the labels as scored, then with own labels, with accuracy and n.
KNOWN = {
    "Claude-Opus-4.5": ((0.2269, 0.057, 0.120), (0.2170, 0.098, 0.106), (0.1975, 0.172, 0.087), 0.728, 283),
    "Kimi-K2": ((0.3473, -0.446, 0.298), (0.2373, 0.012, 0.143), (0.2215, 0.065, 0.127), 0.687, 275),
    "Qwen3-235B-Thinking": ((0.3459, -0.437, 0.297), (0.2619, -0.088, 0.186), (0.2370, 0.006, 0.147), 0.686, 283),
    "GPT-5.2-XHigh": ((0.4329, -0.799, 0.395), (0.2467, -0.025, 0.156), (0.2253, 0.055, 0.129), 0.689, 283),
    "DeepSeek-V3.2": ((0.3386, -0.407, 0.284), (0.2235, 0.071, 0.101), (0.2045, 0.142, 0.076), 0.675, 283),
}

#: 95 % interval of the corrected skill by a bootstrap over series.
BY_SERIES = {"Claude-Opus-4.5": (0.06, 0.27), "DeepSeek-V3.2": (0.04, 0.23)}
BEST = "Claude-Opus-4.5"


@pytest.fixture(scope="module")
def data(recordings: Path) -> Path:
    return recordings / "kalshibench"


@pytest.fixture(scope="module")
def folder(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kalshibench")
    write_folder(data, folder)
    return folder


@pytest.fixture(scope="module")
def examined(data: Path, folder: Path) -> Examination:
    return examine(read_results(folder), read_labels(data / "questions.parquet"))


def test_every_published_number_comes_out_to_the_last_bit(examined: Examination, data: Path) -> None:
    numbers = examined.numbers()
    published = pl.read_parquet(data / "published_metrics.parquet").filter(pl.col("decimals").is_null())
    assert numbers.height == published.height
    assert numbers.filter((pl.col("status") != "equal") & (pl.col("metric") != "ace")).rows(named=True) == []


def test_an_ace_that_this_machine_does_not_give_is_one_of_another_order_of_ties(examined: Examination) -> None:
    others = examined.numbers().filter(pl.col("status") != "equal")
    assert set(others["metric"]) <= {"ace"}
    assert set(others["status"]) <= {"ties"}
    assert all(model.recomputation.ace_range.explains(model.result.published["ace"]) for model in examined.models)


def test_the_three_columns_are_the_known_ones(examined: Examination) -> None:
    summary = {row["model"]: row for row in examined.summary().iter_rows(named=True)}
    for model, (published, consistent, corrected, accuracy, n) in KNOWN.items():
        if model not in summary:
            continue
        row = summary[model]
        for stage, expected in (("published", published), ("consistent", consistent), ("corrected", corrected)):
            found = [round(row[f"{name}_{stage}"], digits) for name, digits in (("brier", 4), ("brier_skill", 3), ("ece", 3))]
            assert found == pytest.approx(list(expected), abs=1e-12), (model, stage)
        assert round(row["accuracy_corrected"], 3) == accuracy
        assert row["n_corrected"] == n
    assert {*KNOWN} & {*summary}


def test_only_two_models_are_surely_better_than_the_base_rate(examined: Examination) -> None:
    surely = {
        row["model"]
        for row in examined.summary().iter_rows(named=True)
        if row["brier_skill_lower"] > 0 and "sampleA" in row["question_set"]
    }
    assert surely == {*BY_SERIES}
    for row in examined.summary().iter_rows(named=True):
        if "sampleA" in row["question_set"]:
            assert row["brier_skill_corrected"] > 0


def test_intervals_take_whole_event_families_as_independent(examined: Examination) -> None:
    """The reference is a bootstrap that draws families with replacement and computes the skill of all their entries."""
    rng = np.random.default_rng(3)
    for row in examined.summary().iter_rows(named=True):
        entries = _entries(examined, row["model"]).filter(pl.col("true").is_not_null() & pl.col("predicted_answer").is_not_null())
        families: dict[str, list[tuple[float, float]]] = {}
        for ticker, p, outcome in entries.select("question_id", "p_consistent", "true").iter_rows():
            families.setdefault(ticker[:8], []).append((p, float(outcome == "yes")))
        groups = [np.array(group) for group in families.values()]
        skills = []
        for _ in range(2_000):
            p, y = np.concatenate([groups[index] for index in rng.integers(0, len(groups), len(groups))]).T
            skills.append(1 - np.mean((p - y) ** 2) / (np.mean(y) * (1 - np.mean(y))))
        assert (row["brier_skill_lower"], row["brier_skill_upper"]) == pytest.approx(np.quantile(skills, [0.025, 0.975]), abs=0.03)


def test_no_difference_from_the_best_survives_holm(examined: Examination) -> None:
    pairs = next(comparison for name, comparison in examined.comparisons().items() if "sampleA" in name).pairs
    against = {
        row["other"] if row["forecaster"] == BEST else row["forecaster"]: row
        for row in pairs.iter_rows(named=True)
        if BEST in (row["forecaster"], row["other"])
    }
    smallest = min(against, key=lambda name: against[name]["p"])
    assert smallest == "Qwen3-235B-Thinking"
    assert against[smallest]["p"] == pytest.approx(0.023, abs=0.01)
    assert against["DeepSeek-V3.2"]["p"] == pytest.approx(0.47, abs=0.05)
    assert min(row["p_holm"] for row in against.values()) > 0.05


def test_defects_are_counted_as_known(examined: Examination) -> None:
    found = {model.name: model.findings for model in examined.models}
    xhigh, kimi = found["GPT-5.2-XHigh"], found["Kimi-K2"]
    assert (xhigh.inverted, xhigh.no_answers) == (230, 231)
    assert (kimi.unparsed, kimi.fallback, kimi.unflipped) == (8, 5, 3)
    assert {name: model.certain for name, model in found.items() if model.certain and name in KNOWN} == {
        "DeepSeek-V3.2": 1,
        "Qwen3-235B-Thinking": 3,
    }
    for name, model in found.items():
        assert model.misread == 0, name
        assert model.overwritten == 300 - len(set(_entries(examined, name)["question_id"])), name


def _entries(examined: Examination, name: str) -> pl.DataFrame:
    return next(model.entries for model in examined.models if model.name == name)


#: The paper rounded these twice (73.647 -> 73.65 -> 73.7). The result files, tested to the last bit, contain the number itself.
ROUNDED_TWICE = {("DeepSeek-V3.2", "avg_confidence", "paper:table5"), ("Kimi-K2", "avg_confidence", "paper:table5")}


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


@pytest.mark.parametrize(("model", "lower", "upper"), [("Claude-Opus-4.5", 0.06, 0.27), ("DeepSeek-V3.2", 0.04, 0.23)])
def test_skill_has_the_known_series_cluster_interval(model: str, lower: float, upper: float, predictions: dict[str, pl.DataFrame]) -> None:
    if model not in predictions:
        pytest.skip(f"no predictions of {model} in the recordings")
    rows = predictions[model].filter(pl.col("predicted_answer").is_not_null(), pl.col("ground_truth_true").is_not_null())
    scores = evaluate(rows["p_yes_answer_consistent"], rows["ground_truth_true"] == "yes", rows["series_ticker"], replicates=0)
    assert scores["brier_skill"].lower == pytest.approx(lower, abs=0.015)
    assert scores["brier_skill"].upper == pytest.approx(upper, abs=0.015)
