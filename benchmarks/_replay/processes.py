"""Measurements in separate processes: from raw files to a result, the start of a process, and sweeps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._replay.environments import CACHE, ROOT
from benchmarks._replay.episodes import write_short
from benchmarks._replay.snapshots import write_snapshots

_HERE = Path(__file__).parent
_EPISODES, _JOBS = 10, 2


def original(rounds: int) -> dict[str, Any]:
    """Measure time and memory from raw files to a result, for an episode as large as PredictionMarketBench's published episodes together.

    This engine is measured `rounds` times, the design of PredictionMarketBench ("the original") once.
    """
    folder = write_snapshots(CACHE / "original")
    theirs = _design(folder)
    _raw(folder)  # The first run keeps the compiled code: compiling takes more memory than the episode.
    ours = [_raw(folder) for _ in range(rounds)]
    if ours[0]["equity"] != theirs["equity"] * 10_000:
        raise RuntimeError(f"the answers differ: {ours[0]} and {theirs}")
    return {
        "time": [theirs["cpu"] / run["cpu"] for run in ours],
        "memory": [theirs["peak_mb"] / run["peak_mb"] for run in ours],
        "ours": ours,
        "theirs": theirs,
    }


def _raw(folder: Path) -> dict[str, Any]:
    return _json([sys.executable, "-m", "benchmarks._replay.raw", folder])


def _design(folder: Path) -> dict[str, Any]:
    return _json([sys.executable, _HERE / "peer_original.py", folder])


def _json(command: list[Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_output(command))
    return answer


def _output(command: list[Any]) -> str:
    return _run(command).stdout


def _run(command: list[Any], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it failed"])[-1])
    return done


def start_up(rounds: int) -> dict[str, Any]:
    """Measure the CPU seconds of a new process until its first result, minus the time to import NumPy and PyArrow. The compiled code is stored before."""
    command = [sys.executable, "-m", "benchmarks._replay.start", _short(0)]
    digest = _output(command)
    beyond = []
    for _ in range(rounds):
        bare, _ = _children([sys.executable, "-c", "import numpy, pyarrow"])
        whole, output = _children(command)
        if output != digest:
            raise RuntimeError("a second process had another result")
        beyond.append(whole - bare)
    return {"beyond": beyond}


def compilation() -> float:
    """Return the CPU seconds that the first process after an installation spends on compiling: those of the first process minus those of the
    second.
    """
    command = [sys.executable, "-m", "benchmarks._replay.start", _short(0)]
    with TemporaryDirectory() as empty:
        first, later = (_children(command, os.environ | {"NUMBA_CACHE_DIR": empty})[0] for _ in range(2))
    return first - later


def _children(command: list[Any], environment: dict[str, str] | None = None) -> tuple[float, str]:
    before = os.times()
    output = _run(command, environment).stdout
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, output


def sweep(rounds: int) -> dict[str, Any]:
    """Measure the CPU seconds of 1,000 backtests by one command with two worker processes, divided by those of the command without workers."""
    folders = [_short(number, hours=24) for number in range(_EPISODES)]
    episodes = [part for folder in folders for part in ("--episode", folder)]
    command = [Path(sys.executable).with_name("bellwether"), "backtest", "--agent", "market-maker", *episodes, "--cadence", 60]
    environment = os.environ | {"BELLWETHER_HOME": str(CACHE / "home")}
    _run(command, environment)  # The first run keeps the tapes.
    command += ["--grid", "spread_cents=1..10", "--grid", "size=1..10", "--json"]
    ratios = []
    for _ in range(rounds):
        (alone, expected), (together, rows) = (_children([*command, "--jobs", jobs], environment) for jobs in (1, _JOBS))
        if rows != expected:
            raise RuntimeError("two workers had other rows than one process")
        ratios.append(together / alone)
    return {"ratio": ratios, "alone": alone, "together": together}


def _short(number: int, *, hours: int = 2) -> Path:
    folder = CACHE / "short" / f"{hours}h-{number}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = folder.with_name(f"{folder.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        write_short(draft, number, changes=hours * 42_000, prints=hours * 12_500, hours=hours)
        draft.rename(folder)
    return folder


def spread(values: list[float]) -> tuple[float, float, float]:
    """Return median, minimum and maximum of the values."""
    return median(values), min(values), max(values)
