"""Answers, scores, reliability and leaderboard of benchmark frames."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.calibration import METRICS, evaluate
from bellwether.calibration.answers import Answers, common_scopes, own_scopes
from bellwether.calibration.scores import RULES, compare_forecasters, comparison_table, leaderboard, score
from bellwether.errors import ScoringError
from bellwether.tables.benchmark import COMPARISONS, LEADERBOARD, SCORES
from tests.unit.calibration.benchmark_frames import forecasts, questions

CLOSE = datetime(2025, 9, 1, tzinfo=UTC)


def before(**span: float) -> datetime:
    return CLOSE - timedelta(**span)


def members(frame: pl.DataFrame, asked: pl.DataFrame) -> dict[str, list[str]]:
    sheet = Answers.of(frame, asked).sheet("f")
    return {scope: part["id"].to_list() for scope, part in [*common_scopes(sheet), *own_scopes(sheet)] if part.height}


def sampled(*samples: tuple[float | None, str | None], combine: str | None = None) -> pl.DataFrame:
    return pl.concat(forecasts([p], sample=[index], answer=[answer], combine=[combine]) for index, (p, answer) in enumerate(samples))


@pytest.mark.parametrize(("combine", "p"), [(None, 0.5), ("mean", 0.5), ("median", 0.6)])
def test_samples_are_combined_as_their_rows_say(combine: str | None, p: float) -> None:
    frame = sampled((0.1, "no"), (0.6, "yes"), (0.8, "yes"), (None, "no"), combine=combine)
    row = Answers.of(frame, questions(["yes"])).sheet("f").row(0, named=True)
    assert (row["p"], row["answer"]) == (pytest.approx(p), "yes")


def test_a_tied_answer_is_none() -> None:
    row = Answers.of(sampled((0.1, "no"), (0.6, "yes")), questions(["yes"])).sheet("f").row(0, named=True)
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
        (before(hours=25, seconds=1), None),
        (before(days=7), 0.168),
        (before(days=6, hours=23), None),
        (None, None),
    ],
)
def test_the_market_price_is_the_latest_that_was_known(as_of: datetime | None, price: float | None) -> None:
    known = prices(_1h=61, _6h=400, _24h=25 * 60, _7d=8 * 24 * 60)
    sheet = Answers.of(forecasts([0.5], as_of=[as_of]), questions(["yes"], **known)).sheet("f")
    assert sheet["market"].item() == price


def test_questions_belong_to_the_scope_of_their_horizon() -> None:
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


def test_questions_belong_to_the_scope_of_their_distance_from_the_cutoff() -> None:
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


def test_clusters_can_be_series_or_events() -> None:
    asked = questions(["yes", "no", "no"], cluster=["a", "b", "c"], series_ticker=["S", "S", "T"], event_id=["E", "F", "F"])
    found = {which: Answers.of(forecasts([0.5]), asked, which).questions["cluster"].to_list() for which in ("cluster", "series", "event")}
    assert found == {"cluster": [0, 1, 2], "series": [0, 0, 1], "event": [0, 1, 1]}


ASKED = datetime(2025, 9, 1, tzinfo=UTC)
TRUTHS = ["yes", "no", "no", "yes", "no", "yes", "no", "no"]
CATEGORIES = ["Politics"] * 6 + ["Sports"] * 2
P = [0.9, 0.2, 0.4, 0.6, 0.7, 0.55, 0.1, 0.3]


def one(frame: pl.DataFrame, metric: str, scope: str = "all", forecaster: str = "f") -> dict[str, object]:
    rows = frame.filter(metric=metric, scope=scope, forecaster=forecaster).rows(named=True)
    assert len(rows) == 1
    return rows[0]


def test_scores_equal_those_of_the_plain_arrays() -> None:
    frame = score(forecasts(P), questions(TRUTHS), replicates=200, seed=5)
    plain = evaluate(P, [truth == "yes" for truth in TRUTHS], range(8), replicates=200, seed=5)
    for metric, estimate in plain.items():
        row = one(frame, metric)
        for field in ("value", "lower", "upper", "reason", "expected", "p_calibrated"):
            assert row[field] == getattr(estimate, field), (metric, field)


def test_every_metric_is_scored_over_all_and_per_category() -> None:
    frame = score(forecasts(P), questions(TRUTHS, category=CATEGORIES), replicates=0)
    assert SCORES.validate(frame).height == 5 * len(METRICS)
    assert set(frame["scope"]) == {"all", "known_now", "undisputed", "category:Politics", "category:Sports"}
    assert one(frame, "brier", "category:Sports")["value"] == pytest.approx((0.01 + 0.09) / 2)
    assert one(frame, "brier", "category:Sports")["n_questions"] == 2


def test_a_part_has_intervals_from_three_clusters_on_and_else_says_why() -> None:
    asked = questions(TRUTHS, category=CATEGORIES, cluster=["a", "b", "c", "d", "e", "e", "f", "g"])
    frame = score(forecasts(P), asked, replicates=0)
    politics, sports = (one(frame, "brier", f"category:{name}") for name in ("Politics", "Sports"))
    assert politics["lower"] is not None
    assert (politics["n_clusters"], politics["reason"]) == (5, None)
    assert sports["lower"] is None
    assert sports["reason"] == "2 clusters; an interval needs 3"


def test_calibration_is_tested_over_all_questions_and_not_over_parts() -> None:
    frame = score(forecasts(P), questions(TRUTHS, category=CATEGORIES), replicates=200)
    assert one(frame, "ece")["p_calibrated"] is not None
    assert one(frame, "ece", "category:Politics")["p_calibrated"] is None


def test_a_question_without_a_forecast_lowers_the_coverage_only() -> None:
    frame = score(forecasts([0.9, None, 0.4]), questions(["yes", "no", "no"]), replicates=0)
    assert one(frame, "coverage")["value"] == pytest.approx(2 / 3)
    assert one(frame, "brier")["value"] == pytest.approx((0.01 + 0.16) / 2)
    assert (one(frame, "brier")["n"], one(frame, "brier")["n_questions"]) == (2, 3)


def test_a_forecaster_that_failed_on_everything_has_rows_of_nulls() -> None:
    frame = score(forecasts([None, None]), questions(["yes", "no"]), replicates=0)
    assert one(frame, "coverage")["value"] == 0.0
    assert frame.filter(pl.col("value").is_not_null())["metric"].to_list() == ["coverage"] * 4


def test_skill_against_the_market_counts_only_questions_with_a_price_of_its_moment() -> None:
    known, p = [ASKED - timedelta(days=1)] * 4, [0.9, 0.99, 0.2, 0.3]
    asked = questions(["yes", "no", "no", "no"], price_24h=[0.8, None, 0.4, 0.5], price_24h_at=known, cluster=["a", "b", "c", "d"])
    frame = score(forecasts(p, as_of=[ASKED] * 4), asked, replicates=0)
    row = one(frame, "skill_vs_market")
    assert row["value"] == pytest.approx(1 - (0.01 + 0.04 + 0.09) / (0.04 + 0.16 + 0.25))
    assert (row["n"], row["n_clusters"]) == (3, 3)
    earlier = score(forecasts(p, as_of=[ASKED - timedelta(days=3)] * 4), asked, replicates=0)
    assert one(earlier, "skill_vs_market")["value"] is None


@pytest.mark.parametrize(
    ("clusters", "prices", "skills"),
    [
        (["a", "b", "a", "b"], [0.8, 0.4, 0.6, 0.5], []),
        (["a", "b", "c", "c"], [0.8, None, 0.6, 0.5], ["brier_skill", "skill_vs_half"]),
        (["a", "b", "c", "c"], [0.8, 0.4, 0.6, 0.5], ["brier_skill", "skill_vs_half", "skill_vs_market"]),
    ],
)
def test_a_skill_needs_three_clusters(clusters: list[str], prices: list[float | None], skills: list[str]) -> None:
    asked = questions(["yes", "no", "no", "yes"], price_24h=prices, price_24h_at=[ASKED - timedelta(days=1)] * 4, cluster=clusters)
    frame = score(forecasts([0.9, 0.1, 0.2, 0.7], as_of=[ASKED] * 4), asked, replicates=0).filter(scope="all")
    rows = {row["metric"]: row for row in frame.iter_rows(named=True) if "skill" in row["metric"]}
    assert sorted(name for name, row in rows.items() if row["value"] is not None) == skills
    assert {row["reason"] for name, row in rows.items() if name not in skills} <= {"fewer than three clusters"}


def test_a_rank_needs_three_clusters() -> None:
    def rank(clusters: list[str]) -> tuple[object, ...]:
        frame, asked = forecasts([0.9, 0.1, 0.2]), questions(["yes", "no", "no"], cluster=clusters)
        comparison = compare_forecasters(Answers.of(frame, asked))
        table = leaderboard(score(frame, asked, replicates=0), {"f": "constant"}, comparison=comparison)
        return table.select("rank", "group", "unranked_because").row(0)

    assert rank(["a", "b", "b"]) == (None, None, "fewer than three clusters")
    assert rank(["a", "b", "c"]) == (1, "a", None)


def test_intervals_take_as_independent_what_is_asked_for() -> None:
    asked = questions(TRUTHS, event_id=["E", "F", "G", "H"] * 2)
    by_event = score(forecasts(P), asked, clusters="event", replicates=200, seed=5)
    plain = evaluate(P, [truth == "yes" for truth in TRUTHS], [0, 1, 2, 3] * 2, seed=5)
    row = one(by_event, "brier")
    assert (row["lower"], row["upper"], row["n_clusters"]) == (plain["brier"].lower, plain["brier"].upper, 4)


def test_rows_say_as_of_when_they_were_known_and_by_which_rules() -> None:
    frame = score(forecasts([0.4]), questions(["no"]), replicates=0)
    assert set(frame["known_at"]) == {datetime(2025, 9, 2, tzinfo=UTC)}
    assert set(frame["rules"]) == {RULES}
    later = datetime(2026, 1, 1, tzinfo=UTC)
    assert set(score(forecasts([0.4]), questions(["no"]), known_at=later, replicates=0)["known_at"]) == {later}


@pytest.mark.parametrize(
    ("truths", "p", "columns"),
    [
        (["yes"], [math.nan], {}),
        (["yes"], [1.5], {}),
        (["yes"], [0.5], {"answer": ["perhaps"]}),
        (["void"], [0.5], {}),
        (["yes"], [0.5], {"question_id": ["q9"]}),
        (["yes"], [0.5], {"release": ["r2"]}),
        (["yes", "no"], [0.5, 0.5], {"question_id": ["q0", "q0"]}),
        (["yes", "no"], [0.5, 0.5], {"combine": ["mean", "median"]}),
    ],
)
def test_rows_that_cannot_be_scored_are_refused(truths: list[str], p: list[float], columns: dict[str, list[str]]) -> None:
    with pytest.raises(ScoringError):
        score(forecasts(p, **columns), questions(truths), replicates=0)


def ranked(**p: list[float | None]) -> pl.DataFrame:
    asked = questions(["yes", "no", "no", "yes"])
    frames = [score(forecasts(values, forecaster=name), asked, replicates=0) for name, values in p.items()]
    return leaderboard(pl.concat(frames), dict.fromkeys(p, "constant"))


def test_the_leaderboard_ranks_by_brier_score() -> None:
    table = ranked(worse=[0.5, 0.5, 0.5, 0.5], better=[0.9, 0.2, 0.1, 0.8])
    assert LEADERBOARD.validate(table).select("rank", "forecaster").rows() == [(1, "better"), (2, "worse")]
    assert table["brier"].to_list() == sorted(table["brier"])
    assert table["brier_reason"].to_list() == [None, "no outcome changes it"]


def test_equal_scores_share_a_rank() -> None:
    table = ranked(c=[0.9, 0.1, 0.2, 0.9], b=[0.5] * 4, a=[0.5] * 4, d=[0.1, 0.9, 0.9, 0.1])
    assert table.select("rank", "forecaster").rows() == [(1, "c"), (2, "a"), (2, "b"), (4, "d")]


def test_low_coverage_is_listed_last_without_a_rank() -> None:
    table = ranked(choosy=[1.0, None, None, None], silent=[None] * 4, steady=[0.5] * 4)
    assert table.select("rank", "forecaster").rows() == [(1, "steady"), (None, "choosy"), (None, "silent")]
    assert table["coverage"].to_list() == [1.0, 0.25, 0.0]
    assert table["failed"].to_list() == [0, 3, 4]
    assert table["unranked_because"].to_list() == [None, "forecasts that count on 25.0 % of the questions, fewer than 90 %", "no forecast"]


GOOD, FAIR, BAD = (
    [0.9, 0.2, 0.1, 0.8, 0.1, 0.9, 0.2, 0.2],
    [0.6, 0.3, 0.5, 0.7, 0.4, 0.6, 0.3, 0.5],
    [0.2, 0.9, 0.8, 0.1, 0.9, 0.1, 0.8, 0.9],
)


def many(**p: list[float | None]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return five copies of eight questions with the forecasts of each forecaster."""
    return pl.concat([forecasts(values * 5, forecaster=name) for name, values in p.items()]), questions(TRUTHS * 5)


