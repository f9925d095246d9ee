"""Program whose start is measured: first result of a process with compiled code: `python -m benchmarks._replay.start FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from bellwether.replay import BacktestSettings, load, prepare, run
from bellwether.replay.agents.builtin import Passive


def main() -> None:
    """Replay the episode and print the digest of the result."""
    rules = "kalshi-2026-08-30"
    print(run(prepare(load(Path(sys.argv[1])), rules), Passive(), BacktestSettings(rules=rules)).digest)


if __name__ == "__main__":
    main()
