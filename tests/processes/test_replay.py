"""Replays in other processes: the same bytes and rows, imports only when needed, and a worker that ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.errors import BellwetherError
from bellwether.replay import AgentSource, BacktestSettings, run
from bellwether.replay.agents.builtin import RandomAgent
from bellwether.replay.agents.market_maker import MarketMaker
from bellwether.replay.engine import Session
from bellwether.replay.sweep import Candidate, Sweep
from bellwether.replay.units import SECOND
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.engine.small_tapes import LIVE, busy_tape, follow
from tests.unit.replay.test_sweep import MAKER, SETTINGS, check_rows, three_sources

ROOT = Path(__file__).resolve().parents[2]
RULES = ("kalshi-2025-07-01", "kalshi-2026-08-30")


def digests() -> list[str]:
    """Return the digests of a random agent under two rule sets and of a compiled strategy, and the P&L of a maker in sampled queue histories."""
    tape = random_tape(3, Shape(tickers=3, lifecycle=False))
    runs = [run(tape, RandomAgent(trade_probability=0.5), BacktestSettings(rules=rules, cadence=SECOND)) for rules in RULES]
    assert all(len(one.outcome.fills) for one in runs)
    opened = Session(busy_tape(), LIVE, BacktestSettings(cadence=SECOND))
    opened.run_compiled(follow, np.array([200, 0]))
    maker = run(tape, MarketMaker(size=3), BacktestSettings(rules=LIVE.name, cadence=SECOND, queues=5))
    return [*(one.digest for one in runs), opened.result().digest(), str(maker.queues)]


def run_python(code: str, **environment: str) -> Any:
    """Return the JSON that a program prints in another process."""
    inherited = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=inherited, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.nightly
def test_another_process_with_another_hash_seed_gives_the_same_bytes() -> None:
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    code = "import json; from tests.processes.test_replay import digests; print(json.dumps(digests()))"
    assert run_python(code, PYTHONHASHSEED=seed) == digests()


def test_a_sweep_has_the_rows_of_single_runs_whatever_the_processes(tmp_path: Path) -> None:
    check_rows(three_sources(tmp_path / "episodes"), MAKER)


@pytest.mark.nightly
def test_a_worker_that_an_agent_ends_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import os\nfrom bellwether.replay import Agent\nclass Mine(Agent):\n    def act(self, ctx):\n        os._exit(3)\n")
    with pytest.raises(BellwetherError, match="a worker process ended, by an agent or out of memory"):
        Sweep(three_sources(tmp_path), [Candidate(AgentSource(f"{file}:Mine"), "mine")], SETTINGS).run(jobs=2)
