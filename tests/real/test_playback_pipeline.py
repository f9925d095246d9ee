"""Recorded answers of the real venue, from raw pages to a leaderboard, with the ordinary commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.lake import warehouse

pytestmark = [pytest.mark.real, pytest.mark.slow]

REGISTRY = """
[recorded]
description = "Whatever was recorded as settled."
cutoff = 2024-01-01T00:00:00Z
per_series = 0
cluster = "event"
seed = 1
"""


class Playback:
    """The command line in the playback world over one folder of recordings."""

    def __init__(self, folder: Path, home: Path) -> None:
        registry = home / "registry"
        registry.mkdir(parents=True)
        (registry / "releases.toml").write_text(REGISTRY)
        self._home = home
        self._environment = {
            **os.environ,
            "BELLWETHER_WORLD": "playback",
            "BELLWETHER_PLAYBACK": str(folder),
            "BELLWETHER_HOME": str(home),
            "BELLWETHER_REGISTRY": str(registry),
            "BELLWETHER_FIRST_DAY": "2024-01-01",
        }

    def __call__(self, *arguments: str) -> Any:
        command = [sys.executable, "-m", "bellwether", *arguments, "--json"]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return rows of the published warehouse."""
        return warehouse.query(self._home / "playback" / "warehouse.duckdb", sql).to_dicts()


def test_recorded_settled_markets_reach_the_leaderboard(recordings: Path, tmp_path: Path) -> None:
    play = Playback(recordings / "kalshi" / "rest_2026_08", tmp_path)
    recorded = json.loads((recordings / "kalshi" / "rest_2026_08" / "markets_settled.json").read_text())["markets"]
    final = {market["ticker"]: market["result"] for market in recorded if market["status"] == "finalized"}
    days = sorted({market["close_time"][:10] for market in recorded if market["status"] == "finalized"})
    play("pull", days[0], days[-1])
    outcomes = {row["market_id"]: row["outcome"] for row in play.query("SELECT market_id, outcome FROM clean.markets")}
    assert {ticker: outcomes[ticker] for ticker in final} == final
    board = play("release", "recorded", "--forecaster", "always-half", "--forecaster", "base-rate")["leaderboards"]["recorded"]
    assert {row["forecaster"] for row in board} == {"always-half", "base-rate"}
    half = next(row for row in board if row["forecaster"] == "always-half")
    assert half["brier"] == 0.25
    assert half["n"] >= len(final)
    rejected = play.query('SELECT DISTINCT "table", reason FROM raw.kalshi_rejects')
    assert {row["table"] for row in rejected} <= {"raw/kalshi_events"}, "only events that nobody recorded may be missing"


def ten_days_with_candles(folder: Path) -> tuple[date, date]:
    """Return the last ten close days of settled markets with recorded candles."""
    markets = pl.concat([pl.read_parquet(path).select("ticker", "close_time", "result") for path in folder.glob("kalshi_markets*.parquet")])
    candles = pl.concat([pl.read_parquet(path).select("ticker") for path in folder.glob("kalshi_candles*.parquet")])
    settled = markets.filter(pl.col("result") != "").join(candles, on="ticker", how="semi")
    days = settled["close_time"].dt.date().unique().sort().tail(10)
    return days[0], days[-1]


def test_recorded_weather_markets_and_candles_are_scored_at_fixed_horizons(recordings: Path, tmp_path: Path) -> None:
    play = Playback(recordings / "kalshi" / "settled", tmp_path)
    first, last = ten_days_with_candles(recordings / "kalshi" / "settled")
    play("pull", str(first), str(last))
    counts = play.query(
        "SELECT (SELECT count(*) FROM clean.markets WHERE outcome IS NOT NULL) AS settled,"
        ' (SELECT count(*) FROM clean.prices p JOIN clean.markets m USING (venue, market_id) WHERE p."at" > m.close_time) AS late'
    )[0]
    assert counts["settled"] > 100
    assert counts["late"] == 0
    horizons = ("market-1h", "market-6h", "market-24h")
    chosen = [argument for name in horizons for argument in ("--forecaster", name)]
    board = {row["forecaster"]: row for row in play("release", "recorded", *chosen)["leaderboards"]["recorded"]}
    for name in horizons:
        assert board[name]["brier_lower"] <= board[name]["brier"] <= board[name]["brier_upper"]
        assert board[name]["n_clusters"] > 5
    assert board["market-1h"]["brier"] < board["market-24h"]["brier"] < 0.25
