"""The JSON of a report: numbers equal the tables', predictions have labels, and names are KalshiBench's."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, brier_score_loss, confusion_matrix

from bellwether.errors import ConfigError
from bellwether.forecasting import forecasters
from bellwether.kalshibench import read_results
from bellwether.report.inputs import ReportInputs, configuration
from bellwether.report.results import NAMES, leaderboards, model_config
from bellwether.report.writer import write_report
from tests.report import frames
from tests.report.frames import example, forecast, model_forecast, question, questions

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def inputs() -> ReportInputs:
    return example()


def read(folder: Path, beginning: str) -> dict[str, Any]:
    (found,) = folder.glob(f"{beginning}_2*.json")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(found.read_text(encoding="utf-8"), parse_constant=refuse)


def small(rows: list[dict[str, Any]], truths: str = "ynyn") -> ReportInputs:
    """Return a release of one letter per question with these forecasts."""
    of = questions([question(number, {"y": "yes", "n": "no"}[letter]) for number, letter in enumerate(truths)])
    return frames.inputs(of, frames.forecasts(rows))


def test_the_seeds_files_are_there_with_the_time_of_the_data(folder: Path) -> None:
    names = {file.name for file in folder.iterdir() if file.suffix != ".png"}
    assert names == {
        f"{name}_20260105_060708.{suffix}"
        for name, suffix in (
            ("always-half", "json"),
            ("good_model-9ab7a81d", "json"),
            ("wild", "json"),
            ("summary", "json"),
            ("metadata", "json"),
            ("dataset_analysis", "json"),
            ("report", "md"),
        )
    }


@pytest.mark.slow
def test_another_process_with_other_hashes_writes_the_same_bytes(tmp_path: Path) -> None:
    write_report(frames.tiny(), tmp_path / "here")
    code = "import sys; from tests.report.frames import tiny; from bellwether.report.writer import write_report; write_report(tiny(), sys.argv[1])"
    hashes = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], check=True, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": hashes})
    here, there = ({file.name: file.read_bytes() for file in (tmp_path / name / "q").iterdir()} for name in ("here", "there"))
    assert here == there


@pytest.mark.parametrize(("file", "forecaster"), [("wild", "wild"), ("good_model-9ab7a81d", "good/model"), ("always-half", "always-half")])
def test_every_metric_of_a_model_equals_the_scores(inputs: ReportInputs, folder: Path, file: str, forecaster: str) -> None:
    found = read(folder, file)
    scores = inputs.scores.filter(pl.col("forecaster") == forecaster)
    assert scores.height > 100
    for row in scores.iter_rows(named=True):
        metrics = found["metrics"] if row["scope"] == "all" else found["scopes"][row["scope"]]
        for name in ("value", "lower", "upper", "reason", "expected", "p_calibrated", "n", "n_clusters"):
            assert metrics[row["metric"]][name] == row[name], (row["scope"], row["metric"], name)
    for published, ours in NAMES.items():
        assert found[published] == found["metrics"][ours]["value"]


def test_the_metrics_can_be_recomputed_from_the_predictions_and_labels_of_the_same_file(folder: Path) -> None:
    found = read(folder, "wild")
    rows = [one for one in found["predictions"] if one["predicted_answer"] is not None]
    y = np.array([one["ground_truth"] == "yes" for one in rows])
    p = np.array([one["predicted_probability"] for one in rows])
    said = np.array([one["predicted_answer"] == "yes" for one in rows])
    assert found["brier_score"] == pytest.approx(brier_score_loss(y, p))
    assert found["accuracy"] == pytest.approx(accuracy_score(y, said))
    assert [one["correct"] for one in rows] == (y == said).tolist()
    ((tn, fp), (fn, tp)) = confusion_matrix(y, said)
    assert found["confusion_matrix"] == {"tp": tp, "fp": fp, "fn": fn, "tn": tn}
    assert found["parse_rate"] == len(rows) / len(found["predictions"])
    for name, row in found["per_category"].items():
        assert row["count"] == sum(one["category"] == name for one in rows)


def test_predictions_carry_everything_that_is_known_of_them(inputs: ReportInputs, folder: Path) -> None:
    of = {row["id"]: row for row in inputs.questions.iter_rows(named=True)}
    rows = {row["question_id"]: row for row in inputs.forecasts.filter(pl.col("forecaster") == "good/model").iter_rows(named=True)}
    found = read(folder, "good_model-9ab7a81d")["predictions"]
    assert [one["question_id"] for one in found] == inputs.questions.sort("ordinal")["id"].to_list()
    for one in found:
        truth, row = of[one["question_id"]], rows[one["question_id"]]
        assert one["ground_truth"] == truth["ground_truth"]
        assert one["question"] == truth["question"]
        assert one["category"] == truth["category"]
        for name in ("open_time", "close_time", "settled_at"):
            assert datetime.fromisoformat(one[name]) == truth[name]
        assert one["raw_output"] == row["raw_response"]
        assert (one["predicted_probability"], one["predicted_answer"]) == (row["p_yes"], row["answer"])
        assert (one["confidence"], one["parsed_by"], one["prompt_hash"]) == (row["confidence"], row["parsed_by"], row["prompt_hash"])
        assert (one["input_tokens"], one["output_tokens"]) == (row["input_tokens"], row["output_tokens"])
        assert one["cost_microdollars"] == 1234
        assert one["latency_ms"] == 1000 * row["latency"]
        assert one["samples"] == []


def test_several_samples_stand_below_the_forecast_that_was_scored(inputs: ReportInputs, folder: Path) -> None:
    rows = inputs.forecasts.filter(pl.col("forecaster") == "wild")
    for one in read(folder, "wild")["predictions"]:
        samples = rows.filter(pl.col("question_id") == one["question_id"])
        assert [sample["predicted_probability"] for sample in one["samples"]] == samples["p_yes"].to_list()
        if one["predicted_answer"] is not None:
            assert one["predicted_probability"] == samples["p_yes"].median()
        assert one["input_tokens"] == samples["input_tokens"].sum()


def test_what_could_be_known_is_kept_apart_and_what_failed_says_why(folder: Path) -> None:
    found = read(folder, "wild")
    assert [one["question_id"] for one in found["excluded"]] == ["kalshi:M0", "kalshi:M1"]
    assert all(one["could_know"] for one in found["excluded"])
    failed = [one for one in found["predictions"] if one["predicted_answer"] is None]
    assert [one["question_id"] for one in failed] == ["kalshi:M7", "kalshi:M19"]
    assert all(one["error"] == "it took too long" and one["failure"] == "timeout" for one in failed)
    assert all(one["predicted_probability"] is one["correct"] is one["cost_microdollars"] is None for one in failed)
    assert found["leaderboard"]["could_know"] == len(found["excluded"])
    assert found["leaderboard"]["failed"] == len(failed)


def test_money_is_exact() -> None:
    costs = ["0.100000", "0.200000", "0.000001", None]
    rows = [model_forecast("m", number, 0.4, cost=None if cost is None else Decimal(cost)) for number, cost in enumerate(costs)]
    made = frames.predictions_of(small(rows), "m")
    assert made.usage()["cost_microdollars"] == 300_001
    assert made.usage()["without_cost"] == 1
    assert [one["cost_usd"] for one in made.scored] == [0.1, 0.2, 0.000001, None]


def test_the_summary_equals_the_leaderboard_and_the_comparisons(inputs: ReportInputs, folder: Path) -> None:
    found = read(folder, "summary")
    board = {row["forecaster"]: row for row in inputs.leaderboard.iter_rows(named=True)}
    assert list(found["models"]) == ["good/model", "always-half", "wild"]
    for name, row in board.items():
        assert found["models"][name]["brier_score"] == row["brier"]
        assert found["models"][name]["intervals"]["brier_score"] == [row["brier_lower"], row["brier_upper"]]
        for column in ("rank", "group", "in_mcs", "coverage", "could_know"):
            assert found["models"][name]["leaderboard"][column] == row[column]
    assert [pair["p_holm"] for pair in found["pairs"]] == inputs.comparisons.sort("forecaster", "other")["p_holm"].to_list()
    assert found["unranked"] == [{"model": "wild", "because": board["wild"]["unranked_because"]}]
    assert found["significance_groups"] == {"a": ["good/model"], "b": ["always-half"]}
    assert [line["model"] for line in found["leaderboard"]["by_brier_score"]] == ["good/model", "always-half"]
    assert [line["model"] for line in found["leaderboard"]["by_calibration"]] == ["always-half", "good/model"]


def test_a_score_of_zero_is_ranked_and_equal_scores_share_a_rank() -> None:
    rows = [forecast(name, number, float(number % 2 == 0)) for name in ("a", "b") for number in range(6)]
    rows += [forecast("c", number, 0.5) for number in range(6)]
    boards = leaderboards(small(rows, "ynynyn"))
    assert [(line["rank"], line["model"], line["brier_score"]) for line in boards["by_brier_score"]] == [
        (1, "a", 0),
        (1, "b", 0),
        (3, "c", 0.25),
    ]
    assert [line["rank"] for line in boards["by_accuracy"]] == [1, 1, 3]


def test_the_metadata_name_rules_versions_recipe_and_every_file_with_its_digest(inputs: ReportInputs, folder: Path) -> None:
    found = read(folder, "metadata")
    others = {file.name for file in folder.iterdir() if not file.name.startswith("metadata")}
    assert set(found["files"]) == others
    assert "journal" not in found, "counts of calls of this world would differ with who writes the report, and when"
    for name, file in found["files"].items():
        content = (folder / name).read_bytes()
        assert file == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert found["rules"]["benchmark/scores"] == inputs.scores["rules"].unique().to_list()
    assert found["ground_truth_distribution"]["yes"] == (inputs.questions["ground_truth"] == "yes").sum()
    assert found["price_maps"] == ["1.103/abc"]
    assert found["elicitations"] == ["tags/1"]
    assert found["revision"] is None
    assert found["packages"]["numpy"] == np.__version__


def test_the_configuration_is_the_registrys_under_published_names() -> None:
    entries = forecasters()
    rows = [model_forecast(name, number, 0.4) for name in ("gpt-4o", "always-no") for number in range(2)]
    inputs = replace(small(rows, "yn"), configurations={name: configuration(entries[name]) for name in ("gpt-4o", "always-no")})
    config = model_config(inputs, "gpt-4o")
    assert (config["name"], config["litellm_model"], config["provider"]) == ("GPT-4o", "openai/gpt-4o", "openai")
    assert (config["temperature"], config["max_tokens"], config["elicitation"]) == (0.7, 16384, "tags")
    assert datetime.fromisoformat(config["knowledge_cutoff"]) == entries["gpt-4o"].knowledge_cutoff
    assert config["version"] == entries["gpt-4o"].version
    assert model_config(inputs, "always-no")["kind"] == "constant"


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.floats(0, 1)), st.booleans(), st.booleans()),
        min_size=2,
        max_size=12,
    )
)
@settings(max_examples=8, deadline=None)
def test_any_forecasts_give_predictions_whose_counts_are_those_of_the_leaderboard(drawn: list[tuple[float | None, bool, bool]]) -> None:
    truths = "".join("y" if yes else "n" for _, yes, _ in drawn)
    inputs = small([forecast("m", number, p, could_know=known) for number, (p, _, known) in enumerate(drawn)], truths)
    made = frames.predictions_of(inputs, "m")
    line = inputs.leaderboard.row(0, named=True)
    assert len(made.excluded) == line["could_know"]
    assert len(made.answered) == line["n"]
    assert len(made.scored) - len(made.answered) == line["failed"]
    cells = made.confusion()
    accuracy = None if not made.answered else (cells["tp"] + cells["tn"]) / len(made.answered)
    assert accuracy is line["accuracy"] is None or accuracy == pytest.approx(line["accuracy"])


def test_a_release_without_a_leaderboard_and_rows_of_two_releases_are_errors(inputs: ReportInputs) -> None:
    with pytest.raises(ConfigError, match="leaderboard is empty"):
        replace(inputs, leaderboard=inputs.leaderboard.clear())
    with pytest.raises(ConfigError, match="of the releases other, q"):
        replace(inputs, questions=inputs.questions.with_columns(release=pl.lit("other")))


def test_the_published_folder_reader_reads_the_files(folder: Path) -> None:
    results = read_results(folder)
    assert set(results.names()) == {"wild", "good/model", "always-half"}
    assert not results.left_out
    (wild,) = (model for model in results.models if model.name == "wild")
    assert wild.predictions.height == 22
    assert wild.predictions["ground_truth"].null_count() == 0
    assert wild.published["brier_score"] == read(folder, "wild")["brier_score"]
