"""The lake on a failing object store: acknowledged writes persist, and readers see only written rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bellwether.errors import BellwetherError
from bellwether.lake import Lake
from deploy.loopback import Process, credentials
from tests.fleet.proxy import Faults, proxied
from tests.unit.lake.frames import PRICES, prices

pytestmark = [pytest.mark.fleet, pytest.mark.nightly]
DAYS = [f"2025-09-{day:02d}" for day in range(1, 9)]
VERSIONS, WRITERS = 12, 2
#: All faults together: one request in seven fails.
BROKEN = {"slow_down": 0.04, "lost_request": 0.02, "lost_answer": 0.03, "torn_body": 0.1}


def _lake(store: Process, endpoint: str, name: str, catalog: Path) -> Lake:
    given = {name.lower(): value for name, value in credentials(store.url).items() if name != "AWS_DEFAULT_REGION"}
    return Lake(f"s3://bellwether/{name}", {**given, "aws_endpoint_url": endpoint}, catalog=catalog)


class Writer(threading.Thread):
    """Writes versions of its own days. It retries each until the store acknowledges it or a newer version exists."""

    def __init__(self, lake: Lake, number: int) -> None:
        super().__init__(name=f"writer-{number}")
        self.lake, self.number = lake, number
        #: The latest acknowledged and the latest attempted version of each day.
        self.acknowledged: dict[str, int] = {}
        self.attempted: dict[str, int] = {}
        self.failures = 0

    def run(self) -> None:
        for version in range(VERSIONS):
            for day in DAYS[self.number :: WRITERS]:
                self.attempted[day] = version
                try:
                    self.lake.write(PRICES, (day,), prices(day, seed=version), run_id=f"w{self.number}v{version}")
                except (BellwetherError, OSError):
                    self.failures += 1
                else:
                    self.acknowledged[day] = version


@pytest.fixture(params=[1, 2])
def broken(request: pytest.FixtureRequest, object_store: Process) -> Iterator[tuple[str, str, Faults]]:
    """Address of the proxy, address of the store, and the faults."""
    direct = credentials(object_store.url)["AWS_ENDPOINT_URL"]
    faults = Faults(seed=request.param, **BROKEN)
    with proxied(direct, faults) as address:
        yield address, direct, faults


def test_writers_and_readers_of_a_broken_store_see_whole_partitions(
    object_store: Process, broken: tuple[str, str, Faults], tmp_path: Path
) -> None:
    address, direct, faults = broken
    name = f"faults-{faults.seed}"
    writers = [Writer(_lake(object_store, address, name, tmp_path / "catalog.db"), number) for number in range(WRITERS)]
    versions = {day: [prices(day, seed=version) for version in range(VERSIONS)] for day in DAYS}
    for writer in writers:
        writer.start()
    reads = 0
    while reads < 12 or any(writer.is_alive() for writer in writers):
        with suppress(BellwetherError, OSError):
            lake = _lake(object_store, address, name, tmp_path / "catalog.db")
            found = lake.slice(PRICES).read()
            for (day,), rows in found.group_by("day", maintain_order=True):
                assert any(rows.equals(frame) for frame in versions[str(day)]), (day, rows)
            reads += 1
    for writer in writers:
        writer.join()
    assert all(faults.counts[fault] for fault in BROKEN), faults.counts
    end = _lake(object_store, direct, name, tmp_path / "catalog.db")
    for writer in writers:
        assert len(writer.acknowledged) == len(writer.attempted), (writer.failures, faults.counts)
        for day, acknowledged in writer.acknowledged.items():
            found = end.slice(PRICES, [(day,)]).read()
            possible = versions[day][acknowledged : writer.attempted[day] + 1]
            assert any(found.equals(frame) for frame in possible), (day, acknowledged, writer.attempted[day], faults.counts)
