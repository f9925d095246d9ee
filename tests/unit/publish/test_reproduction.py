"""An exported release with forecasts: its scores are computed a second time from the folder alone, and its metadata are valid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from bellwether.calibration.scores import score
from bellwether.publish import export
from bellwether.publish.card import CARD, FORECASTS, SCORES
from bellwether.scoring import score as score_files
from bellwether.settings import World
from tests.unit.report import frames


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    questions = frames.release(40)
    rows = [frames.forecast("even", number, (number % 7) / 7 + 1 / 30) for number in range(40)]
    for sample in range(2):
        facts = {"sample": sample, "combine": "median"}
        for number in range(40):
            p = None if number == 5 else (13 * number + 7 * sample) % 97 / 100
            rows.append(frames.model_forecast("model", number, p, could_know=number == 9, **facts))
    forecasts = frames.forecasts(rows)
    scores = score(forecasts, questions)
    target = tmp_path_factory.mktemp("exported") / "q"
    return export(questions, target, forecasts=forecasts, scores=scores, world=World.SANDBOX).folder


def numbers(folder: Path, forecaster: str) -> dict[str, dict[str, float]]:
    rows = pl.read_parquet(folder / SCORES).filter(scope="all", forecaster=forecaster)
    return {row["metric"]: row for row in rows.iter_rows(named=True)}


@pytest.mark.parametrize("forecaster", ["even", "model"])
def test_plain_numpy_gives_the_scores_of_the_folder(folder: Path, forecaster: str) -> None:
    rows = pl.read_parquet(folder / FORECASTS).filter(forecaster=forecaster)
    counted = rows.drop_nulls("probability")
    p, price = counted["probability"].to_numpy(), counted["market_price"].to_numpy()
    y = (counted["outcome"] == "yes").cast(pl.Float64).to_numpy()
    error = (p - y) ** 2
    bins = np.minimum((p * 10).astype(int), 9)
    priced = ~np.isnan(price)
    expected = {
        "brier": error.mean(),
        "brier_skill": 1 - error.mean() / (y.mean() * (1 - y.mean())),
        "ece": sum(abs((p - y)[bins == number].sum()) for number in range(10)) / len(p),
        "skill_vs_market": 1 - error[priced].sum() / ((price - y)[priced] ** 2).sum() if priced.any() else None,
        "coverage": len(p) / rows.height,
    }
    found = numbers(folder, forecaster)
    for metric, value in expected.items():
        assert found[metric]["value"] == (None if value is None else pytest.approx(value, abs=1e-12)), metric


def test_the_command_score_gives_the_intervals_of_the_folder(folder: Path) -> None:
    again = score_files(folder / FORECASTS).scores
    for forecaster in ("even", "model"):
        found = numbers(folder, forecaster)
        for row in again.filter(forecaster=forecaster).filter(pl.col("metric").is_in(["brier", "log_loss", "skill_vs_market"])).to_dicts():
            for end in ("value", "lower", "upper"):
                stated = found[row["metric"]][end]
                assert row[end] == (None if stated is None else pytest.approx(stated, abs=1e-9)), (row["metric"], end)


def test_evaluation_results_are_in_the_hubs_form(folder: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="a test tool; not installed")
    files = sorted((folder / ".eval_results").iterdir())
    assert [file.name for file in files] == ["even.yaml", "model.yaml"]
    entries = hub.parse_eval_result_entries(yaml.safe_load(files[1].read_text(encoding="utf-8")))
    found = numbers(folder, "model")
    assert {entry.task_id: entry.value for entry in entries}["brier"] == found["brier"]["value"]
    assert entries[0].dataset_id == "bellwether/q"
    assert entries[0].notes.startswith("38 of 40 questions in ")


def test_croissant_metadata_are_valid_and_lead_to_the_rows(folder: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    dataset = mlcroissant.Dataset(jsonld=folder / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    assert not dataset.metadata.ctx.issues.warnings
    first = next(iter(dataset.records("forecasts")))
    assert first["forecasts/question_id"] == b"kalshi:M0"
    assert [part.id for part in dataset.metadata.record_sets] == ["questions", "forecasts", "scores"]


def test_the_card_lists_all_tables_and_a_citation(folder: Path) -> None:
    text = (folder / CARD).read_text(encoding="utf-8")
    configs = yaml.safe_load(text.split("---\n")[1])["configs"]
    assert [config["config_name"] for config in configs] == ["questions", "forecasts", "scores"]
    assert "@misc{bellwether_q,\n  title = {Bellwether release q},\n  author = {{The Bellwether developers}}," in text
