"""sql/arena/leaderboard.sql on rows whose counts and sums are made by hand; exports compute real weeks a second time (test_exporting.py)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.lake.sql import run_sql
from bellwether.tables import table
from bellwether.tables.arena import LEADERBOARD

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 8)
AT = datetime(2026, 3, 1, tzinfo=UTC)
MEANS = ("scored", "stated", "brier_stated", "brier_size", "brier_price", "skill_price", "win_rate")


def frame(name: str, columns: str, *rows: tuple[Any, ...]) -> pl.DataFrame:
    schema = LEADERBOARD.schema if name == "scored" else table(f"arena/{name}").schema
    return pl.DataFrame(rows, schema={column: schema[column] for column in columns.split()}, orient="row")


def scored(*families: tuple[Any, ...]) -> pl.DataFrame:
    """Means of families: the Brier score of sizes, or nothing."""
    rows = [(*key, 0 if size is None else 3, 0, None, size, 0.25, None, None) for *key, size in families]
    return frame("scored", f"methodology reconstructed family {' '.join(MEANS)}", *rows)


INPUTS = {
    "agents": frame(
        "agents",
        "agent_id methodology reconstructed family week initial_cash archived_at",
        ("1/a", "v1", False, "a", FIRST, Decimal(1000), None),
        ("2/a", "v1", False, "a", SECOND, Decimal("500.000001"), None),
        ("1/b", "v1", False, "b", FIRST, Decimal(1000), None),
        ("1/c", "v1", False, "c", FIRST, Decimal(1000), None),
        ("1/d", "v1", False, "d", FIRST, Decimal(1000), None),
        ("1/old", "v1", False, "a", FIRST, Decimal(1000), AT),
        ("3/a", "v1", True, "a", FIRST, Decimal(1000), None),
        ("4/a", "v2", False, "a", FIRST, Decimal(1000), None),
        ("4/b", "v2", False, "b", FIRST, Decimal(1000), None),
    ),
    "decisions": frame(
        "decisions",
        "decision_id agent_id state action cost",
        ("1/a/1", "1/a", "finished", "BET", Decimal("0.1")),
        ("1/a/2", "1/a", "refused", "BET", Decimal("0.2")),
        ("2/a/2", "2/a", "finished", "INVALID", Decimal("0.000001")),
        ("1/b/1", "1/b", "finished", "HOLD", None),
        ("1/c/1", "1/c", "finished", "SELL", Decimal(0)),
        ("1/d/1", "1/d", "finished", "BET", Decimal(0)),
        ("1/d/2", "1/d", "failed", None, Decimal(1)),
        ("1/d/3", "1/d", "read", "BET", Decimal(1)),
        ("1/old/1", "1/old", "finished", "BET", Decimal(9)),
        ("3/a/1", "3/a", "finished", "BET", Decimal(0)),
        ("4/a/1", "4/a", "finished", "BET", Decimal(0)),
        ("4/b/1", "4/b", "finished", "BET", Decimal(0)),
    ),
    "refusals": frame("refusals", "decision_id superseded_at", ("1/a/2", None), ("1/a/2", None), ("1/a/2", AT), ("1/old/1", None)),
    "trades": frame(
        "trades",
        "agent_id action amount",
        ("1/a", "BUY", Decimal(300)),
        ("1/a", "SELL", Decimal(150)),
        ("2/a", "BUY", Decimal("0.000001")),
        ("1/old", "BUY", Decimal(999)),
    ),
    "ledger": frame("ledger", "agent_id number cash", ("1/a", 2, Decimal(850)), ("1/a", 1, Decimal(700)), ("1/old", 1, Decimal(1))),
    "positions": frame("positions", "agent_id status", ("1/a", "open"), ("1/a", "settled"), ("2/a", "open"), ("1/old", "open")),
    "portfolios": frame(
        "portfolios",
        "agent_id at total",
        ("1/a", AT.replace(hour=2), Decimal(900)),
        ("1/a", AT.replace(hour=1), Decimal(1200)),
        ("2/a", AT, Decimal(400)),
        ("4/a", AT, Decimal(990)),
        ("4/b", AT, Decimal(1010)),
    ),
    "completed": pl.DataFrame({"week": [FIRST]}, schema={"week": pl.Date()}),
    "primaries": pl.DataFrame({"methodology": ["v1", "v2"], "metric": ["brier_size", "return"]}),
    "scored": scored(
        *(("v1", False, family, size) for family, size in (("a", 0.2), ("b", 0.1), ("c", 0.1), ("d", 0.05))),
        ("v1", True, "a", None),
        ("v2", False, "a", 0.1),
        ("v2", False, "b", 0.2),
    ),
}


def test_a_family_is_counted_over_its_cohorts_that_are_not_archived() -> None:
    row = run_sql(LEADERBOARD, INPUTS, {"covered": 0.5}).row(0, named=True)
    counts = {"cohorts": 2, "completed": 1, "decisions": 3, "finished": 2, "invalid": 1, "unfinished": 0, "bets": 2, "refused": 2}
    assert {name: row[name] for name in counts} == counts
    money = {"initial_cash": "1500.000001", "cash": "1350.000001", "total": "1300", "profit": "-200.000001", "cost": "0.300001"}
    assert {name: row[name] for name in money} == {name: Decimal(value) for name, value in money.items()}
    assert (row["return"], row["drawdown"]) == (-200.000001 / 1500.000001, 0.25), "of one agent, from 1,200 to 900"
    assert (row["turnover"], row["open_positions"], row["brier_size"], row["scored"]) == (450.000001 / 1500.000001, 2, 0.2, 3)


def test_families_are_ranked_by_the_metric_of_their_methodology_within_their_group() -> None:
    found = run_sql(LEADERBOARD, INPUTS, {"covered": 0.5})
    assert found.select("methodology", "reconstructed", "family", "rank", "cost").rows() == [
        ("v1", False, "a", 3, Decimal("0.300001")),
        ("v1", False, "b", 1, None),
        ("v1", False, "c", 1, Decimal(0)),
        ("v1", False, "d", None, Decimal(2)),
        ("v1", True, "a", None, Decimal(0)),
        ("v2", False, "a", 2, Decimal(0)),
        ("v2", False, "b", 1, Decimal(0)),
    ], "equals share a rank; d gave a usable answer in one of three decisions; an unknown cost is null"
