"""Outcomes of a release as known now, status by status, and the scores that follow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from bellwether.calibration.scores import score
from bellwether.questions.resolutions import resolve_questions
from bellwether.tables.clean import MARKETS, RESOLUTIONS
from tests.unit.calibration.benchmark_frames import ASKED, forecasts, questions

DAY = ASKED.date()


def market(number: int, outcome: str | None, **columns: Any) -> dict[str, Any]:
    stated = {"outcome": outcome, "status": "settled", "settled_at": ASKED + timedelta(hours=1), "close_time": ASKED, "known_at": ASKED}
    return {
        "day": DAY,
        "market_id": f"M{number}",
        "venue": "kalshi",
        "category": "x",
        "is_combo": False,
        "source": "live",
        **stated,
        **columns,
    }


def oracle(number: int, *states: str) -> dict[str, Any]:
    evidence = pl.DataFrame({"uma_statuses": [list(states)]}).select(pl.struct("uma_statuses").struct.json_encode()).item()
    row = {"day": DAY, "venue": "polymarket", "market_id": f"M{number}", "market_type": "binary", "status": "settled", "rule": "r"}
    return row | {"final": True, "evidence": evidence, "known_at": ASKED}


def resolve(markets: list[dict[str, Any]], oracles: list[dict[str, Any]], published: list[str], **columns: Any) -> pl.DataFrame:
    return resolve_questions(questions(published, **columns), MARKETS.frame(markets), RESOLUTIONS.frame(oracles))


@pytest.mark.parametrize(
    ("changes", "outcome", "status"),
    [
        ({}, "yes", "final"),
        ({"outcome": "no"}, "no", "corrected"),
        ({"outcome": None, "outcome_reason": "void"}, None, "voided"),
        ({"outcome": None, "status": "disputed", "outcome_reason": "disputed"}, None, "disputed"),
        ({"settled_at": ASKED + timedelta(days=7)}, "yes", "final"),
        ({"settled_at": ASKED + timedelta(days=7, seconds=1)}, "yes", "late"),
        ({"market_id": "another"}, "yes", "unknown"),
    ],
)
def test_the_status_follows_from_the_market_as_known_now(changes: dict[str, Any], outcome: str | None, status: str) -> None:
    found = resolve([market(0, "yes") | changes], [], ["yes"])
    assert found.select("published", "outcome", "resolution_status").row(0) == ("yes", outcome, status)


def test_the_latest_known_record_of_a_market_counts() -> None:
    later = {"day": DAY + timedelta(days=1), "known_at": ASKED + timedelta(days=2)}
    found = resolve([market(0, "no", **later), market(0, "yes")], [], ["yes"])
    assert found.select("outcome", "resolution_status", "known_at").row(0) == ("no", "corrected", ASKED + timedelta(days=2))


def test_a_dispute_that_the_oracle_settled_is_kept_in_the_history() -> None:
    rows = [market(number, "yes", venue="polymarket") for number in range(2)]
    oracles = [oracle(0, "proposed", "disputed", "resolved"), oracle(1, "proposed", "resolved")]
    found = resolve(rows, oracles, ["yes", "yes"], source=["polymarket"] * 2)
    assert found.select("resolution_status", "history").rows() == [
        ("disputed", "proposed, disputed, resolved"),
        ("final", "proposed, resolved"),
    ]


def test_scores_have_three_forms() -> None:
    """Forecasts .9, .2 and .6 of yes, no, yes: the second was corrected to yes, the third voided."""
    asked = questions(["yes", "no", "yes"])
    now = resolve_questions(asked, MARKETS.frame([market(0, "yes"), market(1, "yes"), market(2, None)]), RESOLUTIONS.empty())
    table = score(forecasts([0.9, 0.2, 0.6]), asked, resolutions=now, replicates=0).filter(metric="brier")
    assert dict(table.filter(pl.col("scope").is_in(["all", "known_now", "undisputed"])).select("scope", "value").iter_rows()) == {
        "all": pytest.approx((0.01 + 0.04 + 0.16) / 3),
        "known_now": pytest.approx((0.01 + 0.64) / 2),
        "undisputed": pytest.approx(0.01),
    }
