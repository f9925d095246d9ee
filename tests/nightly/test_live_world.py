"""The live world, with a server on loopback at the venue's address."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from bellwether.sandbox import Site, create_app, serve

#: The command with three forecasters and without pictures, which the demo covers.
FRUGAL = """
from bellwether import forecasting
from bellwether.pages import charts
from cli.main import main

competitors = forecasting.competitors
forecasting.competitors = lambda: {name: competitors()[name] for name in ("market-1h", "base-rate", "always-half")}
charts.png = lambda *_: b"\\x89PNG"
main()
"""
REGISTRY = """
[recent]
description = "Everything that was pulled."
cutoff = 2025-01-01T00:00:00Z
seed = 1
worlds = ["live"]
"""


def variables(tmp_path: Path, site: Site) -> dict[str, str]:
    registry = tmp_path / "registry"
    registry.mkdir(exist_ok=True)
    (registry / "releases.toml").write_text(REGISTRY)
    return {
        "BELLWETHER_WORLD": "live",
        "BELLWETHER_KALSHI_URL": site.kalshi,
        "BELLWETHER_GAMMA_URL": site.gamma,
        "BELLWETHER_CLOB_URL": site.clob,
        "BELLWETHER_HOME": str(tmp_path / "home"),
        "BELLWETHER_REGISTRY": str(registry),
    }


def test_the_last_days_are_pulled_in_real_time_and_scored(tmp_path: Path) -> None:
    with serve(create_app(11, lambda: datetime.now(UTC))) as site:
        environment = os.environ | variables(tmp_path, site)
        for words in (["pull"], ["release", "recent"]):
            command = [sys.executable, "-c", FRUGAL, *words]
            done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr[-3000:]
    with duckdb.connect(str(tmp_path / "home" / "live" / "warehouse.duckdb"), read_only=True) as warehouse:
        assert set(warehouse.sql("SELECT DISTINCT venue FROM clean.markets").fetchall()) == {("kalshi",), ("polymarket",)}
        ranked = warehouse.sql("SELECT forecaster FROM benchmark.leaderboard WHERE release = 'recent'").fetchall()
    assert set(ranked) == {("market-1h",), ("base-rate",), ("always-half",)}
    days = {path.name for path in (tmp_path / "home" / "live" / "lake" / "clean" / "markets").iterdir()}
    today = datetime.now(UTC).date()
    assert days <= {str(today - timedelta(days=back)) for back in range(4)}
    assert len(days) == 3
