"""Checks of the whole lake for operators."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from bellwether.checks.operations import LAKE_CHECKS
from bellwether.checks.rule import Observation
from bellwether.lake import Lake
from bellwether.tables import table
from tests.clean import rows

DAY = rows.DAY
NOW = datetime(2026, 3, 12, 9, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def observe(lake: Lake, name: str, now: datetime = NOW) -> Observation:
    (found,) = (one for one in LAKE_CHECKS if one.name == name)
    return found.evaluate(lake, now)


def write_markets(lake: Lake, day: date, *markets: dict[str, object]) -> None:
    frame = rows.markets(*({**market, "day": day} for market in markets)) if markets else table("clean/markets").empty()
    lake.write(table("clean/markets"), (day.isoformat(),), frame, run_id="run")


def write_pull(lake: Lake, **changes: object) -> None:
    declared = table("raw/kalshi_pulls")
    lake.write(declared, (DAY.isoformat(),), declared.frame([rows.pull(**changes)]), run_id="run")


@pytest.mark.parametrize("one", LAKE_CHECKS, ids=lambda one: one.name)
def test_an_empty_lake_alarms_nobody(lake: Lake, one: object) -> None:
    assert one.evaluate(lake, NOW).passed  # type: ignore[attr-defined]


def test_names_are_unique_and_every_table_exists() -> None:
    assert len({one.name for one in LAKE_CHECKS}) == len(LAKE_CHECKS) == 8
    assert all(table(one.table) for one in LAKE_CHECKS)


@pytest.mark.parametrize(("age", "passed"), [(1, True), (2, True), (3, False)])
def test_a_lake_is_fresh_while_its_newest_day_is(lake: Lake, age: int, passed: bool) -> None:
    write_markets(lake, DAY, rows.market())
    seen = observe(lake, "kalshi_is_fresh", datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=UTC) + timedelta(days=age))
    assert seen.passed is passed
    assert seen.numbers == {"newest day": DAY.isoformat(), "age (days)": age}


def test_a_day_without_markets_of_a_venue_does_not_make_it_fresh(lake: Lake) -> None:
    write_markets(lake, DAY - timedelta(days=9), rows.market())
    write_markets(lake, DAY, rows.market(venue="polymarket", market_id="501"))
    assert not observe(lake, "kalshi_is_fresh").passed
    assert observe(lake, "polymarket_is_fresh").passed


def test_days_that_were_not_pulled_and_days_without_markets_are_named(lake: Lake) -> None:
    for offset in (0, 1, 4):
        write_markets(lake, DAY + timedelta(days=offset), rows.market())
    write_markets(lake, DAY + timedelta(days=2))
    seen = observe(lake, "kalshi_days_are_complete")
    assert not seen.passed
    assert seen.found == "not pulled: 2026-03-13; without markets: 2026-03-12"
    assert seen.numbers == {"days": 3, "not pulled": 1, "without markets": 1}


def test_a_day_with_outcomes_and_no_price_at_all_is_named(lake: Lake) -> None:
    write_markets(lake, DAY, rows.market("A"), rows.market("B"))
    assert not observe(lake, "kalshi_markets_have_prices").passed
    lake.write(table("clean/prices"), (DAY.isoformat(),), rows.prices(rows.price(market_id="A")), run_id="run")
    seen = observe(lake, "kalshi_markets_have_prices")
    assert seen.passed
    assert seen.numbers == {"markets with an outcome": 2, "of these with prices": 1, "share with prices": 0.5}


def test_markets_without_an_outcome_need_no_prices(lake: Lake) -> None:
    write_markets(lake, DAY, rows.market(outcome=None, outcome_reason="undetermined", status="closed"))
    assert observe(lake, "kalshi_markets_have_prices").passed


@pytest.mark.parametrize(("refused", "passed"), [(0, True), (5, True), (6, False)])
def test_being_refused_for_the_rate_is_an_alarm_and_waiting_is_not(lake: Lake, refused: int, passed: bool) -> None:
    write_pull(lake, attempts=100, failures_rate_limit=refused, limited_seconds=500.0)
    seen = observe(lake, "kalshi_rate_limit_time")
    assert seen.passed is passed
    assert seen.numbers["seconds waited for the rate"] == 500.0
    assert seen.numbers["refused for the rate"] == refused
