"""The live world, with a server on loopback at the venue's address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bellwether.sandbox import Limits, Site, serve
from bellwether.sandbox.worlds import generated

VENUES = "SELECT DISTINCT venue FROM clean.markets"
REGISTRY = """
[recent]
description = "Everything that was pulled."
cutoff = 2025-01-01T00:00:00Z
seed = 1
worlds = ["live"]
"""


def command(tmp_path: Path, site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    registry = tmp_path / "registry"
    registry.mkdir(exist_ok=True)
    (registry / "releases.toml").write_text(REGISTRY)
    environment = {
        **os.environ,
        "BELLWETHER_WORLD": "live",
        "BELLWETHER_KALSHI_URL": site.kalshi,
        "BELLWETHER_GAMMA_URL": site.gamma,
        "BELLWETHER_CLOB_URL": site.clob,
        "BELLWETHER_HOME": str(tmp_path / "home"),
        "BELLWETHER_REGISTRY": str(registry),
    }
    call = [sys.executable, "-m", "bellwether", *arguments]
    return subprocess.run(call, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_the_last_days_are_pulled_under_the_venues_rate_limit_and_scored(tmp_path: Path) -> None:
    with serve(generated(11, None, limits=Limits())) as site:
        done = command(tmp_path, site, "run", "--days", "2", "--release", "recent", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    venues = {row["venue"] for row in json.loads(command(tmp_path, site, "query", VENUES, "--json").stdout)}
    assert venues == {"kalshi", "polymarket"}
    assert {row["forecaster"] for row in report["leaderboards"]["recent"]} >= {"market-1h", "base-rate", "always-half"}
    days = {path.name for path in (tmp_path / "home" / "live" / "lake" / "clean" / "markets").iterdir()}
    today = datetime.now(UTC).date()
    assert days <= {str(today - timedelta(days=back)) for back in range(4)}
    assert len(days) == 2


def test_without_a_network_the_command_ends_at_once_and_says_why(tmp_path: Path) -> None:
    done = command(tmp_path, Site("http://127.0.0.1:9"), "run", "--release", "recent")
    assert done.returncode == 1
    assert "BELLWETHER_KALSHI_URL" in done.stderr
    assert "Traceback" not in done.stderr
