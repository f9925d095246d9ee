"""A small live week: few requests, few files, and a stored settlement of every settled market."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bellwether.lake import Lake
from bellwether.tables import table
from benchmarks.live_week import MOST_CALLS, MOST_FILES, MOST_GROWTH, MOST_MEMORY, measure_apart, simulate

DAYS, PER_DAY = 4, 60


def test_a_week_of_both_venues_takes_few_calls_and_files_and_misses_nothing(tmp_path: Path) -> None:
    week = simulate(tmp_path, PER_DAY, days=DAYS, priced=10)
    assert week.open_at_end > 0, "something is followed"
    assert week.calls_per_market <= MOST_CALLS
    assert week.files <= MOST_FILES
    lake = Lake(str(tmp_path))
    markets = lake.slice(table("raw/kalshi_markets")).read()
    ours = lake.slice(table("raw/polymarket_markets")).read()
    assert markets["ticker"].n_unique() == markets.height
    assert ours["market_id"].n_unique() == ours.height
    open_still = markets.filter(pl.col("status") != "finalized").height + ours.filter(pl.col("uma_resolution_status") != "resolved").height
    assert open_still == week.open_at_end
    assert markets.height + ours.height == week.closed
    assert ours.filter(pl.col("end_time") > pl.col("closed_at") + pl.duration(days=45)).height > 0, (
        "markets with a distant end are among them"
    )


def test_memory_is_bounded_by_one_day() -> None:
    week = measure_apart(200, DAYS)
    assert week.peaks[-1] <= week.peaks[0] * MOST_GROWTH
    assert week.peaks[-1] <= week.idle + MOST_MEMORY
