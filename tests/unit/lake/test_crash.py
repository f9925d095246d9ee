"""Files at every line of a write and after a kill: the complete old partition or the complete new one."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bellwether.errors import LakeError
from bellwether.lake import Lake, warehouse
from tests.lake.frames import PRICES, prices

ROOT = Path(__file__).resolve().parents[3]
LAKE_CODE = str(ROOT / "bellwether" / "lake")
DAY = ("2025-09-01",)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


@contextmanager
def at_every_line(check: Callable[[], None]) -> Iterator[list[int]]:
    """Call `check` before each executed line of the lake's code. Yields a list with the number of calls."""
    calls, checking = [0], [False]

    def trace(frame, event, arg):  # type: ignore[no-untyped-def]
        if not frame.f_code.co_filename.startswith(LAKE_CODE):
            return None
        if event == "line" and not checking[0]:
            checking[0] = True
            try:
                check()
            finally:
                checking[0] = False
            calls[0] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield calls
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("kind", ["frame", "stream"])
def test_at_every_line_of_a_write_the_partition_is_whole(lake: Lake, kind: str) -> None:
    old, new = prices(), prices(seed=1)
    lake.write(PRICES, DAY, old, run_id="r1")
    seen = []

    def check() -> None:
        manifest = lake.manifest(PRICES, DAY)
        assert manifest is not None
        lake.verify(manifest)
        if not seen or seen[-1] != manifest.run_id:
            assert lake.slice(PRICES).read().equals({"r1": old, "r2": new}[manifest.run_id])
            seen.append(manifest.run_id)

    with at_every_line(check) as lines:
        lake.write(PRICES, DAY, new if kind == "frame" else iter([new.head(3), new.slice(3)]), run_id="r2")
    assert lines[0] > 100
    assert seen == ["r1", "r2"]


def test_at_every_line_of_a_first_write_there_is_no_partition_or_a_whole_one(lake: Lake) -> None:
    seen = []

    def check() -> None:
        manifest = lake.manifest(PRICES, DAY)
        if manifest is not None:
            lake.verify(manifest)
        seen.append(manifest is not None)

    with at_every_line(check):
        lake.write(PRICES, DAY, prices(), run_id="r1")
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


