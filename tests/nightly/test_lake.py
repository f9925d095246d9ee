"""Long work of the lake: a backfill by several processes with concurrent readers, two writers of a store, and memory that is returned to the system."""

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

from bellwether.lake import Lake, memory, warehouse
from tests.s3_server import S3Server
from tests.shared import start_together
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


@pytest.mark.skipif(sys.platform != "linux" or memory._malloc_trim() is None, reason="needs Linux and glibc")
def test_what_is_free_in_the_heap_is_given_back_after_large_work_only() -> None:
    # Blocks too small for individual mappings. The last one stays, so that the heap cannot shrink automatically.
    blocks = [b"x" * 100_000 for _ in range(2_000)]
    blocks[:-1] = []
    held = resident()
    memory.release_memory(memory.LARGE - 1)
    assert resident() > held - 20 * MEGABYTE
    memory.release_memory(memory.LARGE)
    assert resident() < held - 150 * MEGABYTE


WRITER = """
import sys
from bellwether.lake import Lake
from tests.unit.lake.frames import PRICES, prices
uri, endpoint, *days = sys.argv[1:]
lake = Lake(uri, {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_endpoint_url": endpoint})
print("ready", flush=True)
sys.stdin.readline()
for day in days:
    lake.write(PRICES, (day,), prices(day), run_id="r" + day)
"""


def test_two_processes_commit_the_partitions_of_a_table_on_a_store(s3_server: S3Server) -> None:
    uri = f"s3://{s3_server.bucket()}/lake"
    wanted = [str(date(2025, 1, 1) + timedelta(days=number)) for number in range(60)]
    commands = [[sys.executable, "-c", WRITER, uri, s3_server.endpoint, *wanted[share::2]] for share in range(2)]
    writers = [subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands]
    start = len(s3_server.requests)
    start_together(writers)
    for writer in writers:
        writer.communicate(timeout=240)
    assert [writer.returncode for writer in writers] == [0, 0]
    lake = Lake(uri, s3_server.options)
    assert [day for (day,) in lake.manifests(PRICES)] == wanted
    commits = sum(method == "PUT" and "/_index/" in path for method, path in s3_server.requests[start:])
    assert commits > 62, "the writers never met"
    for (day,), manifest in lake.manifests(PRICES).items():
        assert manifest.run_id == f"r{day}"
        assert lake.slice(PRICES, [(day,)]).read().equals(prices(day))
