"""Processes that share a lake and a warehouse: locks, concurrent writers and readers, and equal digests on every machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bellwether.errors import LakeError
from bellwether.lake import Lake, publications
from bellwether.lake.warehouse import publish
from tests.sizes import NIGHTLY
from tests.unit.lake.frames import PRICES, SERIES, prices, series

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = (SERIES, PRICES)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = Lake(str(tmp_path / "lake"))
    found.write(PRICES, ("2025-09-01",), prices(), run_id="first")
    found.write(SERIES, (), series(), run_id="first")
    return found


#: Another publisher, busy until its input ends.
HOLDER = """
import sys
from bellwether.files import try_lock
with open(sys.argv[1], "w") as lock:
    print(try_lock(lock), flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_publisher(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, f"{path}.lock"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"True\n"
        yield holder


def test_publishers_wait_for_one_another_until_one_ends_or_is_killed(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "warehouse.duckdb"
    publish(lake, path, tables=CHOSEN)
    with another_publisher(path) as holder:
        with pytest.raises(LakeError, match=r"not free within 0.2 s"):
            publish(lake, path, tables=CHOSEN, lock_timeout=0.2)
        assert holder.stdin is not None
        with monkeypatch.context() as patched:
            patched.setattr(publications.time, "sleep", lambda _: holder.stdin.close())
            assert publish(lake, path, tables=CHOSEN, lock_timeout=120.0).rows == 9
    with another_publisher(path) as holder:
        holder.kill()
        holder.wait(60)
        assert publish(lake, path, tables=CHOSEN, lock_timeout=0.2).rows == 9


def test_digests_do_not_depend_on_the_number_of_threads(lake: Lake, tmp_path: Path) -> None:
    code = (
        "import sys; from bellwether.lake import Lake; from tests.unit.lake.frames import *\n"
        "print(Lake(sys.argv[1]).write(PRICES, ('2025-09-01',), prices(rows=2000), run_id='r').digest)"
    )
    expected = lake.write(PRICES, ("2025-09-01",), prices(rows=2000), run_id="here").digest
    environment = {**os.environ, "POLARS_MAX_THREADS": "3", "PYTHONHASHSEED": "3"}
    command = [sys.executable, "-c", code, str(tmp_path / "other")]
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == expected


#: Store another version of a day, and kill the process before its row is committed.
KILLED = """
import os, signal, sys
from bellwether.lake import Lake
from bellwether.lake.catalog import Catalog
from tests.unit.lake.frames import PRICES, prices
Catalog.commit = lambda *given, **more: os.kill(os.getpid(), signal.SIGKILL)
Lake(sys.argv[1]).write(PRICES, ("2025-09-01",), prices(seed=1), run_id="killed")
"""


def test_a_writer_killed_between_its_file_and_its_row_leaves_the_old_partition(lake: Lake) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, lake.uri], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [entry.name for entry in lake.storage.files(PRICES.name)] == [
        f"{PRICES.name}/2025-09-01/{run}.parquet" for run in ("first", "killed")
    ]
    assert lake.slice(PRICES).read().equals(prices())
    lake.write(PRICES, ("2025-09-01",), prices(seed=2), run_id="killed")
    assert lake.slice(PRICES).read().equals(prices(seed=2))


#: Processes that write days, or read all of them, until their time is over, and check that each day they read is whole. They are forked before Polars
#: starts its threads. Each prints how often it wrote or read.
CROWD = """
import itertools, os, sys, time, traceback
from bellwether.lake import Lake
from tests.unit.lake.frames import PRICES, prices
lake, seconds = Lake(sys.argv[1]), float(sys.argv[2])
days = [f"2025-09-{day:02d}" for day in range(1, 6)]

def work(kind):
    versions = {day: [prices(day, rows=60, seed=seed) for seed in range(4)] for day in days}
    end = time.monotonic() + seconds
    for turn in itertools.count(1):
        if kind == "reader":
            for rows in lake.slice(PRICES).read().partition_by("day"):
                assert any(rows.equals(frame) for frame in versions[str(rows["day"][0])]), rows
        else:
            day = days[turn % 5]
            lake.write(PRICES, (day,), versions[day][turn % 4], run_id=f"{kind}-{turn}")
        if time.monotonic() > end:
            os.write(1, f"{kind} {turn}\\n".encode())
            return

members = []
for kind in sys.argv[3:]:
    members.append(os.fork())
    if members[-1] == 0:
        try:
            work(kind)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
sys.exit(any([os.waitpid(member, 0)[1] for member in members]))
"""


@pytest.mark.timeout(900)
def test_writers_and_readers_of_the_same_days_do_not_fail_and_read_whole_days(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    for day in range(1, 6):
        lake.write(PRICES, (f"2025-09-{day:02d}",), prices(f"2025-09-{day:02d}", rows=60), run_id="first")
    writers, readers, seconds = (4, 12, 600) if NIGHTLY else (2, 2, 0.1)
    kinds = [*(f"writer{number}" for number in range(writers)), *["reader"] * readers]
    command = [sys.executable, "-c", CROWD, lake.uri, str(seconds), *kinds]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    turns = [line.split() for line in done.stdout.splitlines()]
    written = sum(int(turn) for kind, turn in turns if kind != "reader")
    assert len(turns) == len(kinds)
    assert lake.catalog.head() == 5 + written
    assert len(lake.catalog.superseded(PRICES.name)) == written