def test_the_leaderboard_says_how_surely() -> None:
    frame, asked = many(good=GOOD, also=[*GOOD[:-1], 0.3], bad=BAD)
    scores, comparison = score(frame, asked, replicates=200), compare_forecasters(Answers.of(frame, asked))
    table = leaderboard(scores, dict.fromkeys(["good", "also", "bad"], "constant"), comparison=comparison)
    assert table["forecaster"].to_list() == ["good", "also", "bad"]
    assert table["group"].to_list()[2] not in table["group"].to_list()[:2]
    assert table["in_mcs"].to_list()[2] is False
    assert table["brier_reason"].null_count() == 3
    for row in table.iter_rows(named=True):
        for metric in ("brier", "brier_skill", "skill_vs_market", "log_loss", "roc_auc", "accuracy"):
            own = one(scores, metric, forecaster=row["forecaster"])
            assert [row[metric], *(row[f"{metric}_{field}"] for field in ("lower", "upper", "reason"))] == [
                own[field] for field in ("value", "lower", "upper", "reason")
            ]
        ece = one(scores, "ece", forecaster=row["forecaster"])
        assert [row[name] for name in ("ece", "ece_expected", "ece_p_calibrated")] == [
            ece[f] for f in ("value", "expected", "p_calibrated")
        ]


