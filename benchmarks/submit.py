"""Submitting a million forecasts, read, judged and stored, against Polars reading the same file and writing it as Parquet."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from bellwether.submissions import Submissions, checked
from bellwether.submissions.reading import read
from bellwether.tables.schema import TIME

ROWS, MARKETS, ROUNDS, TARGET = 1_000_000, 50_000, 3, 3.0
_START = datetime(2026, 3, 1, tzinfo=UTC)
_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}


def run() -> list[dict[str, Any]]:
    """Best CPU time of a few alternating rounds of each side, by format: [{name, ratio, target, detail}]."""
    with TemporaryDirectory() as name:
        return [_measured(Path(name), kind) for kind in _READERS]


def _measured(folder: Path, kind: str) -> dict[str, Any]:
    file, markets = folder / f"forecasts.{kind}", _markets()
    _write(file, kind)
    times = []
    for number in range(ROUNDS):
        store = Submissions(folder / f"{kind}-{number}")

        def ours(store: Submissions = store) -> None:
            found = checked(read(file).frame, markets, store.read(), forecaster=None, now=_START + timedelta(days=40))
            assert found.refused.is_empty()
            with store.alone():
                store.add(found.accepted)

        times.append((_seconds(ours), _seconds(lambda: _READERS[kind](file).write_parquet(folder / "out.parquet"))))
    our_best, their_best = (min(side) for side in zip(*times, strict=True))
    detail = f"{ROWS:,} rows: {our_best:.2f} s of CPU, Polars reading and writing {their_best:.2f} s"
    return {"name": f"submit {kind}", "ratio": our_best / their_best, "target": TARGET, "detail": detail}


def _write(file: Path, kind: str) -> None:
    generator = np.random.default_rng(1)
    stated = pl.Series([_START + timedelta(seconds=second) for second in range(ROWS)]).dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = pl.DataFrame(
        {
            "market_id": [str(500_000 + row % MARKETS) for row in range(ROWS)],
            "probability": generator.random(ROWS).round(4),
            "stated_at": stated,
            "forecaster": ["mine"] * ROWS,
        }
    )
    {"csv": rows.write_csv, "parquet": rows.write_parquet, "jsonl": rows.write_ndjson}[kind](file)


def _markets() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "venue": ["polymarket"] * MARKETS,
            "market_id": [str(500_000 + number) for number in range(MARKETS)],
            "open_time": [_START - timedelta(days=1)] * MARKETS,
            "close_time": [_START + timedelta(days=30)] * MARKETS,
        },
        schema_overrides={"open_time": TIME, "close_time": TIME},
    )


def _seconds(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
