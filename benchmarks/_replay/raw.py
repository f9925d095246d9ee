"""Replay an episode in PredictionMarketBench's format from its raw files, in a new process: `python -m benchmarks._replay.raw FOLDER`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bellwether.replay import BacktestSettings, load, prepare, run
from benchmarks._replay.makers import Watcher
from benchmarks._replay.protocol import peak_mb


def main() -> None:
    """Print as JSON the CPU seconds from the files to the result, without imports, and the peak memory of the process in MB."""
    start = time.process_time()
    result = run(prepare(load(Path(sys.argv[1])), "pmb-2026-01"), Watcher(), BacktestSettings(rules="pmb-2026-01"))
    cpu = time.process_time() - start
    answer = {"steps": result.steps, "samples": len(result.outcome.samples), "equity": result.outcome.equity[0]}
    print(json.dumps({"cpu": cpu, "peak_mb": peak_mb(), **answer}))


if __name__ == "__main__":
    main()