def test_those_below_the_floor_are_compared_and_not_placed() -> None:
    frame, asked = many(good=GOOD, fair=FAIR, rare=[*GOOD[:4], None, None, None, None])
    found = compare_forecasters(Answers.of(frame, asked))
    assert found.pairs.select("forecaster", "other", "n").rows() == [("fair", "good", 40), ("fair", "rare", 20), ("good", "rare", 20)]
    assert found.ranking.filter(forecaster="rare").select("mcs_p", "in_mcs", "group").row(0) == (None,) * 3


def test_the_pairs_of_a_release_are_a_table() -> None:
    frame, asked = many(good=GOOD, fair=FAIR, twin=FAIR)
    comparison = compare_forecasters(Answers.of(frame, asked))
    table = comparison_table(comparison, release="r1", known_at=ASKED)
    assert COMPARISONS.validate(table).height == 3
    assert table.filter(forecaster="fair", other="twin")["reason"].item() is not None
    brier = {name: one(score(frame, asked, replicates=0), "brier", forecaster=name)["value"] for name in ("good", "fair")}
    assert table.filter(forecaster="fair", other="good")["difference"].item() == pytest.approx(brier["fair"] - brier["good"])


def test_nine_of_ten_questions_are_enough_for_a_rank() -> None:
    """At a coverage of exactly 0.9 a forecaster is ranked, and at 0.89 it is not."""
    asked = questions(["yes", "no"] * 50)
    answers = {"ninety": [0.6] * 90 + [None] * 10, "fewer": [0.6] * 89 + [None] * 11}
    frame = pl.concat([forecasts(p, forecaster=name) for name, p in answers.items()])
    comparison = compare_forecasters(Answers.of(frame, asked))
    assert dict(comparison.ranking.select("forecaster", "group").iter_rows()) == {"ninety": "a", "fewer": None}
    table = leaderboard(score(frame, asked, replicates=0), dict.fromkeys(answers, "constant"), comparison=comparison)
    assert dict(table.select("forecaster", "rank").iter_rows()) == {"ninety": 1, "fewer": None}
