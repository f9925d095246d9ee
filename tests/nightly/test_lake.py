"""Long work of the lake: a backfill by several processes with concurrent readers, and memory that is returned to the system."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest

from bellwether.lake import Lake, parquet, warehouse
from tests.unit.lake.frames import PRICES, prices

ROOT = Path(__file__).resolve().parents[2]
DAYS = [str(date(2025, 7, 1) + timedelta(days=number)) for number in range(24)]
OLD, NEW = 30, 60
#: Processes of the backfill. Each writes its share of the days, one run per day, publishes after each, and waits halfway for a reader.
#: They are forked before Polars starts its threads, which a fork would lose.
WRITERS = """
import os, sys, traceback
from bellwether.lake import Lake, warehouse
from tests.unit.lake.frames import PRICES, prices
from tests.shared import wait_until
lake, path, rows, was_read, days = Lake(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:]

def write(days):
    for turn, day in enumerate(days):
        if turn == len(days) // 2:
            wait_until(lambda: os.path.exists(was_read), "a reader was there")
        frame = prices(day, rows=rows, seed=rows)
        lake.write(PRICES, (day,), frame if turn % 2 else iter([frame.head(7), frame.slice(7)]), run_id=f"backfill-{day}")
        warehouse.publish(lake, path, tables=[PRICES])

writers = []
for share in range(4):
    writers.append(os.fork())
    if writers[-1] == 0:
        try:
            write(days[share::4])
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
sys.exit(any([os.waitpid(writer, 0)[1] for writer in writers]))
"""
STATE = "SELECT CAST(day AS VARCHAR) AS day, count(*) AS rows, sum(volume) AS volume, sum(ask) AS ask FROM clean.prices GROUP BY ALL ORDER BY day"


def state_of(days: dict[str, int]) -> dict[str, tuple]:
    """Return the result of `STATE` for these numbers of rows per day."""
    frames = {day: prices(day, rows=rows, seed=rows) for day, rows in days.items()}
    return {day: (frame.height, frame["volume"].sum(), frame["ask"].sum()) for day, frame in frames.items()}


def read_state(execute: Callable[[str], duckdb.DuckDBPyConnection]) -> dict[str, tuple]:
    return {day: tuple(rest) for day, *rest in execute(STATE).fetchall()}


def test_readers_and_writers_never_meet(tmp_path: Path) -> None:
    uri, path = str(tmp_path / "lake"), tmp_path / "warehouse.duckdb"
    lake = Lake(uri)
    for day in DAYS:
        lake.write(PRICES, (day,), prices(day, rows=OLD, seed=OLD), run_id="before")
    warehouse.publish(lake, path, tables=[PRICES])
    old, new = state_of(dict.fromkeys(DAYS, OLD)), state_of(dict.fromkeys(DAYS, NEW))

    was_read = tmp_path / "was-read"
    command = [sys.executable, "-c", WRITERS, uri, str(path), str(NEW), str(was_read), *DAYS]
    reads = 0
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as writers, duckdb.connect(str(path), read_only=True) as analyst:
        while writers.poll() is None:
            with warehouse.connect(path) as reader:
                seen = read_state(reader.execute)
            assert list(seen) == DAYS
            assert all(seen[day] in (old[day], new[day]) for day in DAYS)
            reads += 1
            if seen not in (old, new):
                was_read.touch()
            assert read_state(analyst.execute) == old
            time.sleep(0.03)
        errors = writers.communicate(timeout=120)[1].decode()
    assert writers.returncode == 0, errors
    assert was_read.exists(), "no reader looked while the backfill was under way"
    assert reads > 2

    with warehouse.connect(path) as reader:
        assert read_state(reader.execute) == new
    manifests = lake.manifests(PRICES)
    assert [day for (day,) in manifests] == DAYS
    for manifest in manifests.values():
        lake.verify(manifest)
    assert lake.slice(PRICES).read().equals(pl.concat([prices(day, rows=NEW, seed=NEW) for day in DAYS]))
    assert list(tmp_path.rglob("*.tmp-*")) == []


MEGABYTE = 2**20


def resident() -> int:
    """Return this process's resident memory in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@pytest.mark.skipif(sys.platform != "linux" or parquet._malloc_trim() is None, reason="needs Linux and glibc")
def test_what_is_free_in_the_heap_is_given_back_after_large_work_only() -> None:
    # Blocks too small for individual mappings. The last one stays, so that the heap cannot shrink automatically.
    blocks = [b"x" * 100_000 for _ in range(2_000)]
    blocks[:-1] = []
    held = resident()
    parquet.release_memory(parquet.LARGE - 1)
    assert resident() > held - 20 * MEGABYTE
    parquet.release_memory(parquet.LARGE)
    assert resident() < held - 150 * MEGABYTE
