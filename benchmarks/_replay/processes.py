"""Measurements in separate processes: from raw files to a result, the start of a process, and sweeps."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bellwether.replay.agents.market_maker import MarketMaker
from bellwether.replay.backtest import BacktestSettings
from bellwether.replay.batches import Candidate
from bellwether.replay.sweep import run_sweep
from bellwether.replay.units import SECOND
from benchmarks._replay.environments import CACHE, ROOT
from benchmarks._replay.episodes import write_short
from benchmarks._replay.snapshots import write_snapshots

if TYPE_CHECKING:
    from distributed import Client

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
    """Measure the CPU seconds of a new process until its first result, minus the time to import NumPy and PyArrow. Caches are filled before."""
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


def compilation() -> float:
    """Return the CPU seconds that the first process after an installation spends on compiling: those of the first process minus those of the
    second.
    """
    command = [sys.executable, "-m", "benchmarks._replay.start", _short(0), CACHE / "start-cache"]
    with TemporaryDirectory() as empty:
        first, later = (_children(command, os.environ | {"NUMBA_CACHE_DIR": empty})[0] for _ in range(2))
    return first - later


def _children(command: list[Any], environment: dict[str, str] | None = None) -> tuple[float, str]:
    before = os.times()
    output = _run(command, environment).stdout
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, output


def sweep() -> dict[str, Any]:
    """Run 1,000 backtests by one command with two worker processes. Returns which share of the CPU time was spent in engine and agents, as the
    command reports it.
    """
    folders = [_short(number, hours=24) for number in range(_EPISODES)]
    episodes = [part for folder in folders for part in ("--episode", folder)]
    command = [Path(sys.executable).with_name("bellwether"), "backtest", "--agent", "market-maker", *episodes, "--cadence", 60]
    command += ["--jobs", _JOBS]
    environment = os.environ | {"BELLWETHER_HOME": str(CACHE / "home")}
    _run(command, environment)  # The first run keeps the tapes.
    start = time.perf_counter()
    said = _run([*command, "--grid", "spread_cents=1..10", "--grid", "size=1..10"], environment).stderr
    wall = time.perf_counter() - start
    found = re.search(r"([\d,]+) backtests, ([\d.]+) s of CPU, ([\d.]+)% of them", said)
    if found is None:
        raise RuntimeError(f"the sweep said {said.strip()[-200:]!r}")
    runs, cpu, share = (float(number.replace(",", "")) for number in found.groups())
    return {"runs": int(runs), "share": share / 100, "cpu": cpu, "wall": wall}


def dask(rounds: int) -> dict[str, Any]:
    """Measure the CPU seconds of 1,000 backtests on Dask, divided by those of a serial loop.

    The backtests are sent in batches of 100 to two workers; scheduler and client count, too. Both ways have run the sweep once before they are
    measured.
    """
    with TemporaryDirectory() as home, _cluster(Path(home)) as (client, processes):
        folders = [_short(number) for number in range(_EPISODES)]
        varied = [{"spread_cents": spread, "size": size} for spread in range(1, 11) for size in range(1, 11)]
        makers = [Candidate(f"{MarketMaker.__module__}:MarketMaker", "maker", str(params), params) for params in varied]
        settings = BacktestSettings(cadence=60 * SECOND)

        def measured(client: Client | None) -> tuple[float, list[Any]]:
            start = time.process_time() + sum(_cpu(process) for process in processes)
            rows = run_sweep(folders, makers, settings, cache=CACHE / "dask-tapes", client=client, batch=100).rows
            return time.process_time() + sum(_cpu(process) for process in processes) - start, rows

        for warm in (client, None):
            measured(warm)
        ratios = []
        for _ in range(rounds):
            (alone, expected), (there, rows) = measured(None), measured(client)
            if rows != expected:
                raise RuntimeError("Dask had other rows than the serial loop")
            ratios.append(there / alone)
    return {"ratio": ratios, "serial": alone, "dask": there}


@contextmanager
def _cluster(home: Path) -> Iterator[tuple[Client, list[int]]]:
    """Start a Dask scheduler and two workers with one thread each. Yields a client, and the process ids of scheduler and workers."""
    try:
        from distributed import Client
    except ImportError:
        raise RuntimeError("sweeps on Dask need the extra `dask`; install it: pip install 'bellwether[dask]'") from None
    environment = os.environ | {"BELLWETHER_HOME": str(home), "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "0"}
    dask = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--port",
        "0",
        "--no-dashboard",
        "--scheduler-file",
        home / "scheduler.json",
    ]
    worker = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        "--no-nanny",
        "--nthreads",
        "1",
        "--scheduler-file",
        home / "scheduler.json",
    ]
    worker += ["--no-dashboard", "--local-directory", home]
    started = [
        subprocess.Popen([str(part) for part in command], env=environment, cwd=ROOT, stderr=subprocess.DEVNULL)
        for command in (dask, worker, worker)
    ]
    try:
        while not (home / "scheduler.json").is_file():
            time.sleep(0.1)
        with Client(scheduler_file=str(home / "scheduler.json"), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)
            yield client, [one.pid for one in started]
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait()


def _cpu(process: int) -> float:
    """Return the CPU seconds that a process has used so far. process: its id."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
