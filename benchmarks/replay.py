"""CPU time of the replay engine relative to one pass over the tape (the episode in integers), and of a new process until its first result.

For a comparison with other engines see `make bench-replay`.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from bellwether.replay import BacktestSettings, prepare
from bellwether.replay import run as replay
from benchmarks._replay.makers import Watcher
from benchmarks._replay.market import RULES, synthetic
from benchmarks._replay.processes import start_up
from benchmarks._replay.protocol import timed
from benchmarks._replay.touch import touch_once

DISTANCE, START_SECONDS = 2.0, 1.5
ROUNDS = 5


def distances() -> list[float]:
    """Return for each round the CPU time of a backtest (an agent that does nothing, every 300 s) divided by that of one pass over the tape."""
    source, settings = prepare(synthetic(), RULES), BacktestSettings(rules=RULES)
    ratios = []
    for _ in range(ROUNDS + 1):
        touched, _ = timed(lambda: touch_once(source.tape))
        replayed, _ = timed(lambda: replay(source, Watcher(), settings))
        ratios.append(replayed / touched)
    return ratios[1:]


def run() -> list[dict[str, Any]]:
    """Measure the engine, and the start of a process until its first result. Returns [{name, ratio, target, detail}]."""
    distance, beyond = median(distances()), median(start_up(ROUNDS)["beyond"])
    return [
        {
            "name": "replay: distance to touching every event once",
            "ratio": distance,
            "target": DISTANCE,
            "detail": "1.3 M events, 10 tickers",
        },
        {
            "name": "replay: a fresh process to its first result",
            "ratio": beyond / START_SECONDS,
            "target": 1.0,
            "detail": f"{beyond:.2f} s of CPU beyond importing numpy and pyarrow, of at most {START_SECONDS} s",
        },
    ]
