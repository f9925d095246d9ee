"""Lake checks of the arena, each with rows that fail and rows that pass, and the queries of sql/analysis on the arena."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bellwether.arena.checks import LAKE_CHECKS
from bellwether.checks.rule import Observation
from bellwether.lake import Lake
from bellwether.lake.sql import sql_text
from bellwether.lake.warehouse import publish, query
from bellwether.tables import table
from tests.unit.arena.world import row_of

WEEK, SEVEN, HOUR = date(2026, 3, 1), timedelta(days=7), timedelta(hours=1)
NOW = datetime(2026, 3, 10, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def write(lake: Lake, name: str, day: date | None, *rows: dict[str, Any]) -> None:
    """Write rows of a table. `day`: partition and value of the column `week`."""
    column = {} if day is None else {table(name).partitioned_by[0]: day}
    lake.write(
        table(name),
        (day.isoformat(),) if day else (),
        table(name).frame([row_of(name, **{**column, **row}) for row in rows]),
        run_id="r",
    )


def cohorts(lake: Lake, weeks: int, *, reconstructed: bool = False) -> None:
    for week in [WEEK + number * SEVEN for number in range(weeks)]:
        write(lake, "arena/agents", week, {"agent_id": f"{week}/f", "reconstructed": reconstructed})


def decide(lake: Lake, week: date, *names: str, **more: Any) -> None:
    row = {"state": "finished", "action": "BET"}
    write(lake, "arena/decisions", week, *({**row, "decision_id": f"{name}/{week}", "agent_id": name, **more} for name in names))


def observe(lake: Lake, name: str, now: datetime = NOW) -> Observation:
    (check,) = (one for one in LAKE_CHECKS if one.name == name)
    return check.evaluate(lake, now)


def test_an_arena_that_was_never_run_alarms_nobody(lake: Lake) -> None:
    assert all(observe(lake, check.name).passed for check in LAKE_CHECKS)


def test_a_week_without_a_live_cohort_is_named(lake: Lake) -> None:
    cohorts(lake, 1)
    assert observe(lake, "cohort_of_the_week").subjects == ("2026-03-08",)
    cohorts(lake, 2)
    assert observe(lake, "cohort_of_the_week").passed


def test_the_first_sunday_after_the_first_pull_is_missed_as_any_other(tmp_path: Path) -> None:
    pulled, sunday = datetime(2026, 3, 5, 1, 30, tzinfo=UTC), datetime(2026, 3, 8, tzinfo=UTC)
    lake = Lake(str(tmp_path), clock=lambda: pulled)
    write(lake, "raw/kalshi_pulls", date(2026, 3, 4), {})
    write(lake, "arena/agents", WEEK, {"agent_id": "a", "reconstructed": True})
    assert observe(lake, "cohort_of_the_week", pulled).passed, "the week had begun before the home"
    assert observe(lake, "cohort_of_the_week", sunday + HOUR / 2).passed, "its first hour is not over"
    assert observe(lake, "cohort_of_the_week", sunday + 2 * HOUR).subjects == ("2026-03-08",)


def test_a_decision_that_is_left_past_its_deadline_is_named(lake: Lake) -> None:
    decide(lake, WEEK, "c/f", state="blocked", reason="no credit")
    assert observe(lake, "decisions_are_finished", datetime(2026, 3, 2, tzinfo=UTC)).passed, "its deadline is not over"
    late = observe(lake, "decisions_are_finished")
    assert not late.passed
    assert f"c/f/{WEEK} is blocked (no credit)" in late.found
    decide(lake, WEEK, "c/f")
    assert observe(lake, "decisions_are_finished").passed


def test_a_held_market_that_closed_long_ago_is_named(lake: Lake) -> None:
    write(lake, "arena/positions", None, {"market_id": "m", "status": "open"})
    write(lake, "arena/evidence", WEEK, {"market_id": "m", "closed": True, "closed_at": NOW - timedelta(days=8)})
    assert observe(lake, "held_markets_resolve").subjects == ("m",)
    write(lake, "arena/positions", None, {"market_id": "m", "status": "settled"})
    assert observe(lake, "held_markets_resolve").passed


def test_a_decision_outside_the_window_of_its_cohort_is_named(lake: Lake) -> None:
    """The newest five cohorts decide, for as many weeks as needed."""
    cohorts(lake, 7)
    first = f"{WEEK}/f"
    decide(lake, WEEK + 4 * SEVEN, first)
    assert observe(lake, "decisions_in_their_window").passed, "the fifth week is its last"
    decide(lake, WEEK + 5 * SEVEN, first)
    assert observe(lake, "decisions_in_their_window").subjects == (f"{first}/{WEEK + 5 * SEVEN}",)


def test_after_missed_weeks_the_window_is_open(lake: Lake) -> None:
    cohorts(lake, 3)
    decide(lake, WEEK + 6 * SEVEN, f"{WEEK}/f")
    assert observe(lake, "decisions_in_their_window").passed


def test_a_decision_before_its_cohort_of_no_agent_or_second_of_its_week_is_named(lake: Lake) -> None:
    cohorts(lake, 2)
    decide(lake, WEEK, early := f"{WEEK + SEVEN}/f", stranger := f"{WEEK}/stranger", f"{WEEK}/f")
    assert observe(lake, "decisions_in_their_window").subjects == tuple(sorted((f"{early}/{WEEK}", f"{stranger}/{WEEK}")))
    write(lake, "arena/decisions", WEEK, *({"decision_id": name, "agent_id": f"{WEEK}/f", "state": "finished"} for name in ("a", "b")))
    assert observe(lake, "decisions_in_their_window").subjects == ("a", "b")


def test_a_bet_without_a_trade_is_named(lake: Lake) -> None:
    decide(lake, WEEK, "c/one", "c/two")
    decide(lake, WEEK + SEVEN, "c/one", action="HOLD")
    write(lake, "arena/trades", WEEK, {"trade_id": f"c/one/{WEEK}/1", "agent_id": "c/one"})
    assert observe(lake, "bets_have_trades").subjects == (f"c/two/{WEEK}",)
    write(lake, "arena/refusals", WEEK, {"decision_id": f"c/two/{WEEK}", "leg": 1, "reason": "price"})
    assert observe(lake, "bets_have_trades").passed, "a decision whose legs were all refused needs no trade"


@pytest.mark.parametrize(("hours", "reconstructed", "passed"), [(25, False, True), (27, False, False), (27, True, True)])
def test_a_held_market_that_is_not_marked_is_named(lake: Lake, hours: int, reconstructed: bool, passed: bool) -> None:
    """A reconstructed mark does not value a live cohort."""
    cohorts(lake, 1, reconstructed=reconstructed)
    write(lake, "arena/positions", None, {"agent_id": f"{WEEK}/f", "market_id": "m", "status": "open", "opened_at": NOW - SEVEN})
    write(lake, "arena/prices", NOW.date(), {"market_id": "m", "at": NOW, "reconstructed": True})
    at = NOW - hours * HOUR
    write(lake, "arena/prices", at.date(), {"market_id": "m", "at": at, "reconstructed": False})
    assert observe(lake, "held_prices_are_fresh").subjects == (() if passed else ("m",))


# --- queries ------------------------------------------------------------------------------------------------------------


AT = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)
AGENTS = {"acme": "2026-03-01/acme", "zeta": "2026-03-01/zeta"}


def _decision(family: str, state: str, action: str | None, cost: str | None, **more: Any) -> dict[str, Any]:
    given = {"decision_id": f"{AGENTS[family]}/{WEEK}", "agent_id": AGENTS[family], "state": state, "action": action}
    return row_of("arena/decisions", **given, cost=None if cost is None else Decimal(cost), attempts=1, **more)


def _trade(family: str, leg: int, side: str, price: str, market: str = "m") -> dict[str, Any]:
    given = {"trade_id": f"{AGENTS[family]}/{WEEK}/{leg}", "agent_id": AGENTS[family], "market_id": market, "side": side}
    return row_of("arena/trades", **given, action="BUY", price=Decimal(price))


def publish_rows(folder: Path) -> Path:
    lake, week = Lake(str(folder / "lake")), (WEEK.isoformat(),)
    market = {"outcomes": ["No", "Yes"], "prices": [Decimal("0.6"), Decimal("0.4")], "token_ids": ["n", "y"]}
    other = {"outcomes": ["X", "Y"], "prices": [None, Decimal("0.5")], "token_ids": ["x", "y"]}
    made: dict[str, tuple[tuple[str, ...], list[dict[str, Any]]]] = {
        "arena/agents": (week, [row_of("arena/agents", agent_id=name, family=family) for family, name in AGENTS.items()]),
        "arena/decisions": (
            week,
            [
                _decision("acme", "finished", "BET", "0.5"),
                _decision("zeta", "open", None, None, reason="timeout: no answer"),
            ],
        ),
        "arena/refusals": (week, [row_of("arena/refusals", decision_id=f"{AGENTS['acme']}/{WEEK}", leg=2, reason="no midpoint")]),
        "arena/trades": (
            week,
            [_trade("acme", 1, "YES", "0.45"), _trade("acme", 3, "NO", "0.58"), _trade("acme", 4, "X", "0.4", "n")],
        ),
        "arena/universe": (week, [row_of("arena/universe", market_id="m", **market), row_of("arena/universe", market_id="n", **other)]),
        "arena/portfolios": (
            (),
            [
                row_of(
                    "arena/portfolios", agent_id=AGENTS["acme"], at=AT + timedelta(hours=hours), total=Decimal(total), cash=Decimal(total)
                )
                for hours, total in ((0, 10_000), (3, 9_900), (30, 10_100))
            ],
        ),
    }
    for name, (partition, rows) in made.items():
        lake.write(table(name), partition, table(name).frame(list(rows)), run_id="r")
    publish(lake, folder / "warehouse.duckdb")
    return folder / "warehouse.duckdb"


def ask(path: Path, name: str) -> list[dict[str, Any]]:
    return query(path, sql_text(f"analysis/{name}"), {}).to_dicts()


def test_the_queries_of_the_arena(tmp_path: Path) -> None:
    path = publish_rows(tmp_path)
    rows = ask(path, "arena_equity")
    assert [(row["family"], row["day"], row["age"], row["total"]) for row in rows] == [
        ("acme", WEEK, 0, Decimal(9_900)),
        ("acme", WEEK + timedelta(days=1), 1, Decimal(10_100)),
    ]
    costs = {row["family"]: row for row in ask(path, "arena_cost_per_decision")}
    assert (costs["acme"]["dollars"], costs["acme"]["dollars_per_decision"]) == (Decimal("0.5"), 0.5)
    assert costs["acme"]["dollars_per_trade"] == pytest.approx(0.5 / 3)
    assert (costs["zeta"]["dollars"], costs["zeta"]["of_unknown_cost"]) == (None, 1)
    assert [(row["family"], row["kind"], row["reason"], row["number"]) for row in ask(path, "arena_refusals")] == [
        ("acme", "refused leg", "no midpoint", 1),
        ("zeta", "no answer", "open: timeout: no answer", 1),
    ]
    (drift,) = ask(path, "arena_price_drift")
    assert (drift["family"], drift["fills"], drift["without_a_shown_price"]) == ("acme", 2, 1)
    assert drift["mean_drift"] == pytest.approx((0.05 - 0.02) / 2), "of the side that was bought"
