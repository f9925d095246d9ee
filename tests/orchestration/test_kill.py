"""A process that is killed loses nothing: run again, the result is that of an undisturbed run, byte for byte."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bellwether.lake import Lake
from bellwether.tables import TABLES

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "bellwether", "run", "--days", "6", "--release", "sandbox-2026", "--json"]


def start(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        COMMAND, env={**os.environ, "BELLWETHER_HOME": str(home)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home
    )


def finish(home: Path) -> dict[str, object]:
    process = start(home)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err[-3000:]
    report: dict[str, object] = json.loads(out)
    return report


def contents(home: Path) -> dict[tuple[str, tuple[str, ...]], str]:
    """SHA-256 of every partition, after reading every file whole."""
    lake = Lake(str(home / "sandbox" / "lake"))
    found = {(name, partition): manifest for name, declared in TABLES.items() for partition, manifest in lake.manifests(declared).items()}
    for manifest in found.values():
        lake.verify(manifest)
    return {place: manifest.sha256 for place, manifest in found.items()}


def test_a_run_killed_again_and_again_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    calm.mkdir()
    rough.mkdir()
    finish(calm)
    dice = random.Random(20260101)
    killed = 0
    for _ in range(4):
        process = start(rough)
        time.sleep(dice.uniform(2.5, 9.0))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
        contents(rough)
    assert killed >= 3
    finish(rough)
    assert contents(rough) == contents(calm)
