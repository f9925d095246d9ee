"""Changes of the input that must not change the scores, and changes with a known effect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.scoring import ScoreResult, score
from tests.unit.scoring.forecast_rows import Row, Write

ROOT = Path(__file__).resolve().parents[2]

#: Metrics whose estimates are means, ratios of means, or functions of ranks alone.
ESTIMATES = ["brier", "log_loss", "accuracy", "roc_auc", "base_rate", "ece", "brier_skill", "skill_vs_half", "corp_miscalibration", "smece"]

FORECAST = st.tuples(st.integers(0, 20).map(lambda k: k / 20), st.integers(0, 1), st.integers(0, 5))
SAMPLE = st.lists(FORECAST, min_size=2, max_size=25)

check = settings(deadline=None, max_examples=3, derandomize=True)


def table(sample: Sequence[tuple[float, int, int]]) -> list[dict[str, Any]]:
    return [{"question_id": index, "p": p, "y": y, "cluster": f"c{cluster}"} for index, (p, y, cluster) in enumerate(sample)]


def score_rows(rows: Sequence[Row]) -> ScoreResult:
    return score(list(rows), replicates=0)


def values(result: ScoreResult, columns: Sequence[str] = ("value",)) -> dict[str, list[float | None]]:
    return {row["metric"]: [row[name] for name in columns] for row in result.scores.iter_rows(named=True)}


def assert_alike(one: dict[str, list[float | None]], other: dict[str, list[float | None]], names: Sequence[str]) -> None:
    for name in names:
        assert other[name] == pytest.approx(one[name], abs=1e-9, nan_ok=True), name


@check
@given(SAMPLE)
def test_a_weight_of_two_is_the_forecast_twice_in_its_cluster(sample: list[tuple[float, int, int]]) -> None:
    rows = table(sample)
    twice = [*rows, *({**row, "question_id": f"{row['question_id']} again"} for row in rows)]
    twice = [{**row, "question_id": str(row["question_id"])} for row in twice]
    one, other = values(score_rows(rows)), values(score_rows(twice))
    assert_alike(one, other, ESTIMATES)
    heavy = [{**row, "weight": 2.0 if row["y"] else 1.0} for row in rows]
    copied = [row for row in twice if row["y"] or "again" not in row["question_id"]]
    assert_alike(values(score_rows(heavy)), values(score_rows(copied)), ["brier", "log_loss", "base_rate", "ece"])


@check
@given(SAMPLE)
def test_the_other_outcome_of_every_question_has_the_same_scores(sample: list[tuple[float, int, int]]) -> None:
    rows = table(sample)
    swapped = [{**row, "p": 1 - row["p"], "y": 1 - row["y"]} for row in rows]
    ends = ("value", "lower", "upper")
    one, other = values(score_rows(rows), ends), values(score_rows(swapped), ends)
    assert_alike(one, other, ["brier", "log_loss", "brier_skill", "roc_auc"])
    assert_alike({"x": one["brier_yes"], "y": one["brier_no"]}, {"x": other["brier_no"], "y": other["brier_yes"]}, ["x", "y"])


@pytest.mark.parametrize(("cluster", "unnamed"), [(["series", "day"], False), (["series"], True)])
def test_the_order_of_the_rows_changes_nothing(rows: Sequence[Row], write: Write, cluster: list[str], unnamed: bool) -> None:
    names = ("question_id", "model") if unnamed else ()
    data = [{name: value for name, value in row.items() if name not in names} for row in rows if not unnamed or row["model"] == "sharp"]
    orders = (data, data[::-1], sorted(data, key=lambda row: (row["day"], row["probability"])))
    results = [
        score(write(f"{index}/f.csv", some), by="category", cluster=cluster, replicates=200).to_dict() for index, some in enumerate(orders)
    ]
    assert results[1] == results[0]
    assert results[2] == results[0]


PROGRAM = """
import hashlib, json
from pathlib import Path
from bellwether.scoring import score
result = score("f.csv", by="category", cluster=["series", "day"], replicates=200, seed=1)
result.write_html("page.html")
result.write_figures("figures")
whole = [json.dumps(result.to_dict()).encode(), str(result).encode(), *(path.read_bytes() for path in sorted(Path("figures").iterdir()))]
print(json.dumps([hashlib.sha256(one).hexdigest() for one in (*whole, Path("page.html").read_bytes())]))
"""


def test_every_process_writes_the_same_bytes(
    rows: Sequence[Row], write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(write("f.csv", rows).parent)
    exec(PROGRAM, {})
    here = capsys.readouterr().out
    hashes = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hashes}
    there = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True).stdout
    assert here == there
    assert len(json.loads(here)) == 6
