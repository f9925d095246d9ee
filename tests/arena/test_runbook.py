"""What the runbook asks is answered from the tables: each question with an answer that alarms and one that does not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bellwether.arena.checks import LAKE_CHECKS, RUNBOOK
from bellwether.checks.rule import Observation
from bellwether.lake import Lake
from bellwether.tables import table
from tests.arena.test_queries import _row as row_of

WEEK, SEVEN = date(2026, 3, 1), timedelta(days=7)
NOW = datetime(2026, 4, 20, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def write(lake: Lake, name: str, partition: tuple[str, ...], *rows: dict[str, Any]) -> None:
    lake.write(table(name), partition, table(name).frame([row_of(name, **row) for row in rows]), run_id="r")


def cohorts(lake: Lake, weeks: int, *, reconstructed: bool = False) -> None:
    for number in range(weeks):
        week = WEEK + number * SEVEN
        write(lake, "arena/agents", (week.isoformat(),), {"week": week, "agent_id": f"{week}/f", "reconstructed": reconstructed})


def decide(lake: Lake, week: date, *names: str, **more: Any) -> None:
    rows = [
        {"week": week, "decision_id": f"{name}/{week}", "agent_id": name, "state": "finished", "action": "BET", **more} for name in names
    ]
    write(lake, "arena/decisions", (week.isoformat(),), *rows)


def asked(lake: Lake, name: str, now: datetime = NOW) -> Observation:
    (check,) = (one for one in RUNBOOK if one.name == name)
    return check.evaluate(lake, now)


def test_an_arena_that_was_never_run_alarms_nobody(lake: Lake) -> None:
    assert all(asked(lake, check.name).passed for check in RUNBOOK)
    assert set(RUNBOOK) <= set(LAKE_CHECKS)


def test_a_decision_outside_the_window_of_its_cohort_is_named(lake: Lake) -> None:
    cohorts(lake, 7)
    first = f"{WEEK}/f"
    decide(lake, WEEK + 4 * SEVEN, first)
    assert asked(lake, "decisions_in_their_window").passed, "the fifth week is its last"
    decide(lake, WEEK + 5 * SEVEN, first)
    late = asked(lake, "decisions_in_their_window")
    assert not late.passed
    assert f"{first}/{WEEK + 5 * SEVEN}" in late.found
    assert late.numbers == {"found": 1}


def test_a_missed_week_leaves_the_window_open(lake: Lake) -> None:
    """The newest five cohorts decide, however many weeks that takes."""
    cohorts(lake, 3)
    decide(lake, WEEK + 6 * SEVEN, f"{WEEK}/f")
    assert asked(lake, "decisions_in_their_window").passed


def test_a_decision_before_its_cohort_and_one_of_no_agent_are_named(lake: Lake) -> None:
    cohorts(lake, 2)
    decide(lake, WEEK, f"{WEEK + SEVEN}/f", f"{WEEK}/stranger", f"{WEEK}/f")
    found = asked(lake, "decisions_in_their_window")
    assert found.numbers == {"found": 2}
    assert f"{WEEK}/f/{WEEK}" not in found.found.split(": ")[1].split(", ")


def test_a_second_decision_of_a_week_is_named(lake: Lake) -> None:
    cohorts(lake, 1)
    rows = [{"week": WEEK, "decision_id": name, "agent_id": f"{WEEK}/f", "state": "finished"} for name in ("a", "b")]
    write(lake, "arena/decisions", (WEEK.isoformat(),), *rows)
    assert asked(lake, "decisions_in_their_window").numbers == {"found": 2}


def test_a_bet_without_a_trade_is_named(lake: Lake) -> None:
    decide(lake, WEEK, "c/one", "c/two")
    decide(lake, WEEK + SEVEN, "c/one", action="HOLD")
    write(lake, "arena/trades", (WEEK.isoformat(),), {"week": WEEK, "trade_id": f"c/one/{WEEK}/1", "agent_id": "c/one"})
    found = asked(lake, "bets_have_trades")
    assert found.numbers == {"found": 1}
    assert f"c/two/{WEEK}" in found.found


@pytest.mark.parametrize(("hours", "reconstructed", "passed"), [(25, False, True), (27, False, False), (27, True, True)])
def test_a_held_market_that_is_not_marked_is_named(lake: Lake, hours: int, reconstructed: bool, passed: bool) -> None:
    cohorts(lake, 1, reconstructed=reconstructed)
    opened = NOW - timedelta(days=9)
    write(lake, "arena/positions", (), {"agent_id": f"{WEEK}/f", "market_id": "m", "status": "open", "opened_at": opened})
    at = NOW - timedelta(hours=hours)
    rebuilt = {"day": NOW.date(), "market_id": "m", "at": NOW, "reconstructed": True}
    write(lake, "arena/prices", (NOW.date().isoformat(),), rebuilt)
    write(lake, "arena/prices", (at.date().isoformat(),), {"day": at.date(), "market_id": "m", "at": at, "reconstructed": False})
    found = asked(lake, "held_prices_are_fresh")
    assert found.passed is passed, "a reconstructed mark values no live cohort"
    assert passed or "m" in found.found
