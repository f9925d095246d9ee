"""Published, recomputed and corrected numbers of a folder with the known defects, compared with hand-computed ones."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.kalshibench import Examination, Labels, ModelExamination, examine, read_labels, read_results
from bellwether.report.results import build_model_file
from tests.unit.kalshibench.result_folders import ENTRIES, Write, labels, predictions, result, write_folder, write_labels, write_one_model
from tests.unit.report import frames


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_folder, tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_one_model(tmp_path)


@pytest.fixture
def label_file(tmp_path: Path) -> Path:
    return write_labels(tmp_path)


def read_label_frame(tmp_path: Path, frame: pl.DataFrame) -> Labels:
    path = tmp_path / "given.parquet"
    frame.write_parquet(path)
    return read_labels(path)


@pytest.fixture
def examined(folder: Path, label_file: Path) -> Examination:
    return examine(read_results(folder), read_labels(label_file), replicates=200)


@pytest.fixture
def model(examined: Examination) -> ModelExamination:
    return examined.models[0]


def test_every_published_number_comes_out_equal(examined: Examination) -> None:
    numbers = examined.numbers()
    assert set(numbers["status"]) == {"equal"}
    assert set(numbers["source"]) == {"tier1/test_model_20251217_020000.json", "tier1/summary_20251217_030000.json"}


def test_the_published_numbers_have_the_published_defects(model: ModelExamination) -> None:
    """By id the first entry is scored with yes; p = 1 is in no bin; the fallback's 0.7 is not inverted."""
    recomputed = model.recomputed
    assert recomputed["brier_score"] == pytest.approx((0.04 + 0 + 0.49 + 0.16 + 0.04) / 5)
    assert recomputed["accuracy"] == pytest.approx(4 / 5)
    assert recomputed["ece"] == pytest.approx((0.2 + 0.7 + 0.4 + 0.2) / 5)
    assert "reliability[0.9-1.0].count" not in recomputed


def test_with_the_labels_as_scored_only_the_reading_changes(model: ModelExamination) -> None:
    assert model.consistent is not None
    assert model.consistent["brier"].value == pytest.approx((0.64 + 0 + 0.09 + 0.16 + 0.04) / 5)


def test_the_corrected_numbers_use_own_labels_and_the_meaning_of_each_number(model: ModelExamination) -> None:
    assert model.corrected is not None
    assert model.corrected["brier"].value == pytest.approx((0.04 + 0 + 0.09 + 0.16 + 0.04) / 5)
    assert model.corrected["accuracy"].value == 1
    assert model.corrected["ece"].value == pytest.approx((2 * 0.2 + 0.3 + 0.4) / 5)
    assert model.corrected["coverage"].value == pytest.approx(5 / 6)
    assert model.corrected.n_clusters == 4


def test_each_defect_is_counted(model: ModelExamination) -> None:
    found = model.findings
    assert (found.entries, found.answered, found.unparsed) == (6, 5, 1)
    assert (found.no_answers, found.inverted, found.unflipped, found.fallback) == (3, 1, 1, 1)
    assert (found.certain, found.yes_below_half, found.misread) == (1, 0, 0)
    assert (found.shared_ids, found.overwritten, found.wrong_labels, found.unknown_labels) == (1, 1, 1, 0)


def test_an_entry_without_its_own_outcome_is_left_out_of_the_corrected_numbers_only(folder: Path, tmp_path: Path) -> None:
    outcomes = [outcome for *_, outcome in ENTRIES]
    frame = labels(ground_truth_scored=pl.Series(["yes", *outcomes[1:]]), ground_truth_true=pl.Series([None, *outcomes[1:]])).drop(
        "ground_truth"
    )
    model = examine(read_results(folder), read_label_frame(tmp_path, frame), replicates=200).models[0]
    assert model.corrected is not None
    assert model.consistent is not None
    assert (model.corrected.n, model.consistent.n) == (4, 5)
    assert set(model.numbers()["status"]) == {"equal"}
    assert model.findings.unknown_labels == 1


def test_without_labels_only_what_needs_none_is_recomputed(folder: Path) -> None:
    model = examine(read_results(folder), replicates=200).models[0]
    numbers = model.numbers()
    equal = set(numbers.filter(pl.col("status") == "equal")["metric"])
    assert {"num_samples", "parse_rate", "avg_confidence", "avg_latency_ms", "total_tokens", "total_cost_usd"} <= equal
    assert {"reliability[0.8-0.9].count", "reliability[0.8-0.9].avg_confidence"} <= equal
    assert not {"accuracy", "brier_score", "ece", "tp", "avg_confidence_when_wrong", "reliability[0.8-0.9].avg_accuracy"} & equal
    assert set(numbers["status"]) == {"equal", "not recomputed"}
    assert numbers.filter(pl.col("status") == "not recomputed")["reason"].str.contains("--labels").all()
    assert model.corrected is None
    assert model.findings.wrong_labels is None


def test_a_number_that_does_not_follow_from_the_predictions_differs(write: Write, label_file: Path) -> None:
    folder = write(model=result(brier_score=0.1))
    numbers = examine(read_results(folder), read_labels(label_file), replicates=200).models[0].numbers()
    assert numbers.filter(pl.col("status") == "differs")["metric"].to_list() == ["brier_score"]


