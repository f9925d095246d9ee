"""A backfill by several processes while others read: nobody is refused, nobody sees half a partition, everything is whole at the end."""

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

from bellwether.lake import Lake, warehouse
from tests.lake.frames import PRICES, prices

ROOT = Path(__file__).resolve().parents[2]
DAYS = [str(date(2025, 7, 1) + timedelta(days=number)) for number in range(60)]
OLD, NEW = 30, 60

#: One process of the backfill: writes its share of the days, one run per day, and publishes after each.
WRITER = """
import sys
from bellwether.lake import Lake, warehouse
from tests.lake.frames import PRICES, prices
lake, path, rows, days = Lake(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
for turn, day in enumerate(days):
    frame = prices(day, rows=rows, seed=rows)
    lake.write(PRICES, (day,), frame if turn % 2 else iter([frame.head(7), frame.slice(7)]), run_id=f"backfill-{day}")
    warehouse.publish(lake, path, tables=[PRICES])
"""
STATE = "SELECT CAST(day AS VARCHAR) AS day, count(*) AS rows, sum(volume) AS volume, sum(ask) AS ask FROM clean.prices GROUP BY ALL ORDER BY day"


def state_of(days: dict[str, int]) -> dict[str, tuple]:
    """What `STATE` answers when each day holds the frame of so many rows."""
    frames = {day: prices(day, rows=rows, seed=rows) for day, rows in days.items()}
    return {day: (frame.height, frame["volume"].sum(), frame["ask"].sum()) for day, frame in frames.items()}


def read_state(execute: Callable[[str], duckdb.DuckDBPyConnection]) -> dict[str, tuple]:
    return {day: tuple(rest) for day, *rest in execute(STATE).fetchall()}


@pytest.mark.slow
def test_readers_and_writers_never_meet(tmp_path: Path) -> None:
    uri, path = str(tmp_path / "lake"), tmp_path / "warehouse.duckdb"
    lake = Lake(uri)
    for day in DAYS:
        lake.write(PRICES, (day,), prices(day, rows=OLD, seed=OLD), run_id="before")
    warehouse.publish(lake, path, tables=[PRICES])
    old, new = state_of(dict.fromkeys(DAYS, OLD)), state_of(dict.fromkeys(DAYS, NEW))

    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, uri, str(path), str(NEW), *DAYS[share::4]], cwd=ROOT, stderr=subprocess.PIPE)
        for share in range(4)
    ]
    slowest, reads, mixed = 0.0, 0, 0
    with duckdb.connect(str(path), read_only=True) as analyst:
        while any(writer.poll() is None for writer in writers):
            started = time.monotonic()
            with warehouse.connect(path) as reader:
                seen = read_state(reader.execute)
            slowest = max(slowest, time.monotonic() - started)
            assert list(seen) == DAYS
            assert all(seen[day] in (old[day], new[day]) for day in DAYS)
            reads += 1
            mixed += seen not in (old, new)
            assert read_state(analyst.execute) == old
    errors = [writer.communicate()[1].decode() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0], errors
    assert reads > 10
    assert mixed > 0, "no reader looked while the backfill was under way"
    assert slowest < 5.0

    with warehouse.connect(path) as reader:
        assert read_state(reader.execute) == new
    manifests = lake.manifests(PRICES)
    assert [day for (day,) in manifests] == DAYS
    for manifest in manifests.values():
        lake.verify(manifest)
    assert lake.slice(PRICES).read().equals(pl.concat([prices(day, rows=NEW, seed=NEW) for day in DAYS]))
    assert list(tmp_path.rglob("*.tmp-*")) == []
