"""Brier scores with and without leaking questions, and the jump at the knowledge cutoff."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.calibration.leak_scores import score_leaks
from bellwether.tables.benchmark import LEAKS
from tests.unit.calibration.benchmark_frames import ASKED, forecasts, questions

SIZE = 80
DAYS = np.linspace(-300, 300, SIZE) + 0.5


def leak(question: int, kind: str) -> dict[str, Any]:
    row = {"release": "r1", "question_id": f"q{question}", "kind": kind, "source": "s", "other": "o", "similarity": 1.0}
    return row | {"known_at": ASKED, "rules": "1"}


def score(p: list[float], truths: list[str], leaks: list[dict[str, Any]], days: np.ndarray | None = None, **options: Any) -> pl.DataFrame:
    """Score forecasts of a forecaster whose knowledge ends at `ASKED`, on questions that close these days later; without days it has no cutoff."""
    columns: dict[str, Any] = {}
    if days is not None:
        columns = {"knowledge_cutoff": [ASKED] * len(p), "could_know": [bool(day <= 0) for day in days]}
    closes = [ASKED + timedelta(days=float(day)) for day in (np.ones(len(p)) if days is None else days)]
    return score_leaks(forecasts(p, **columns), questions(truths, close_time=closes), LEAKS.frame(leaks), **options)


def values(frame: pl.DataFrame, *columns: str) -> dict[str, Any]:
    return {row["part"]: tuple(row[name] for name in columns) for row in frame.iter_rows(named=True)}


def test_scores_are_split_by_class_of_leak() -> None:
    leaks = [leak(0, "event"), leak(0, "paraphrase"), leak(1, "document"), leak(2, "bundle")]
    found = values(score([0.9, 0.5, 0.2, 0.4], ["yes", "yes", "no", "no"], leaks, searched=True), "brier", "share", "n")
    expected = {
        "all": (0.115, 1.0, 4),
        "sibling": (0.025, 0.5, 2),
        "no sibling": (0.205, 0.5, 2),
        "document": (0.25, 0.25, 1),
        "no document": (0.07, 0.75, 3),
        "no leak": (0.16, 0.25, 1),
    }
    assert {name: pytest.approx(value) for name, value in expected.items()} == found


def test_without_a_corpus_nothing_is_known_about_documents() -> None:
    assert set(score([0.9, 0.5], ["yes", "no"], [leak(0, "event")], searched=False)["part"]) == {"all", "sibling", "no sibling", "no leak"}


def test_the_curve_covers_all_questions_and_scores_only_those_after_the_cutoff() -> None:
    p = [0.9, 0.8, 0.4, 0.3]
    found = values(score(p, ["yes"] * 4, [], np.array([-200.0, -10.0, 10.0, 400.0]), searched=False), "brier", "share", "n")
    assert {name: value for name, value in found.items() if name.startswith("days") or name == "all"} == {
        "all": pytest.approx((0.425, 1.0, 2)),
        "days:-365..-180": pytest.approx((0.01, 0.25, 1)),
        "days:-90..0": pytest.approx((0.04, 0.25, 1)),
        "days:0..90": pytest.approx((0.36, 0.25, 1)),
        "days:>365": pytest.approx((0.49, 0.25, 1)),
    }


def test_the_jump_is_the_distance_of_two_lines_at_the_cutoff() -> None:
    generator = np.random.default_rng(5)
    p = np.where(DAYS <= 0, 0.9, 0.6) - generator.uniform(0, 0.1, SIZE)
    found = values(score(list(p), ["yes"] * SIZE, [], DAYS, searched=False), "brier", "lower", "upper", "n")["jump"]
    before, after = (np.polyfit(DAYS[side], np.square(1 - p[side]), 1)[1] for side in (DAYS <= 0, DAYS > 0))
    assert found[0] == pytest.approx(after - before)
    assert found[1] < found[0] < found[2]
    assert found[3] == SIZE


@pytest.mark.parametrize(
    ("days", "reason"),
    [
        ([-5.0, -4.0, 3.0, 4.0, 5.0, 6.0], "fewer than 3 clusters on a side of the cutoff"),
        ([-400.0, -5.0, -4.0, 4.0, 5.0, 6.0], "fewer than 3 clusters on a side of the cutoff"),
        ([-5.0, -5.0, -5.0, 4.0, 4.0, 4.0], "the dates of close do not distinguish a jump from a trend"),
    ],
)
def test_too_few_clusters_or_dates_give_no_jump(days: list[float], reason: str) -> None:
    found = values(score([0.5] * 6, ["yes"] * 6, [], np.array(days), searched=False), "brier", "reason")
    assert found["jump"] == (None, reason)
