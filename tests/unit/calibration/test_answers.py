"""The answer of a forecaster to each question: combined samples, the market price at the same time, scopes, and refused rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.calibration.answers import Answers, common_scopes, own_scopes
from bellwether.errors import ScoringError

Build = Callable[..., pl.DataFrame]

CLOSE = datetime(2025, 9, 1, tzinfo=UTC)


def before(**span: float) -> datetime:
    return CLOSE - timedelta(**span)


def members(frame: pl.DataFrame, asked: pl.DataFrame) -> dict[str, list[str]]:
    sheet = Answers.of(frame, asked).sheet("f")
    return {scope: part["id"].to_list() for scope, part in [*common_scopes(sheet), *own_scopes(sheet)] if part.height}


def sampled(forecasts: Build, *samples: tuple[float | None, str | None], combine: str | None = None) -> pl.DataFrame:
    return pl.concat(forecasts([p], sample=[index], answer=[answer], combine=[combine]) for index, (p, answer) in enumerate(samples))


@pytest.mark.parametrize(("combine", "p"), [(None, 0.5), ("mean", 0.5), ("median", 0.6)])
def test_samples_are_combined_as_their_rows_say(combine: str | None, p: float, questions: Build, forecasts: Build) -> None:
    frame = sampled(forecasts, (0.1, "no"), (0.6, "yes"), (0.8, "yes"), (None, "no"), combine=combine)
    row = Answers.of(frame, questions(["yes"])).sheet("f").row(0, named=True)
    assert (row["p"], row["answer"]) == (pytest.approx(p), "yes")


def test_a_tied_answer_is_none(questions: Build, forecasts: Build) -> None:
    row = Answers.of(sampled(forecasts, (0.1, "no"), (0.6, "yes")), questions(["yes"])).sheet("f").row(0, named=True)
    assert row["answer"] is None


def prices(**minutes_before: float | None) -> dict[str, list[Any]]:
    """Prices of 0.01 per hour of the horizon, so that each value identifies its horizon."""
    hours = {"1h": 1, "6h": 6, "24h": 24, "7d": 168}
    columns: dict[str, list[Any]] = {}
    for name, minutes in minutes_before.items():
        columns[f"price_{name[1:]}"] = [None if minutes is None else Decimal(hours[name[1:]]) / 1000]
        columns[f"price_{name[1:]}_at"] = [None if minutes is None else before(minutes=minutes)]
    return columns


@pytest.mark.parametrize(
    ("as_of", "price"),
    [
        (before(minutes=61), 0.001),
        (before(minutes=62), 0.006),
        (before(hours=25), 0.024),
        (before(hours=25, seconds=1), 0.168),
        (None, None),
    ],
)
def test_the_market_price_is_the_latest_that_was_known(
    as_of: datetime | None, price: float | None, questions: Build, forecasts: Build
) -> None:
    known = prices(_1h=61, _6h=400, _24h=25 * 60, _7d=8 * 24 * 60)
    sheet = Answers.of(forecasts([0.5], as_of=[as_of]), questions(["yes"], **known)).sheet("f")
    assert sheet["market"].item() == price


def test_questions_belong_to_the_scope_of_their_horizon(questions: Build, forecasts: Build) -> None:
    days = [0.5, 1, 1.5, 7, 30, 31]
    frame = forecasts([0.5] * 5 + [None], as_of=[before(days=day) for day in days])
    scopes = members(frame, questions(["yes"] * 7))
    assert {scope: ids for scope, ids in scopes.items() if scope.startswith("horizon")} == {
        "horizon:<=1d": ["q0", "q1"],
        "horizon:1d-7d": ["q2", "q3"],
        "horizon:7d-30d": ["q4"],
        "horizon:>30d": ["q5"],
    }
    assert scopes["all"] == [f"q{index}" for index in range(7)]


def test_questions_belong_to_the_scope_of_their_distance_from_the_cutoff(questions: Build, forecasts: Build) -> None:
    days = [1, 89, 90, 200, 365, 1000]
    cutoff = before(days=0)
    asked = questions(["yes"] * 6, close_time=[cutoff + timedelta(hours=1)] * 6, settled_at=[cutoff + timedelta(days=day) for day in days])
    scopes = members(forecasts([0.5] * 6, knowledge_cutoff=[cutoff] * 6), asked)
    assert {scope: ids for scope, ids in scopes.items() if scope.startswith("distance")} == {
        "distance:<90d": ["q0", "q1"],
        "distance:90d-180d": ["q2"],
        "distance:180d-365d": ["q3"],
        "distance:>=365d": ["q4", "q5"],
    }
    assert "could_know" not in scopes


def test_clusters_can_be_series_or_events(questions: Build, forecasts: Build) -> None:
    asked = questions(["yes", "no", "no"], cluster=["a", "b", "c"], series_ticker=["S", "S", "T"], event_id=["E", "F", "F"])
    found = {which: Answers.of(forecasts([0.5]), asked, which).questions["cluster"].to_list() for which in ("cluster", "series", "event")}
    assert found == {"cluster": [0, 1, 2], "series": [0, 0, 1], "event": [0, 1, 1]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"question_id": ["q0", "q0"]}, r"2 rows.*'forecaster': 'f'.*'question_id': 'q0'.*'sample': 0.*once per sample"),
        ({"combine": ["mode", "mode"]}, "mode.*mean or median"),
        ({"combine": ["mean", "median"]}, "one value of combine per forecaster"),
    ],
)
def test_rows_that_contradict_each_other_are_named(columns: dict[str, Any], message: str, questions: Build, forecasts: Build) -> None:
    with pytest.raises(ScoringError, match=message):
        Answers.of(forecasts([0.5, 0.5], **columns), questions(["yes", "no"]))
