"""Contaminated questions: the rule, and the share of a release that is excluded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from bellwether.calibration.contamination import contamination, exposure
from bellwether.calibration.scores import compare_forecasters, leaderboard, reliability, score

Build = Callable[..., pl.DataFrame]

CUTOFF = datetime(2025, 9, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("closed", "settled", "could_know", "days"),
    [
        (CUTOFF + DAY, CUTOFF + 2 * DAY, False, 2.0),
        (CUTOFF, CUTOFF + 2 * DAY, True, 2.0),
        (CUTOFF - DAY, CUTOFF + DAY, True, 1.0),
        (CUTOFF + DAY, CUTOFF, True, 1.0),
        (CUTOFF - DAY, CUTOFF - DAY, True, -1.0),
        (CUTOFF + DAY / 2, None, False, 0.5),
        (CUTOFF - DAY, None, True, -1.0),
    ],
)
def test_a_question_counts_only_if_it_closed_and_was_settled_after_the_cutoff(
    closed: datetime, settled: datetime | None, could_know: bool, days: float, questions: Build
) -> None:
    row = exposure(questions(["yes"], close_time=[closed], settled_at=[settled]), CUTOFF).row(0, named=True)
    assert (row["could_know"], row["days_from_cutoff"]) == (could_know, days)


def test_without_a_cutoff_everything_counts(questions: Build) -> None:
    row = exposure(questions(["yes"]), None).row(0, named=True)
    assert (row["could_know"], row["opened_after_cutoff"], row["days_from_cutoff"]) == (False, None, None)


TRUTHS = ["yes", "no"] * 10


@pytest.fixture
def twenty_questions(questions: Build) -> pl.DataFrame:
    """Twenty questions, a day apart. The first four close by the cutoff."""
    closed = [CUTOFF + (index - 3) * DAY for index in range(20)]
    return questions(TRUTHS, close_time=closed, open_time=[CUTOFF - 30 * DAY] * 10 + [CUTOFF + DAY] * 10)


@pytest.fixture
def answered(forecasts: Build) -> pl.DataFrame:
    """Forecasts of a model that knows the four outcomes and guesses the rest, with and without a known cutoff."""
    p = [1.0, 0.0, 1.0, 0.0] + [0.6] * 16
    known = {"knowledge_cutoff": [CUTOFF] * 20, "could_know": [True] * 4 + [False] * 16}
    return pl.concat([forecasts(p, forecaster="model", **known), forecasts(p, forecaster="baseline")])


def values(scores: pl.DataFrame, scope: str, metric: str = "brier") -> dict[str, tuple[float | None, int, int]]:
    rows = scores.filter(scope=scope, metric=metric).select("forecaster", "value", "n", "n_questions").rows()
    return {name: (value, n, asked) for name, value, n, asked in rows}


def test_what_could_be_known_enters_no_score_but_its_own(answered: pl.DataFrame, twenty_questions: pl.DataFrame) -> None:
    scores = score(answered, twenty_questions, replicates=0)
    assert values(scores, "all")["model"] == (pytest.approx((0.16 + 0.36) / 2), 16, 20)
    assert values(scores, "category:Politics")["model"] == values(scores, "all")["model"]
    assert values(scores, "all")["baseline"] == (pytest.approx(0.26 * 16 / 20), 20, 20)
    assert values(scores, "could_know") == {"model": (0.0, 4, 4)}
    assert values(scores, "all", "coverage")["model"][0] == pytest.approx(16 / 20)


def test_the_reliability_table_leaves_it_out_too(answered: pl.DataFrame, twenty_questions: pl.DataFrame) -> None:
    bins = reliability(answered, twenty_questions).group_by("forecaster").agg(pl.col("n").sum())
    assert dict(bins.rows()) == {"model": 16, "baseline": 20}


def test_pairs_are_compared_where_neither_could_know(answered: pl.DataFrame, twenty_questions: pl.DataFrame) -> None:
    row = compare_forecasters(answered, twenty_questions, replicates=0).pairs.row(0, named=True)
    assert (row["n"], row["difference"]) == (16, 0.0)


def test_the_row_decides_where_it_knows_more_than_the_cutoff(forecasts: Build, questions: Build) -> None:
    frame = forecasts([0.5, 0.5], could_know=[True, False])
    assert values(score(frame, questions(["yes", "no"]), replicates=0), "could_know")["f"][2] == 1


def test_a_question_that_was_never_asked_can_be_known_as_well(forecasts: Build, twenty_questions: pl.DataFrame) -> None:
    frame = forecasts([None] * 4 + [0.5] * 16, knowledge_cutoff=[CUTOFF] * 20, could_know=[True] * 4 + [False] * 16).tail(16)
    assert values(score(frame, twenty_questions, replicates=0), "could_know")["f"] == (None, 0, 4)


def test_a_forecaster_that_could_have_known_much_is_not_ranked_and_the_reason_is_said(
    answered: pl.DataFrame, twenty_questions: pl.DataFrame
) -> None:
    table = leaderboard(score(answered, twenty_questions, replicates=0), {"model": "language_model", "baseline": "constant"})
    assert table.select("rank", "forecaster", "could_know", "could_know_share", "brier_could_know", "failed").rows() == [
        (1, "baseline", 0, 0.0, None, 0),
        (None, "model", 4, 0.2, 0.0, 0),
    ]
    assert table["unranked_because"].to_list() == [
        None,
        "forecasts that count on 80.0 % of the questions, fewer than 90 %; it could have known 4 and left out 0 of 20",
    ]


def test_the_summary_counts_and_compares(answered: pl.DataFrame, twenty_questions: pl.DataFrame) -> None:
    model = contamination(answered, twenty_questions).filter(forecaster="model").row(0, named=True)
    assert model == {
        "forecaster": "model",
        "knowledge_cutoff": CUTOFF,
        "n_questions": 20,
        "could_know": 4,
        "could_know_share": 0.2,
        "opened_before_cutoff": 6,
        "brier": pytest.approx(0.26),
        "brier_could_know": 0.0,
    }
    assert contamination(answered.clear(), twenty_questions).height == 0