def test_at_every_line_of_a_publication_the_warehouse_is_whole(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "warehouse.duckdb"
    lake.write(PRICES, DAY, prices(), run_id="r1")
    warehouse.publish(lake, path, tables=[PRICES])
    lake.write(PRICES, DAY, prices(seed=1), run_id="r2")
    seen: list[bytes] = []

    def check() -> None:
        content = path.read_bytes()
        if not seen or seen[-1] != content:
            assert warehouse.query(path, "FROM clean.prices").equals(prices(seed=len(seen)))
            seen.append(content)

    with at_every_line(check) as lines:
        warehouse.publish(lake, path, tables=[PRICES])
    assert lines[0] > 100
    assert len(seen) == 2


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
@pytest.mark.parametrize("nth", range(3))
def test_a_disk_that_is_full_at_any_step_leaves_the_partition(lake: Lake, monkeypatch: pytest.MonkeyPatch, call: str, nth: int) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    genuine, calls = getattr(os, call), [0]

    def full(*args, **kwargs):  # type: ignore[no-untyped-def]
        calls[0] += 1
        if calls[0] == nth + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return genuine(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        try:
            lake.write(PRICES, DAY, prices(seed=1), run_id="r2")
            failed = False
        except LakeError as error:
            failed = True
            assert "No space left on device. Nothing was published" in str(error)
    assert failed == (calls[0] > nth)
    assert lake.slice(PRICES).read().equals(prices(seed=0 if failed else 1))
    assert [entry.name for entry in lake.storage.files("") if ".tmp-" in entry.name] == []
    assert lake.write(PRICES, DAY, prices(seed=1), run_id="r2").rows == 6
    assert lake.slice(PRICES).read().equals(prices(seed=1))


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limit the size of files that this process writes. Python ignores the signal, so that larger writes fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("what", ["frame", "stream", "publish"])
def test_a_file_that_can_not_grow_any_more_is_one_clear_error(lake: Lake, tmp_path: Path, what: str) -> None:
    path = tmp_path / "warehouse.duckdb"
    lake.write(PRICES, DAY, prices(), run_id="r1")
    warehouse.publish(lake, path, tables=[PRICES])
    frame = prices(rows=6_000, seed=1)
    with files_of_at_most(20_000), pytest.raises(LakeError):
        if what == "publish":
            warehouse.publish(lake, path, tables=[PRICES])
        else:
            lake.write(PRICES, DAY, frame if what == "frame" else (frame.slice(start, 200) for start in range(0, 6_000, 200)), run_id="r2")
    assert lake.slice(PRICES).read().equals(prices())
    assert warehouse.query(path, "FROM clean.prices").equals(prices())
    assert list(tmp_path.rglob("*.tmp-*")) == []
    assert lake.write(PRICES, DAY, frame, run_id="r2").bytes > 20_000


#: Fork a writer for each input line, and print how it ended. Polars is unused before, because a fork would lose its threads.
WRITERS = """
import itertools, os, sys
from bellwether.lake import Lake, warehouse
from tests.lake.frames import PRICES, prices
lake = Lake(sys.argv[1])

def write():
    print(os.getpid(), flush=True)
    for turn in itertools.count():
        day = f"2025-09-{turn % 5 + 1:02d}"
        frame = prices(day, rows=300, seed=turn % 3)
        lake.write(PRICES, (day,), frame if turn % 2 else iter([frame.head(150), frame.slice(150)]), run_id=f"run-{turn % 7}")
        if turn % 5 == 4:
            warehouse.publish(lake, sys.argv[2], tables=[PRICES])

while sys.stdin.readline():
    writer = os.fork()
    if writer == 0:
        try:
            write()
        finally:
            os._exit(1)
    print(os.waitpid(writer, 0)[1], flush=True)
"""


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_only_whole_partitions(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "warehouse.duckdb"
    days = [f"2025-09-{day:02d}" for day in range(1, 6)]
    for day in days:
        lake.write(PRICES, (day,), prices(day, rows=300), run_id="first")
    warehouse.publish(lake, path, tables=[PRICES])
    expected = {day: [prices(day, rows=300, seed=seed) for seed in range(3)] for day in days}
    rng = random.Random(20250901)
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS, lake.uri, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as writers:
        assert writers.stdin is not None
        assert writers.stdout is not None
        for _ in range(12):
            writers.stdin.write("\n")
            writer = int(writers.stdout.readline())
            time.sleep(rng.uniform(0.0, 0.4))
            os.kill(writer, signal.SIGKILL)
            assert int(writers.stdout.readline()) == signal.SIGKILL
            manifests = lake.manifests(PRICES)
            assert list(manifests) == [(day,) for day in days]
            for (day,), manifest in manifests.items():
                lake.verify(manifest)
                assert any(lake.slice(PRICES, [(day,)]).read().equals(frame) for frame in expected[day])
            rows = warehouse.query(path, 'FROM clean.prices ORDER BY day, market_id, "at"')
            assert all(any(part.equals(frame) for frame in expected[day]) for part, day in zip(rows.partition_by("day"), days, strict=True))
    undisturbed = Lake(str(tmp_path / "undisturbed"))
    for day in days:
        again = lake.write(PRICES, (day,), prices(day, rows=300), run_id="again")
        assert again.sha256 == undisturbed.write(PRICES, (day,), prices(day, rows=300), run_id="once").sha256
    assert warehouse.publish(lake, path, tables=[PRICES]).rows == 1_500
    assert list(tmp_path.glob("*.tmp-*")) == []
