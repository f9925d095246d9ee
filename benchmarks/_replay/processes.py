"""What is measured in processes of their own: raw files to an answer, a fresh start, a sweep."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._replay.environments import CACHE, ROOT
from benchmarks._replay.episodes import write_short
from benchmarks._replay.snapshots import write_snapshots

_HERE = Path(__file__).parent
#: Rows and prints of the episode whose time is measured over and over; the paper's full size is measured once, for memory.
_PART = {"rows": 30_000, "trades": 24_000}
_EPISODES, _PARAMETERS, _JOBS = 10, 100, 2


def original(rounds: int) -> dict[str, Any]:
    """Raw files to answer, here and in the original's design, interleaved; and both once at the paper's size, with the peak of memory."""
    part = write_snapshots(CACHE / "original-part", **_PART)
    pairs = [(_raw(part), _design(part)) for _ in range(rounds)]
    whole = write_snapshots(CACHE / "original")
    ours, theirs = _raw(whole), _design(whole)
    if ours["equity"] != theirs["equity"] * 10_000:
        raise RuntimeError(f"the answers differ: {ours} and {theirs}")
    return {
        "time": [theirs["cpu"] / ours["cpu"] for ours, theirs in pairs],
        "time_whole": theirs["cpu"] / ours["cpu"],
        "memory_whole": theirs["peak_mb"] / ours["peak_mb"],
        "whole": {"ours": ours, "theirs": theirs},
    }


def _raw(folder: Path) -> dict[str, Any]:
    return _json([sys.executable, "-m", "benchmarks._replay.raw", folder])


def _design(folder: Path) -> dict[str, Any]:
    return _json([sys.executable, _HERE / "peer_original.py", folder])


def _json(command: list[Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_output(command))
    return answer


def _output(command: list[Any]) -> str:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it failed"])[-1])
    return done.stdout


def start_up(rounds: int) -> dict[str, Any]:
    """CPU seconds of a fresh process to its first result, with warm caches, beyond those of importing numpy and pyarrow."""
    folder, cache = _short(0), CACHE / "start-cache"
    command = [sys.executable, "-m", "benchmarks._replay.start", folder, cache]
    digest = _output(command)
    beyond = []
    for _ in range(rounds):
        bare, _ = _children([sys.executable, "-c", "import numpy, pyarrow"])
        whole, output = _children(command)
        if output != digest:
            raise RuntimeError("a second process had another result")
        beyond.append(whole - bare)
    return {"beyond": beyond}


def _children(command: list[Any]) -> tuple[float, str]:
    before = os.times()
    output = _output(command)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, output


def sweep() -> dict[str, Any]:
    """1,000 backtests on two workers: how much of the CPU time passed in engine and agents."""
    from bellwether.replay.backtest import BacktestSettings
    from bellwether.replay.sweep import Candidate
    from bellwether.replay.sweep import sweep as run_sweep
    from bellwether.replay.units import MINUTE

    folders = [_short(number) for number in range(_EPISODES)]
    maker = "bellwether.replay.agents.market_maker:MarketMaker"
    candidates = [
        Candidate(maker, "market-maker", f"maker-{n}", {"spread_cents": 1 + n % 10, "size": 1 + n // 10}) for n in range(_PARAMETERS)
    ]
    start = time.perf_counter()
    done = run_sweep(folders, candidates, BacktestSettings(cadence=MINUTE, sample_every=MINUTE), cache=CACHE / "start-cache", jobs=_JOBS)
    wall = time.perf_counter() - start
    return {"runs": len(done.rows), "share": done.busy / done.cpu, "cpu": done.cpu, "wall": wall}


def _short(number: int) -> Path:
    folder = CACHE / "short" / f"e{number}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = folder.with_name(f"{folder.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        write_short(draft, number)
        draft.rename(folder)
    return folder


def spread(values: list[float]) -> tuple[float, float, float]:
    """(median, lowest, highest)."""
    return median(values), min(values), max(values)
