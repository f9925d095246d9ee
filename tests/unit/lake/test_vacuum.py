"""Deleted and preserved files of a vacuum."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bellwether.errors import LakeError
from bellwether.lake import Lake
from tests.unit.lake.frames import PRICES, SERIES, prices, series

DAY = ("2025-09-01",)
HOUR = timedelta(hours=1)


class Clock:
    """Clock that a test moves. It starts at the real time, because files have real times."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lake(tmp_path: Path, clock: Clock) -> Lake:
    return Lake(str(tmp_path / "lake"), clock=clock)


def names(lake: Lake) -> list[str]:
    return [entry.name.rpartition("/")[2] for entry in lake.storage.files("clean") if not entry.name.endswith(".json")]


def test_superseded_files_go_after_the_grace_period(lake: Lake, clock: Callable[[], datetime]) -> None:
    for run_id in ("r1", "r2", "r3"):
        lake.write(PRICES, DAY, prices(seed=int(run_id[1])), run_id=run_id)
    clock.now += 2 * HOUR  # type: ignore[attr-defined]
    vacuumed = lake.vacuum(HOUR)
    assert [name.rpartition("/")[2] for name in vacuumed.files] == ["r1.parquet", "r2.parquet"]
    assert vacuumed.bytes > 0
    assert names(lake) == ["r3.parquet"]
    assert lake.slice(PRICES).read().equals(prices(seed=3))


def test_an_old_file_that_was_just_superseded_stays(lake: Lake, clock: Clock) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    clock.now += 24 * HOUR
    lake.write(PRICES, DAY, prices(seed=1), run_id="r2")
    assert lake.vacuum(HOUR).files == ()
    clock.now += 2 * HOUR
    assert len(lake.vacuum(HOUR).files) == 1


def test_current_files_stay_whatever_their_age(lake: Lake, clock: Clock) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    lake.write(SERIES, (), series(), run_id="r1")
    clock.now += 10_000 * HOUR
    assert lake.vacuum(HOUR).files == ()
    assert lake.slice(SERIES).read().equals(series())


def test_drafts_of_writers_that_died_go(lake: Lake, clock: Clock) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    folder = Path(lake.storage.location("clean/prices/2025-09-01"))
    for name in ("r2.parquet.tmp-0badcafe", "r3.parquet.tmp-0badcafe", "r2.parquet"):
        (folder / name).write_bytes(b"PAR1")
    assert lake.vacuum(HOUR).files == ()
    clock.now += 2 * HOUR
    assert len(lake.vacuum(HOUR).files) == 3
    assert names(lake) == ["r1.parquet"]


def test_files_that_are_not_the_lakes_own_stay(lake: Lake, clock: Clock) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    for name in ("raw/kalshi_pages/page-1.parquet", "clean/prices/2025-09-01/notes.txt"):
        lake.storage.put(name, b"x")
    clock.now += 2 * HOUR
    assert lake.vacuum(HOUR).files == ()


def test_a_grace_period_that_could_hit_a_writer_is_refused(lake: Lake) -> None:
    with pytest.raises(LakeError, match=r"0:01:00 is too short.*at least 0:10:00"):
        lake.vacuum(timedelta(minutes=1))
