"""Worker that measures this engine: `python -m benchmarks._replay.ours`.

Every rule of the simulator is on: the 0.1 cent grid, netting, collateral, consumption of liquidity, and latency.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from bellwether.replay import BacktestSettings, Prepared, run
from benchmarks._replay.makers import CompiledFollower, CompiledMaker, PlainMaker, VectorMaker, Watcher
from benchmarks._replay.market import RULES
from benchmarks._replay.protocol import serve, timed
from benchmarks._replay.tapes import prepared
from benchmarks._replay.touch import touch_once

AGENTS = {"noop": Watcher, "compiled": CompiledMaker, "follower": CompiledFollower, "python": PlainMaker, "vector": VectorMaker}
BANKROLL = 10**12


class Bench:
    """Loaded tapes (episodes in the simulator's integers), and measured runs over them."""

    def __init__(self) -> None:
        self._tapes: dict[str, Prepared] = {}

    def load(self, tape: str) -> dict[str, Any]:
        """Load a tape, and compile all code that is measured. tape: its name."""
        self._tapes[tape] = prepared(tape)
        loaded = self._tapes[tape].tape
        touch_once(loaded)
        for agent in AGENTS:
            self.run(tape, agent, 300 * 10**9, 1, 100, 0, 0)
        return {"events": len(loaded), "digest": loaded.digest, "tickers": len(loaded.tickers)}

    def run(self, tape: str, agent: str, cadence: int, size: int, limit: int, order_latency: int, data_latency: int) -> dict[str, Any]:
        """Measure the CPU seconds of one backtest, from the loaded tape to the result."""
        settings = BacktestSettings(
            cadence=cadence,
            order_latency=order_latency,
            data_latency=data_latency,
            bankroll=BANKROLL,
            rules=RULES,
            queues=0,
        )
        source = self._tapes[tape]
        trader = AGENTS[agent]() if agent == "noop" else AGENTS[agent](size, limit)  # type: ignore[call-arg]
        cpu, result = timed(lambda: run(source, trader, settings))
        if result.failure is not None:
            raise RuntimeError(f"the agent failed: {result.failure}")
        outcome = result.outcome
        return {
            "cpu": cpu,
            "events": len(source.tape),
            "steps": result.steps,
            "orders": len(outcome.orders),
            "fills": len(outcome.fills),
            "digest": outcome.digest(),
        }

    def touch(self, tape: str) -> dict[str, Any]:
        """Measure the CPU seconds of `touch_once`, the lower limit of a replay."""
        loaded = self._tapes[tape].tape
        cpu, _ = timed(lambda: touch_once(loaded))
        return {"cpu": cpu, "events": len(loaded)}

    def threads(self, tape: str, threads: int, runs: int, cadence: int) -> dict[str, Any]:
        """Measure the wall seconds of `runs` compiled backtests, divided among `threads` threads of this process."""
        settings = BacktestSettings(cadence=cadence, bankroll=BANKROLL, rules=RULES, queues=0)
        source = self._tapes[tape]
        gate = threading.Barrier(threads + 1)

        def work(count: int) -> None:
            gate.wait()
            for _ in range(count):
                run(source, CompiledMaker(), settings)
            gate.wait()

        for count in np.bincount(np.arange(runs) % threads):
            threading.Thread(target=work, args=(int(count),), daemon=True).start()
        gate.wait()
        start = time.perf_counter()
        gate.wait()
        return {"wall": time.perf_counter() - start}


if __name__ == "__main__":
    bench = Bench()
    serve({"load": bench.load, "run": bench.run, "touch": bench.touch, "threads": bench.threads})
