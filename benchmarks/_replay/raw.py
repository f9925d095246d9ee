"""Replay an episode in PredictionMarketBench's format from its raw files, in a new process: `python -m benchmarks._replay.raw FOLDER`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bellwether.replay import BacktestSettings, prepare, run
from bellwether.replay.episode.folder import Episode
from bellwether.replay.episode.import_pmb import read_pmb
from benchmarks._replay.makers import Watcher
from benchmarks._replay.protocol import peak_mb


def main() -> None:
    """Print as JSON the CPU seconds from the files to the result, without imports, and the peak memory of the process in MB."""
    start = time.process_time()
    folder = Path(sys.argv[1])
    content = read_pmb(folder)
    result = run(prepare(Episode(folder, content, content.digest()), "pmb-2026-01"), Watcher(), BacktestSettings(rules="pmb-2026-01"))
    cpu = time.process_time() - start
    answer = {"steps": result.steps, "samples": len(result.outcome.samples), "equity": result.outcome.equity}
    print(json.dumps({"cpu": cpu, "peak_mb": peak_mb(), **answer}))


if __name__ == "__main__":
    main()
