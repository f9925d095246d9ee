"""Writing and reading a million-row partition through the IO manager, against bare Polars on the same frame.

The IO manager also validates, proves the key unique, hashes, syncs, writes the manifest and describes the output.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import polars as pl

from bellwether.tables import table
from resources import LakeIOManager, LakeResource

ROWS = 1_000_000
PRICES_PER_MARKET = 200
ROUNDS = 11
TARGET = 1.2
DAY = "2025-09-01"
PRICES = table("clean/prices")


def prices(rows: int = ROWS, seed: int = 1) -> pl.DataFrame:
    """`rows` hourly prices of clean/prices in stored order, with realistic ticks, gaps and sizes."""
    rng = np.random.default_rng(seed)
    number = np.arange(rows)
    cents = np.clip(50 + rng.normal(0, 2, rows).cumsum() % 97 - 48, 1, 98).astype(np.int64)
    frame = pl.DataFrame(
        {"market": number // PRICES_PER_MARKET, "hour": number % PRICES_PER_MARKET, "cents": cents, "size": rng.integers(0, 10**6, (rows,))}
    )
    close = pl.lit(date.fromisoformat(DAY)).cast(PRICES.schema["at"])
    return PRICES.validate(
        frame.select(
            day=pl.lit(date.fromisoformat(DAY)),
            venue=pl.lit("kalshi"),
            market_id=pl.format("KXHIGHNY-25SEP01-T{}", pl.col("market").cast(pl.String).str.zfill(6)),
            at=close + pl.duration(hours="hour"),
            period_minutes=pl.lit(60, pl.Int32()),
            bid=pl.when(pl.col("size") % 50 > 0).then(pl.col("cents").cast(pl.Decimal(10, 0)).cast(PRICES.schema["bid"]) / 100),
            ask=(pl.col("cents") + 1).cast(pl.Decimal(10, 0)).cast(PRICES.schema["bid"]) / 100,
            last=pl.col("cents").cast(pl.Decimal(10, 0)).cast(PRICES.schema["bid"]) / 100,
            volume=pl.col("size").cast(PRICES.schema["volume"]),
            open_interest=pl.col("size").reverse().cast(PRICES.schema["volume"]),
            known_at=close + pl.duration(days=1, seconds=pl.col("market") % 3600),
        ).cast(dict(PRICES.schema))
    )


class IOManagerWay:
    """One partition written and read by the IO manager; the contexts that Dagster hands it are made before the clock runs."""

    def __init__(self, folder: Path) -> None:
        self._manager = LakeIOManager(lake=LakeResource(uri=str(folder / "lake")))
        where: dict[str, Any] = {
            "asset_key": ["clean", "prices"],
            "partition_key": DAY,
            "asset_partitions_def": dg.DailyPartitionsDefinition(DAY),
        }
        self._outputs = [dg.build_output_context(run_id=f"run-{turn}", **where) for turn in range(ROUNDS + 1)]
        self._input = dg.build_input_context(**where)

    def __call__(self, frame: pl.DataFrame, turn: int) -> int:
        self._manager.handle_output(self._outputs[turn], frame)
        return self._manager.load_input(self._input).read().height


class BareWay:
    """The same rows written and read by Polars alone, each time to a new file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, frame: pl.DataFrame, turn: int) -> int:
        path = self._folder / f"{turn}.parquet"
        frame.write_parquet(path, compression="zstd")
        return pl.read_parquet(path).height


def _seconds(way: Callable[[pl.DataFrame, int], int], frame: pl.DataFrame, turn: int) -> float:
    started = time.perf_counter()
    assert way(frame, turn) == frame.height
    return time.perf_counter() - started


def run() -> list[dict[str, Any]]:
    """[{name, ratio, target, detail}]: the median of the rounds' ratios; the two ways take turns, so that a busy machine slows both."""
    frame = prices()
    with tempfile.TemporaryDirectory() as temporary:
        ways = (IOManagerWay(Path(temporary)), BareWay(Path(temporary)))
        times: list[tuple[float, float]] = []
        for turn in range(ROUNDS + 1):
            first, second = ways if turn % 2 else reversed(ways)
            spent = {first: _seconds(first, frame, turn), second: _seconds(second, frame, turn)}
            times.append((spent[ways[0]], spent[ways[1]]))
    times = times[1:]
    ours, bare = (statistics.median(side) * 1e3 for side in zip(*times, strict=True))
    detail = f"{ROWS:,} rows of {frame.width} columns: {ours:.0f} ms, bare polars {bare:.0f} ms, medians of {ROUNDS} rounds"
    ratio = statistics.median(one / other for one, other in times)
    return [{"name": "lake input and output", "ratio": ratio, "target": TARGET, "detail": detail}]
