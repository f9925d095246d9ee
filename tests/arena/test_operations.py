"""What operators are told of the arena, from rows of its tables alone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.arena.checks import LAKE_CHECKS
from bellwether.checks.rule import Observation
from bellwether.lake import Lake
from bellwether.tables import table

WEEK = date(2026, 3, 1)
NOW = datetime(2026, 3, 10, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def write(lake: Lake, name: str, week: date | None = None, **given: Any) -> None:
    nothing: dict[Any, Any] = {
        pl.String: "",
        pl.Boolean: False,
        pl.Float64: 0.0,
        pl.List: [],
        pl.Date: week or WEEK,
        pl.Datetime: NOW,
        pl.Decimal: Decimal(0),
    }
    row = {one.name: nothing.get(one.dtype.base_type(), 0) for one in table(name).columns if not one.nullable}
    lake.write(table(name), (week.isoformat(),) if week else (), table(name).frame([{**row, **given}]), run_id="r")


def asked(lake: Lake, name: str, now: datetime = NOW) -> Observation:
    (check,) = (one for one in LAKE_CHECKS if one.name == name)
    return check.evaluate(lake, now)


def test_an_arena_that_was_never_run_alarms_nobody(lake: Lake) -> None:
    assert all(asked(lake, check.name).passed for check in LAKE_CHECKS)


def test_a_week_without_a_live_cohort_is_named(lake: Lake) -> None:
    write(lake, "arena/agents", WEEK, agent_id="a", reconstructed=False)
    missed = asked(lake, "cohort_of_the_week")
    assert not missed.passed
    assert "2026-03-08" in missed.found
    write(lake, "arena/agents", WEEK + timedelta(days=7), agent_id="b", reconstructed=False)
    assert asked(lake, "cohort_of_the_week").passed


def test_the_first_sunday_after_the_first_pull_is_missed_as_any_other(tmp_path: Path) -> None:
    pulled = datetime(2026, 3, 5, 1, 30, tzinfo=UTC)
    lake = Lake(str(tmp_path), clock=lambda: pulled)
    write(lake, "raw/kalshi_pulls", date(2026, 3, 4))
    sunday = datetime(2026, 3, 8, tzinfo=UTC)
    assert asked(lake, "cohort_of_the_week", pulled).passed, "the week had begun before the home"
    assert asked(lake, "cohort_of_the_week", sunday + timedelta(minutes=30)).passed, "its first hour is not over"
    missed = asked(lake, "cohort_of_the_week", sunday + timedelta(hours=2))
    assert missed.subjects == ("2026-03-08",)
    write(lake, "arena/agents", sunday.date(), agent_id="a", reconstructed=False)
    assert asked(lake, "cohort_of_the_week", sunday + timedelta(hours=2)).passed


def test_reconstructed_cohorts_are_asked_for_by_people(lake: Lake) -> None:
    write(lake, "arena/agents", WEEK, agent_id="a", reconstructed=True)
    assert asked(lake, "cohort_of_the_week").passed


def test_a_decision_that_is_left_past_its_deadline_is_named(lake: Lake) -> None:
    write(lake, "arena/decisions", WEEK, decision_id="c/f/w", state="blocked", reason="no credit")
    assert asked(lake, "decisions_are_finished", datetime(2026, 3, 2, tzinfo=UTC)).passed, "its deadline is not over"
    late = asked(lake, "decisions_are_finished")
    assert not late.passed
    assert "c/f/w is blocked (no credit)" in late.found
    write(lake, "arena/decisions", WEEK, decision_id="c/f/w", state="finished")
    assert asked(lake, "decisions_are_finished").passed


def test_a_held_market_that_closed_long_ago_is_named(lake: Lake) -> None:
    write(lake, "arena/positions", market_id="m", status="open")
    write(lake, "arena/evidence", WEEK, market_id="m", closed=True, closed_at=NOW - timedelta(days=8))
    late = asked(lake, "held_markets_resolve")
    assert not late.passed
    assert "such as m" in late.found
    write(lake, "arena/positions", market_id="m", status="settled")
    assert asked(lake, "held_markets_resolve").passed
