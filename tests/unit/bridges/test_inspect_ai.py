"""Inspect logs of a release, forecasts read from logs, and the task `bellwether/release`."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

inspect_ai = pytest.importorskip("inspect_ai", reason="the extra `inspect` is not installed")

from inspect_ai.log import EvalLog, read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput, get_model

from bellwether.bridges import inspect_ai as bridge
from bellwether.calibration.scores import score
from bellwether.errors import BellwetherError, ConfigError, ScoringError
from cli.bridges import import_
from tests.unit.report import frames

QUESTIONS = frames.release(40)


def answers() -> pl.DataFrame:
    """Return forecasts of a baseline, and of a model with two samples, failures and a known outcome."""
    rows = [frames.forecast("even", number, (number % 7) / 7 + 1 / 30) for number in range(40)]
    for number in range(40):
        for sample in range(2):
            p = None if number == 5 or (number == 6 and sample) else (13 * number + 7 * sample) % 97 / 100
            facts = {"raw_response": f'{{"p_yes": {p}}}' if p is not None else "I refuse.", "combine": "median", "sample": sample}
            rows.append(frames.model_forecast("model", number, p, could_know=number == 9, **facts))
    return frames.forecasts(rows)


def expected(forecaster: str) -> dict[str, float]:
    """Return the numbers of the leaderboard."""
    table = score(answers().filter(forecaster=forecaster), QUESTIONS).filter(scope="all")
    numbers: dict[str, float] = {}
    for row in table.iter_rows(named=True):
        numbers |= {row["metric"]: row["value"]}
        numbers |= {f"{row['metric']}_{end}": row[end] for end in ("lower", "upper", "expected", "p_calibrated")}
    return numbers


def numbers(log: EvalLog) -> dict[str, float]:
    return {name: metric.value for name, metric in log.results.scores[0].metrics.items()}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "logs"
    bridge.write_logs(QUESTIONS, answers(), folder)
    return folder


@pytest.mark.parametrize("forecaster", ["even", "model"])
def test_logs_and_their_rescoring_have_the_numbers_of_the_leaderboard(exported: Path, forecaster: str) -> None:
    log = read_eval_log(exported / f"{forecaster}-001.eval")
    again = inspect_ai.score(log, bridge.forecast(), action="overwrite", display="none")
    wanted = expected(forecaster)
    for found in (numbers(log), numbers(again)):
        for name in ("brier", "brier_lower", "brier_upper", "brier_skill", "skill_vs_market", "skill_vs_market_upper", "ece", "coverage"):
            assert found[name] == pytest.approx(wanted[name], abs=1e-12), name
        assert found["ece_p_calibrated"] == pytest.approx(wanted["ece_p_calibrated"], abs=2e-3)
    sample = log.samples[6]
    assert (sample.target, sample.metadata["cluster"]) == (
        QUESTIONS["ground_truth"][sample.metadata["ordinal"]],
        f"kalshi:S{sample.metadata['ordinal'] // 2}",
    )


def test_long_exports_are_cut_between_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "SAMPLES_PER_LOG", 31)
    paths = bridge.write_logs(QUESTIONS, answers().filter(forecaster="model"), tmp_path / "logs")
    assert [len(read_eval_log(path).samples) for path in paths] == [30, 30, 20]
    (tmp_path / "logs" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something other than logs"):
        bridge.write_logs(QUESTIONS, answers(), tmp_path / "logs")


def test_an_answer_that_reads_as_another_number_is_an_error(tmp_path: Path) -> None:
    changed = answers().filter(forecaster="model").with_columns(raw_response=pl.lit('{"p_yes": 0.123}'))
    with pytest.raises(BellwetherError, match=r"reads as p_yes = 0\.123"):
        bridge.write_logs(QUESTIONS, changed, tmp_path / "logs")
    assert not (tmp_path / "logs").exists()


def test_forecasts_are_read_back_and_those_that_do_not_count_are_left_out(exported: Path) -> None:
    found = bridge.read_logs(exported)
    rows = found.table.frame.filter(forecaster="model")
    combined = answers().filter(forecaster="model").group_by("question_id").agg(pl.col("p_yes").median())
    merged = rows.join(combined, on="question_id")
    assert (merged["probability"].cast(pl.Float64) - merged["p_yes"]).abs().max() < 1e-15
    assert merged.height == 38
    assert [text.partition(": ")[2] for text in found.left_out] == [
        "no forecast: no answer: no tag, member or line states one",
        "the model could know the outcome",
    ]
    assert rows["stated_at"][0] == (frames.CUTOFF + timedelta(hours=6)).isoformat()
    assert found.table.place(0) == "even-001.eval, sample 'kalshi:M0'"


def foreign(tmp_path: Path, **changes: Any) -> Path:
    """Write a log of another task: no metadata, targets 0 and 1, answers that are numbers."""
    path = tmp_path / "hand.json"
    given = [("q0", "0", "0.1"), ("q1", "1", "0.8"), ("q2", "1", "0.4")]
    samples = [
        {"id": name, "epoch": 1, "input": "Will it?", "target": target, "output": ModelOutput.from_content("other", text).model_dump()}
        for name, target, text in given
    ]
    spec = {"created": "2026-11-25T00:00:00+00:00", "task": "other", "dataset": {}, "model": "other/none", "config": {"epochs": 1}}
    log = {"status": "success", "eval": spec | changes.pop("eval", {}), "samples": samples} | changes
    write_eval_log(EvalLog.model_validate(log), path, format="json")
    return path


def test_a_log_of_another_task_becomes_a_table_for_scoring(tmp_path: Path) -> None:
    target = tmp_path / "hand.csv"
    done = CliRunner().invoke(import_, [str(foreign(tmp_path)), "--format", "inspect", "--to", str(target)])
    assert done.exit_code == 0, done.output
    rows = pl.read_csv(target)
    assert rows.columns == ["forecaster", "question_id", "probability", "outcome"]
    assert ((rows["probability"] - rows["outcome"]) ** 2).mean() == pytest.approx(0.41 / 3, abs=1e-12)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"status": "error"}, "field status is 'error'"),
        ({"eval": {"config": {"epochs_reducer": ["max"]}}}, r"sample 'q0': field epochs_reducer is \['max'\]"),
    ],
)
def test_a_log_that_does_not_determine_forecasts_is_refused(tmp_path: Path, changes: dict[str, Any], found: str) -> None:
    with pytest.raises(ScoringError, match=found):
        bridge.read_logs(foreign(tmp_path, **changes))


def test_damaged_repeated_and_strange_samples_are_refused_with_file_and_sample(tmp_path: Path) -> None:
    path = foreign(tmp_path)
    content = json.loads(path.read_text())
    for change, found in (
        (lambda samples: samples.append(samples[0]), "sample 'q0': epoch 1 occurs twice"),
        (lambda samples: samples[1].update(target="maybe"), "sample 'q1': field target is 'maybe'"),
        (lambda samples: samples[1].pop("epoch"), "no log that this version"),
    ):
        changed = json.loads(json.dumps(content))
        change(changed["samples"])
        path.write_text(json.dumps(changed))
        with pytest.raises(ScoringError, match=found):
            bridge.read_logs(path)
    with pytest.raises(ScoringError, match="no such file"):
        bridge.read_logs(tmp_path / "missing.eval")


def test_the_task_asks_again_after_an_unreadable_answer_and_scores_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "load_fixed", lambda lake, name: QUESTIONS.head(6) if name == "q" else None)
    with pytest.raises(ConfigError, match="was not built"):
        bridge.release("other")
    with pytest.raises(ConfigError, match=r"horizon = '3d'"):
        bridge.release("q", horizon="3d")
    cutoff = (frames.CUTOFF + timedelta(days=1)).date()
    task = bridge.release("q", knowledge_cutoff=cutoff)
    assert task.dataset[0].metadata["could_know"]
    assert task.dataset[5].metadata["market"] == float(QUESTIONS["price_24h"][5])
    asked: list[int] = []

    def answer(messages: list[Any], *_: Any) -> ModelOutput:
        asked.append(len(messages))
        text = "<answer>yes</answer><confidence>80</confidence>" if "[0-100]" in messages[-1].text else "Perhaps."
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = bridge.ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    model = get_model("mockllm/model", custom_outputs=answer)
    (log,) = inspect_ai.eval(task, model=model, log_dir=str(tmp_path), display="none", score_display=False)
    assert log.status == "success", log.error
    assert sorted(set(asked)) == [2, 4]
    assert {sample.scores["forecast"].value["p_yes"] for sample in log.samples} == {0.8}
    found = numbers(log)
    truths = QUESTIONS.head(6).filter(pl.Series([not sample.metadata["could_know"] for sample in task.dataset]))["ground_truth"]
    assert found["n"] == len(truths) < 6
    assert found["brier"] == pytest.approx(sum((0.8 - (truth == "yes")) ** 2 for truth in truths) / len(truths), abs=1e-12)
    assert not any(math.isnan(value) for value in found.values())
