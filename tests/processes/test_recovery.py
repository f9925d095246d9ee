"""A killed process loses nothing: a repeated run gives the bytes of an undisturbed run."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import dagster as dg
import pytest

from bellwether.lake import Lake
from bellwether.tables import TABLES, table
from tests.shared import wait_until

pytestmark = pytest.mark.slow

TOOK = ("attempts", "input_tokens", "output_tokens", "reasoning_tokens", "cost", "cost_source", "latency")
#: Columns with the source of a row of raw markets, because a market that was open at the kill is requested again.
ORIGIN = ("request", "page")
#: The steps of `bellwether run` with few forecasters: three days and a release.
COMMANDS = """
from cli.main import main
main(["pull", "2026-06-28", "2026-06-30"], standalone_mode=False)
main(["release", "sandbox-2026", "--forecaster", "market-24h", "--forecaster", "sandbox-calibrated", "--forecaster", "sandbox-noisy"])
"""


def start(home: Path) -> subprocess.Popen[str]:
    command, settings = [sys.executable, "-c", COMMANDS], {**os.environ, "BELLWETHER_HOME": str(home)}
    settings.pop("DAGSTER_HOME", None)
    return subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home)


def finish(home: Path) -> None:
    process = start(home)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]


def contents(home: Path) -> dict[tuple[str, tuple[str, ...]], str]:
    """Return the SHA-256 of every partition, after reading every file completely.

    Requests, tokens, money and seconds depend on the number of kills and are excluded, like the source of each row of raw markets and the order of its
    rows.
    """
    lake = Lake(str(home / "sandbox" / "lake"))
    found = {(name, partition): manifest for name, declared in TABLES.items() for partition, manifest in lake.manifests(declared).items()}
    for manifest in found.values():
        lake.verify(manifest)
    digests = {place: manifest.sha256 for place, manifest in found.items() if not place[0].endswith("_pulls")}
    left_out = {"benchmark/forecasts": TOOK, "raw/kalshi_markets": ORIGIN, "raw/polymarket_markets": ORIGIN}
    for name, partition in [place for place in digests if place[0] in left_out]:
        rows = lake.slice(table(name), [partition]).read().drop(left_out[name])
        digests[name, partition] = hashlib.sha256(rows.sort(table(name).key).write_ndjson().encode()).hexdigest()
    return digests


def exists(lake: Path, pattern: str) -> bool:
    """Return True if there is such a file. Folders may disappear, because the end of a pull merges its pages into one file."""
    names = (os.path.relpath(os.path.join(folder, name), lake) for folder, _, names in os.walk(lake) for name in names)
    return any(fnmatch(name, pattern) for name in names)


def kill_when(home: Path, pattern: str) -> bool:
    """Start a run, and kill it when the lake has a file like `pattern`. Returns False if the run ended before."""
    process = start(home)
    wait_until(lambda: process.poll() is not None or exists(home / "sandbox" / "lake", pattern), f"{pattern} is in the lake")
    alive = process.poll() is None
    kill(process)
    return alive


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def statuses(home: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the statuses of the runs of a home."""
    folder = str(home / "sandbox" / "dagster")
    monkeypatch.setenv("DAGSTER_HOME", folder)
    with dg.DagsterInstance.from_config(folder) as instance:
        return {run.status.value for run in instance.get_runs()}


def test_a_run_killed_again_and_again_ends_as_an_undisturbed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while it uses the venue's pool, between two tables of a day, and between two forecasts."""
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    calm.mkdir()
    rough.mkdir()
    finish(calm)
    for pattern in ("raw/kalshi_pages/day/*", "raw/kalshi_markets/*/manifest.json", "benchmark/forecasts/*/*/*.parquet"):
        assert kill_when(rough, pattern)
        contents(rough)
    finish(rough)
    assert contents(rough) == contents(calm)
    assert statuses(calm, monkeypatch) == {"SUCCESS"}
    assert statuses(rough, monkeypatch) == {"SUCCESS", "FAILURE"}, "the next command ends the runs of a killed one"