def test_a_stored_sort_decides_the_ace_of_ties(write: Write, tmp_path: Path) -> None:
    """Two entries tie at 0.6. Their order decides between two published values."""
    rows = [
        {"question_id": f"KX{index}", "predicted_answer": "yes", "predicted_probability": p, "raw_output": None}
        for index, p in enumerate([0.6, 0.6, 0.7, 0.8, 0.9, 0.55, 0.65, 0.75, 0.85, 0.95])
    ]
    folder = write(model=result(predictions=rows))
    frame = pl.DataFrame({"question_id": [row["question_id"] for row in rows], "ground_truth": ["yes", "no"] * 5})
    values = []
    for first, second in ((1, 2), (2, 2)):
        order = [first, second, 4, 6, 8, 0, 3, 5, 7, 9]
        model = examine(
            read_results(folder), read_label_frame(tmp_path, frame.with_columns(ace_bin=pl.Series(order))), replicates=200
        ).models[0]
        values.append(model.recomputed["ace"])
        assert not model.recomputation.ace_varies
    assert values[0] != values[1]
    assert examine(read_results(folder), read_label_frame(tmp_path, frame), replicates=200).models[0].recomputation.ace_varies


def test_a_response_that_reads_otherwise_than_stored_is_counted_and_not_used(write: Write, label_file: Path) -> None:
    rows = predictions()
    rows[4]["raw_output"] = "<answer>yes</answer><confidence>30</confidence>"
    model = examine(read_results(write(model=result(predictions=rows))), read_labels(label_file), replicates=200).models[0]
    assert model.findings.misread == 1
    assert model.entries["p_consistent"][4] == pytest.approx(0.2)


def test_a_model_without_an_answer_has_no_numbers(write: Write, label_file: Path) -> None:
    rows = [row | {"predicted_answer": None, "predicted_probability": None, "raw_output": ""} for row in predictions()]
    model = examine(read_results(write(model=result(predictions=rows))), read_labels(label_file), replicates=200).models[0]
    assert set(model.numbers()["status"]) == {"not recomputed"}
    assert model.corrected is not None
    assert model.corrected["brier"].value is None
    assert model.corrected["coverage"].value == 0


def own_result(**changes: Any) -> dict[str, Any]:
    """Return a result file as Bellwether writes it: unique ids, included labels, strict numbers."""
    rows = [
        {"question_id": f"kalshi:M{index}", "predicted_answer": answer, "predicted_probability": p, "ground_truth": truth}
        | {"category": "World", "cluster": f"kalshi:S{index // 2}", "raw_output": f"<answer>{answer}</answer><confidence>40</confidence>"}
        for index, (answer, p, truth) in enumerate([("no", 0.6, "no"), ("yes", 1.0, "yes"), ("yes", 0.7, "no"), ("no", 0.1, "no")])
    ]
    scores = {"brier_score": (0.36 + 0 + 0.49 + 0.01) / 4, "ece": (0.6 + 0 + 0.7 + 0.1) / 4, "accuracy": 0.75, "num_samples": 4}
    last = {"bin": "0.9-1.0", "avg_confidence": 1.0, "avg_accuracy": 1.0, "count": 1}
    return {"model_name": "ours", "benchmark": "Bellwether", **scores, "reliability_diagram": [last], "predictions": rows} | changes


def test_what_bellwether_wrote_is_checked_with_its_own_labels_and_rules(write: Write) -> None:
    examined = examine(read_results(write(ours=own_result())), replicates=200)
    model = examined.models[0]
    assert set(model.numbers()["status"]) == {"equal"}
    assert model.entries["p_consistent"].to_list() == [0.6, 1.0, 0.7, 0.1]
    assert model.findings.inverted == 0
    assert model.corrected is not None
    assert model.corrected.n_clusters == 2


def test_every_number_of_a_report_follows_from_its_predictions(write: Write) -> None:
    """Separate code writes reports from benchmark tables. One model lacks some questions."""
    inputs = frames.example()
    files = {
        f"m{index}": build_model_file(inputs, name, frames.predictions_of(inputs, name)) for index, name in enumerate(inputs.forecasters)
    }
    examined = examine(read_results(write(**json.loads(json.dumps(files, default=str)))), replicates=200)
    numbers = examined.numbers()
    assert numbers.filter(pl.col("status") == "differs").rows() == []
    kept = numbers.filter(pl.col("status") == "not recomputed")["metric"]
    assert all(metric.startswith(("total_", "avg_latency")) for metric in kept)
    pairs = next(iter(examined.comparisons().values())).pairs
    theirs = {(row["forecaster"], row["other"]): row for row in inputs.comparisons.iter_rows(named=True)}
    assert pairs.height == len(theirs)
    for row in pairs.iter_rows(named=True):
        same = theirs.get((row["forecaster"], row["other"])) or theirs[row["other"], row["forecaster"]]
        assert row["n"] == same["n"]
        assert abs(row["difference"]) == pytest.approx(abs(same["difference"]))
