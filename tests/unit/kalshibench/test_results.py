"""Reading of results folders and labels: accepted variants, and named errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.errors import ConfigError
from bellwether.kalshibench import read_labels, read_results
from tests.unit.kalshibench.result_folders import ENTRIES, Write, labels, predictions, result

OWN = [outcome for *_, outcome in ENTRIES]

#: The last entry of KXDUP decides for both.
SCORED = ["yes", "yes", "no", "yes", "no", "yes"]


def of_the_entries(path: Path, folder: Path) -> pl.DataFrame:
    """Return the labels in a file for the entries of the folder's only model."""
    return read_labels(path).of(read_results(folder).models[0]).rows


def test_a_folder_of_tiers_is_read_whole(folder: Path) -> None:
    results = read_results(folder)
    assert results.names() == ["Test-Model"]
    model = results.models[0]
    assert model.source == "tier1/test_model_20251217_020000.json"
    assert model.prices == (3.0, 15.0)
    assert model.published["tp"] == 2
    assert model.published["reliability[0.8-0.9].count"] == 1
    assert model.published["category[World].count"] == 3
    assert model.predictions["question_id"].to_list() == [question for question, *_ in ENTRIES]
    assert [(name, source) for name, source, _ in results.summaries] == [("Test-Model", "tier1/summary_20251217_030000.json")]


def test_of_several_results_of_a_model_the_newest_counts(write: Write) -> None:
    newer = result(timestamp="2026-01-01T00:00:00", accuracy=0.5)
    results = read_results(write(a_1=newer, a_2=result()))
    assert results.names() == ["Test-Model"]
    assert results.models[0].published["accuracy"] == 0.5
    assert results.left_out == ["a_2.json is passed over: a_1.json is a newer result of Test-Model"]


def test_files_without_predictions_are_passed_over(write: Write) -> None:
    results = read_results(write(a=result(), other={"hello": 1}, empty=result(predictions=[])))
    assert results.names() == ["Test-Model"]
    assert len(results.left_out) == 2


def test_what_a_file_may_lack_it_may_lack(write: Write) -> None:
    rows = [{name: row[name] for name in ("question_id", "predicted_answer", "predicted_probability")} for row in predictions()]
    model = read_results(write(a={"model_name": "bare", "predictions": rows})).models[0]
    assert model.published == {}
    assert model.predictions["raw_output"].null_count() == 6


