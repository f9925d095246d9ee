"""Reading of results folders and labels, and the printed comparison."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from bellwether.console import console
from bellwether.errors import ConfigError
from bellwether.kalshibench import compare_numbers, read_labels, read_results
from bellwether.kalshibench.__main__ import main
from tests.unit.kalshibench.result_folders import (
    ENTRIES,
    Write,
    labels,
    predictions,
    result,
    write_all,
    write_folder,
    write_labels,
    write_one_model,
)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_folder, tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_one_model(tmp_path)


def test_a_folder_of_tiers_is_read_whole(folder: Path) -> None:
    results = read_results(folder)
    (model,) = results.models
    assert (model.name, model.source) == ("Test-Model", "tier1/test_model_20251217_020000.json")
    assert model.prices == (3.0, 15.0)
    assert model.published["tp"] == 2
    assert model.published["reliability[0.8-0.9].count"] == 1
    assert model.published["category[World].count"] == 3
    assert model.predictions["question_id"].to_list() == [question for question, *_ in ENTRIES]
    assert [(summary.name, summary.source) for summary in results.summaries] == [("Test-Model", "tier1/summary_20251217_030000.json")]


def test_what_a_file_may_lack_it_may_lack(write: Write) -> None:
    rows = [{name: row[name] for name in ("question_id", "predicted_answer", "predicted_probability")} for row in predictions()]
    model = read_results(write(a={"model_name": "bare", "predictions": rows})).models[0]
    assert model.published == {}
    assert model.predictions["input_tokens"].null_count() == 6


def broken(field: str, value: Any) -> dict[str, Any]:
    rows = predictions()
    rows[1][field] = value
    return result(predictions=rows)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (broken("predicted_probability", 1.4), r"predictions\.1\.predicted_probability is 1\.4"),
        (broken("predicted_probability", float("nan")), r"predictions\.1\.predicted_probability is NaN"),
        (broken("predicted_probability", None), r"predictions\.1\.predicted_probability is null"),
        (broken("predicted_answer", "maybe"), r'predictions\.1\.predicted_answer is "maybe"'),
        (broken("output_tokens", -1), r"predictions\.1\.output_tokens is -1"),
        (result(confusion_matrix={"tp": "many"}), r'confusion_matrix\.tp is "many"'),
        (result(per_category={"World": 3}), r"per_category\.World is 3"),
        (result(accuracy=float("nan")), "accuracy is NaN"),
        ("[" * 100_000, "JSON"),
        (result(benchmark="Bellwether"), "report of Bellwether"),
    ],
)
def test_a_broken_file_is_refused_with_its_field(write: Write, document: Any, place: str) -> None:
    with pytest.raises(ConfigError, match=rf"bad\.json: .*{place}"):
        read_results(write(good=result("Good"), bad=document))


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    folder = write_all(tmp_path / "results", {"summary_1.json": {"models": {}}})
    for path in (folder, tmp_path / "nowhere"):
        with pytest.raises(ConfigError):
            read_results(path)


@pytest.mark.parametrize("kind", ["csv", "parquet", "json"])
def test_labels_are_read_from_any_of_three_formats(folder: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"labels.{kind}"
    getattr(labels(), f"write_{kind}")(path)
    assert set(compare_numbers(read_results(folder), read_labels(path))["status"]) == {"equal"}


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (labels().drop("ground_truth"), "needs question_id and ground_truth"),
        (labels(ground_truth=pl.lit("maybe")), "row 1: .*'maybe'"),
        (labels(question_id=pl.lit(None, pl.String)), "row 1: question_id is None"),
        (labels(entry_index=pl.lit("first")), "entry_index"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(tmp_path: Path, frame: pl.DataFrame, text: str) -> None:
    path = tmp_path / "labels.parquet"
    frame.write_parquet(path)
    with pytest.raises(ConfigError, match=rf"labels\.parquet.*{text}"):
        read_labels(path)


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_text("no table")
    for name in ("labels.xlsx", "missing.csv", "broken.parquet"):
        with pytest.raises(ConfigError, match=name):
            read_labels(tmp_path / name)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "200")
    console.cache_clear()
    yield
    console.cache_clear()


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(main, [*map(str, arguments)])
    return done.exit_code, done.output


def test_the_comparison_is_printed(folder: Path, tmp_path: Path) -> None:
    code, output = run(folder, "--labels", write_labels(tmp_path))
    assert code == 0
    assert "tier1/test_model_20251217_020000.json" in output
    assert "Not" not in output
    code, output = run(folder)
    assert code == 0
    assert "needs labels" in output


def test_a_number_that_differs_is_printed_with_exit_code_1(write: Write, tmp_path: Path) -> None:
    code, output = run(write(model=result(brier_score=0.125)), "--labels", write_labels(tmp_path))
    assert code == 1
    assert "brier_score" in output and "0.125" in output


def test_an_error_is_one_line(tmp_path: Path) -> None:
    code, output = run(tmp_path / "nowhere")
    assert (code, len(output.splitlines())) == (1, 1)
