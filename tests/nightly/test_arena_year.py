"""A few weeks of the benchmark's simulated year: eight agents in the sandbox under a moving clock."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bellwether.lake import Lake
from bellwether.tables import arena as tables
from benchmarks.arena_year import FAMILIES, TICK, added, growth, simulate


def test_weeks_under_a_moving_clock_keep_all_invariants(tmp_path: Path) -> None:
    year = simulate(tmp_path / "arena", weeks=1, ticks=1)
    assert year.violations == []
    assert year.facts["agents"] == len(FAMILIES)
    assert year.facts["decisions"] == len(FAMILIES)
    assert year.facts["trades"] > 0
    lake = Lake(str(tmp_path / "arena" / "lake"))
    decisions, prices, trades = (lake.slice(table).read() for table in (tables.DECISIONS, tables.PRICES, tables.TRADES))
    states = set(decisions["state"])
    assert states <= {"finished", "failed", "read"}, "a model that never answers has failed; refused decisions wait for the next hourly run"
    failed = decisions.filter(pl.col("state") == "failed")
    assert set(failed["attempts"]) <= {1, 2} and failed["cost"].null_count() == 0, "what was paid for in vain is known"
    assert not decisions["reconstructed"].any()
    assert prices.filter(pl.col("at").dt.epoch("s") % TICK.total_seconds() != 0).is_empty(), "marks are made every ten minutes"
    held = set(trades["market_id"])
    assert set(prices["market_id"]) <= held
    assert year.facts["evidence"] >= len(held)
    ledger, board = (lake.slice(table).read() for table in (tables.LEDGER, tables.LEADERBOARD))
    assert board["cash"].sum() == len(FAMILIES) * 10_000 + ledger["amount"].sum()
    assert len(year.marking) == len(year.lake) == 1
    assert all(one > 0 for one in added(year.lake))


def test_growth_compares_the_halves_after_the_first_weeks() -> None:
    assert growth([9, 9, 2, 2, 4, 4], first=2) == 2
    assert growth([1, 1, 1, 3, 3, 3, 3], first=3) == 1
    assert added([5, 7, 12]) == [5, 2, 5]
