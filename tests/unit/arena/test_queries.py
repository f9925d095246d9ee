"""Queries of sql/analysis on the arena, and rows between two days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.arena.weekly.queries import filter_days
from bellwether.errors import ConfigError
from bellwether.lake import Lake
from bellwether.lake.sql import sql_text
from bellwether.lake.warehouse import publish, query
from bellwether.tables import table
from bellwether.tables.schema import TIME

WEEK = date(2026, 3, 1)
AT = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)
AGENTS = {"acme": "2026-03-01/acme", "zeta": "2026-03-01/zeta"}


def _row(name: str, **given: Any) -> dict[str, Any]:
    """Return a row of a table. Other columns are null."""
    nothing: dict[Any, Any] = {pl.String: "", pl.Boolean: False, pl.Float64: 0.0, pl.List: [], pl.Date: WEEK, pl.Datetime: AT}
    row = {one.name: nothing.get(one.dtype.base_type(), 0) for one in table(name).columns if not one.nullable}
    return {**row, **given}


def _decision(family: str, state: str, action: str | None, cost: str | None, **more: Any) -> dict[str, Any]:
    given = {"decision_id": f"{AGENTS[family]}/{WEEK}", "agent_id": AGENTS[family], "state": state, "action": action}
    return _row("arena/decisions", **given, cost=None if cost is None else Decimal(cost), attempts=1, **more)


def _trade(family: str, leg: int, side: str, price: str, market: str = "m") -> dict[str, Any]:
    given = {"trade_id": f"{AGENTS[family]}/{WEEK}/{leg}", "agent_id": AGENTS[family], "market_id": market, "side": side}
    return _row("arena/trades", **given, action="BUY", price=Decimal(price))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    lake, week = Lake(str(folder / "lake")), (WEEK.isoformat(),)
    market = {"outcomes": ["No", "Yes"], "prices": [Decimal("0.6"), Decimal("0.4")], "token_ids": ["n", "y"]}
    other = {"outcomes": ["X", "Y"], "prices": [None, Decimal("0.5")], "token_ids": ["x", "y"]}
    made: dict[str, tuple[tuple[str, ...], list[dict[str, Any]]]] = {
        "arena/agents": (week, [_row("arena/agents", agent_id=name, family=family) for family, name in AGENTS.items()]),
        "arena/decisions": (
            week,
            [
                _decision("acme", "finished", "BET", "0.5"),
                _decision("zeta", "open", None, None, reason="timeout: no answer"),
            ],
        ),
        "arena/refusals": (week, [_row("arena/refusals", decision_id=f"{AGENTS['acme']}/{WEEK}", leg=2, reason="no midpoint")]),
        "arena/trades": (
            week,
            [_trade("acme", 1, "YES", "0.45"), _trade("acme", 3, "NO", "0.58"), _trade("acme", 4, "X", "0.4", "n")],
        ),
        "arena/universe": (week, [_row("arena/universe", market_id="m", **market), _row("arena/universe", market_id="n", **other)]),
        "arena/portfolios": (
            (),
            [
                _row("arena/portfolios", agent_id=AGENTS["acme"], at=AT + timedelta(hours=hours), total=Decimal(total), cash=Decimal(total))
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


def test_equity_has_a_row_per_day_at_its_end(path: Path) -> None:
    rows = ask(path, "arena_equity")
    assert [(row["family"], row["day"], row["age"], row["total"]) for row in rows] == [
        ("acme", WEEK, 0, Decimal(9_900)),
        ("acme", WEEK + timedelta(days=1), 1, Decimal(10_100)),
    ]


def test_costs_are_per_decision_and_per_trade(path: Path) -> None:
    rows = {row["family"]: row for row in ask(path, "arena_cost_per_decision")}
    assert (rows["acme"]["dollars"], rows["acme"]["dollars_per_decision"]) == (Decimal("0.5"), 0.5)
    assert rows["acme"]["dollars_per_trade"] == pytest.approx(0.5 / 3)
    assert (rows["zeta"]["dollars"], rows["zeta"]["of_unknown_cost"]) == (None, 1)


def test_refusals_are_told_apart(path: Path) -> None:
    rows = ask(path, "arena_refusals")
    assert [(row["family"], row["kind"], row["reason"], row["number"]) for row in rows] == [
        ("acme", "refused leg", "no midpoint", 1),
        ("zeta", "no answer", "open: timeout: no answer", 1),
    ]


def test_drift_is_of_the_side_that_was_bought(path: Path) -> None:
    (row,) = ask(path, "arena_price_drift")
    assert (row["family"], row["fills"], row["without_a_shown_price"]) == ("acme", 2, 1)
    assert row["mean_drift"] == pytest.approx((0.05 - 0.02) / 2)


def test_both_days_of_a_range_are_in_it() -> None:
    at = [datetime(2026, 2, 28, 23, 59), datetime(2026, 3, 1, 10), datetime(2026, 3, 7, 23, 59, 59), datetime(2026, 3, 8)]
    rows = pl.DataFrame({"at": [one.replace(tzinfo=UTC) for one in at]}, schema={"at": TIME})
    first, last = date(2026, 3, 1), date(2026, 3, 7)

    def found(*bounds: date | None) -> list[int]:
        return [at.index(one.replace(tzinfo=None)) for one in filter_days(table("arena/portfolios"), rows, *bounds)["at"]]

    assert found(first, last) == [1, 2]
    assert found(first, None) == [1, 2, 3]
    assert found(None, last) == [0, 1, 2]


def test_a_table_of_days_is_cut_by_its_days_and_one_of_no_time_is_refused() -> None:
    days = pl.DataFrame({"day": [date(2026, 3, 1), date(2026, 3, 2)]})
    assert filter_days(table("arena/equity_by_day"), days, date(2026, 3, 2), None)["day"].to_list() == [date(2026, 3, 2)]
    with pytest.raises(ConfigError, match="arena/leaderboard: the table has no time column"):
        filter_days(table("arena/leaderboard"), pl.DataFrame(), date(2026, 3, 2), None)
