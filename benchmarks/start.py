"""CPU time until the first result of a command or an import, relative to `import polars`: whole processes, the minimum of a few."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROUNDS = 5
SCORES = (
    "from bellwether.calibration import evaluate\n"
    "print(evaluate([0.9, 0.2, 0.6, 0.1], [1, 0, 0, 0], clusters=['a', 'a', 'b', 'c']).frame())"
)
FORECASTS = "question,series,model,p,outcome\n" + "".join(f"q{n},s{n % 12},mine,0.{n % 9 + 1},{n % 2}\n" for n in range(60))
POLARS = "import polars"


def run() -> list[dict[str, Any]]:
    """Measure the CPU time of each start divided by that of `import polars`. Returns [{name, ratio, target, detail}]."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        backtest = ["-m", "bellwether", "backtest", "--agent", "buy-and-hold", "--episode", str(_episode(Path(folder)))]
        forecasts = Path(folder) / "forecasts.csv"
        forecasts.write_text(FORECASTS, encoding="utf-8")
        cpu(folder, backtest)  # compiles the simulator where it is not
        polars = cpu(folder, ["-c", POLARS], ROUNDS)
        for name, words, target in (
            ("bellwether --help", ["-m", "bellwether", "--help"], 0.75),
            ("import bellwether.calibration", ["-c", "import bellwether.calibration"], 1.5),
            ("first table of scores", ["-c", SCORES], 8.0),
            ("first table of bellwether score", ["-m", "bellwether", "score", str(forecasts)], 10.0),
            ("first table of a backtest", backtest, 12.0),
        ):
            seconds = cpu(folder, words, ROUNDS)
            detail = f"{seconds:.2f} s of CPU, `{POLARS}` {polars:.2f} s"
            rows.append({"name": name, "ratio": seconds / polars, "target": target, "detail": detail})
    return rows


def cpu(folder: str, words: Sequence[str], rounds: int = 1) -> float:
    """Return the CPU seconds of a Python process, the minimum of `rounds` runs. words: its arguments. folder: where it writes."""
    environment = {**os.environ, "BELLWETHER_HOME": folder}
    return min(_once(words, environment) for _ in range(rounds))


def _once(words: Sequence[str], environment: dict[str, str]) -> float:
    process = subprocess.Popen([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{words} failed with status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime


def _episode(folder: Path) -> Path:
    """Write an episode of ten minutes with one market, whose book has one level per side, and return the episode's folder."""
    from bellwether.replay.episode.content import BookBuilder, Content, level_of, no_trades
    from bellwether.replay.episode.folder import write
    from bellwether.replay.episode.model import Market, Metadata, Settlement
    from bellwether.replay.units import CENT, CONTRACT, MICROS, MINUTE, NO, YES
    from bellwether.units import CentiCents, Lots, MicroDollars

    start, ticker = 1_768_867_200_000_000_000, "BENCH-A"
    metadata = Metadata("BENCH", start, start + 10 * MINUTE, (Market(ticker),))
    book = BookBuilder(1)
    book.add(start, 1, 0, {level_of(side, CentiCents(45 * CENT)): Lots(100 * CONTRACT) for side in (YES, NO)}, is_whole=True)
    settlement = Settlement(ticker, "YES", MicroDollars(MICROS), metadata.end)
    return write(folder / "BENCH", Content(metadata, (settlement,), book.columns(), no_trades(), {})).folder
