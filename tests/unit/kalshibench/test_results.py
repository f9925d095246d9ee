"""Reading of results folders and labels: accepted variants, and named errors."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.errors import ConfigError
from bellwether.kalshibench import read_labels, read_results
from tests.unit.kalshibench.result_folders import (
    ENTRIES,
    Write,
    labels,
    predictions,
    result,
    write_all,
    write_folder,
    write_one_model,
)

OWN = [outcome for *_, outcome in ENTRIES]

#: The last entry of KXDUP decides for both.
SCORED = ["yes", "yes", "no", "yes", "no", "yes"]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_folder, tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_one_model(tmp_path)


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
    ("document", "place"),
    [
        (broken("predicted_probability", 1.4), "predictions[1].predicted_probability is 1.4"),
        (broken("predicted_probability", float("nan")), "predictions[1].predicted_probability is NaN"),
        (broken("predicted_answer", "maybe"), 'predictions[1].predicted_answer is "maybe"'),
        (broken("latency_ms", 10**400), "predictions[1].latency_ms"),
        (broken("output_tokens", -1), "predictions[1].output_tokens is -1"),
        (result(confusion_matrix={"tp": "many"}), 'confusion_matrix.tp is "many"'),
        (result(per_category={"World": 3}), "per_category.World is 3"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_broken_file_is_named_and_the_rest_is_read(write: Write, document: Any, place: str) -> None:
    results = read_results(write(good=result("Good"), bad=document))
    assert results.names() == ["Good"]
    (sentence,) = results.damaged
    assert sentence.startswith("reading bad.json: ") and place in sentence


def test_a_single_result_file_is_read(folder: Path) -> None:
    results = read_results(folder / "tier1" / "test_model_20251217_020000.json")
    assert results.names() == ["Test-Model"]
    assert results.models[0].source == "test_model_20251217_020000.json"
    assert results.summaries == []


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


def test_rows_of_other_models_are_left_out(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    other = labels(model=pl.lit("Other"), ground_truth=pl.lit("no"))
    pl.concat([other, labels(model=pl.lit("Test-Model"))], how="diagonal").write_parquet(path)
    assert of_the_entries(path, folder)["true"].to_list() == OWN


def test_labels_that_fit_two_sets_are_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    sets = [
        labels(question_set=pl.lit(name), ground_truth=pl.lit(truth)).sort("question_id") for name, truth in (("one", "yes"), ("two", "no"))
    ]
    pl.concat(sets).drop("entry_index").write_csv(path)
    with pytest.raises(ConfigError, match="one, two"):
        read_labels(path).of(read_results(folder).models[0])


def test_labels_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    for frame in (
        labels().drop("ground_truth"),
        labels(ground_truth=pl.lit("maybe")),
        labels(entry_index=pl.lit(0)),
        labels(question_id=pl.lit(None, pl.String)),
        labels(entry_index=pl.Series([0, 1, 2, None, 4, 5])),
        labels(entry_index=pl.lit("first")),
        labels().clear(),
    ):
        frame.write_parquet(path)
        with pytest.raises(ConfigError, match=re.escape("labels.parquet")):
            read_labels(path)
    (tmp_path / "broken.parquet").write_text("no table")
    for name in ("labels.xlsx", "missing.csv", "broken.parquet"):
        with pytest.raises(ConfigError):
            read_labels(tmp_path / name)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    folder = write_all(tmp_path / "results", {"summary_1.json": {"models": {}}})
    for path in (folder, folder / "summary_1.json", tmp_path / "nowhere"):
        with pytest.raises(ConfigError):
            read_results(path)