def broken(field: str, value: Any) -> dict[str, Any]:
    rows = predictions()
    rows[1][field] = value
    return result(predictions=rows)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (broken("predicted_probability", 1.4), r"predictions\[1\].predicted_probability is 1.4"),
        (broken("predicted_probability", float("nan")), r"predictions\[1\].predicted_probability is NaN"),
        (broken("predicted_answer", "maybe"), r'predictions\[1\].predicted_answer is "maybe"'),
        (broken("raw_output", 5), r"predictions\[1\].raw_output is 5"),
        (broken("latency_ms", 10**400), r"predictions\[1\].latency_ms is"),
        (broken("input_tokens", 1e30), r"predictions\[1\].input_tokens is 1e\+30"),
        (broken("output_tokens", -1), r"predictions\[1\].output_tokens is -1"),
        ('{"model_name": ' + "1" * 5_000 + "}", "not JSON"),
        (result(confusion_matrix={"tp": "many"}), 'confusion_matrix.tp is "many"'),
        (
            result(reliability_diagram=[{"bin": "0.0-0.1", "avg_confidence": 0.1, "count": 3}]),
            r"reliability_diagram\[0\].avg_accuracy is missing",
        ),
        (result(per_category={"World": 3}), "per_category.World is 3"),
        ("[1, 2", "not JSON: .* in line 1"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_broken_is_named_with_its_file_and_the_rest_read(write: Write, document: Any, message: str) -> None:
    results = read_results(write(good=result("Good"), bad=document))
    assert results.names() == ["Good"]
    (sentence,) = results.damaged
    assert re.match(f"reading bad.json: .*{message}", sentence)


@pytest.mark.parametrize("name", ["summary_1", "metadata_1"])
def test_a_broken_file_without_predictions_does_not_stop_the_others(write: Write, name: str) -> None:
    results = read_results(write(good=result("Good"), **{name: '{"models": {"Good": '}))
    assert results.names() == ["Good"]
    assert "not JSON" in results.damaged[0]


def test_a_single_result_file_is_read(folder: Path) -> None:
    results = read_results(folder / "tier1" / "test_model_20251217_020000.json")
    assert results.names() == ["Test-Model"]
    assert results.models[0].source == "test_model_20251217_020000.json"
    assert results.summaries == []


def test_results_that_are_none_are_refused(write: Write, tmp_path: Path) -> None:
    folder = write(summary_1={"models": {}})
    for path, message in ((folder, "no result file"), (folder / "summary_1.json", "no result file"), (tmp_path / "nowhere", "there is no")):
        with pytest.raises(ConfigError, match=message):
            read_results(path)


@pytest.mark.parametrize("kind", ["csv", "parquet", "json"])
def test_labels_are_read_from_any_of_three_formats(folder: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"labels.{kind}"
    getattr(labels(), f"write_{kind}")(path)
    rows = of_the_entries(path, folder)
    assert rows["true"].to_list() == OWN
    assert rows["scored"].to_list() == SCORED


def test_entries_are_found_by_id_and_occurrence_where_the_order_differs(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    labels().select("question_id", "ground_truth").sort("question_id", maintain_order=True).write_csv(path)
    rows = of_the_entries(path, folder)
    assert rows["true"].to_list() == OWN
    assert rows["scored"].to_list() == SCORED


@pytest.mark.parametrize("indexed", [True, False])
def test_one_label_for_two_entries_is_the_last_ones_own(folder: Path, tmp_path: Path, indexed: bool) -> None:
    """Scoring used the last entry's outcome for both, and the file lacks the first entry's outcome."""
    path = tmp_path / "labels.csv"
    labels().unique("question_id", keep="last", maintain_order=True).drop([] if indexed else ["entry_index"]).write_csv(path)
    rows = of_the_entries(path, folder)
    assert rows["true"].to_list() == [None, *OWN[1:]]
    assert rows["scored"].to_list() == SCORED


def test_a_label_of_the_first_of_two_entries_says_nothing_of_the_last(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    labels().unique("question_id", keep="first", maintain_order=True).write_csv(path)
    rows = of_the_entries(path, folder)
    assert rows["true"].to_list() == ["no", "yes", "no", None, "no", "yes"]
    assert rows["scored"].to_list() == [None, "yes", "no", None, "no", "yes"]


def test_what_an_id_was_scored_with_is_the_own_outcome_of_its_last_entry(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    labels(ground_truth_scored=pl.Series(SCORED)).drop("ground_truth").write_csv(path)
    assert of_the_entries(path, folder)["true"].to_list() == [None, *OWN[1:]]


def test_rows_of_other_models_are_left_out(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    other = labels(model=pl.lit("Other"), ground_truth=pl.lit("no"))
    pl.concat([other, labels(model=pl.lit("Test-Model"))], how="diagonal").write_parquet(path)
    assert of_the_entries(path, folder)["true"].to_list() == OWN


def test_labels_of_other_models_serve_one_that_the_file_does_not_name(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    others = [labels(model=pl.lit(name), ace_bin=pl.lit(3)) for name in ("Other", "Another")]
    pl.concat(others).write_parquet(path)
    rows = of_the_entries(path, folder)
    assert rows["true"].to_list() == OWN
    assert rows["ace_bin"].null_count() == rows.height


def test_labels_that_fit_two_sets_are_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    sets = [
        labels(question_set=pl.lit(name), ground_truth=pl.lit(truth)).sort("question_id") for name, truth in (("one", "yes"), ("two", "no"))
    ]
    pl.concat(sets).drop("entry_index").write_csv(path)
    with pytest.raises(ConfigError, match="one, two"):
        read_labels(path).of(read_results(folder).models[0])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (labels().drop("ground_truth"), "it needs question_id and one of"),
        (labels(ground_truth=pl.lit("maybe")), "neither yes nor no"),
        (labels(entry_index=pl.lit(0)), "the same entry_index twice"),
        (labels(question_id=pl.lit(None, pl.String)), "question_id is null"),
        (labels(entry_index=pl.Series([0, 1, 2, None, 4, 5])), "entry_index is null"),
        (labels(entry_index=pl.lit("first")), "a column of another type"),
        (labels().clear(), "has no rows"),
    ],
)
def test_labels_that_cannot_be_used_are_named(tmp_path: Path, frame: pl.DataFrame, message: str) -> None:
    path = tmp_path / "labels.parquet"
    frame.write_parquet(path)
    with pytest.raises(ConfigError, match=f"labels.parquet.*{message}"):
        read_labels(path)


def test_a_labels_file_that_is_none_is_named(tmp_path: Path) -> None:
    for name, message in (("labels.xlsx", "neither CSV"), ("missing.csv", "there is no file"), ("broken.parquet", "cannot be read")):
        path = tmp_path / name
        if "missing" not in name:
            path.write_text("no table")
        with pytest.raises(ConfigError, match=message):
            read_labels(path)
