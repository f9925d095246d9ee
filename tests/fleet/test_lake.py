"""The lake on a real object store that is killed."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from bellwether.errors import LakeError
from bellwether.lake import Lake
from bellwether.lake.recovery import verify
from deploy.loopback import Process, credentials
from tests.unit.lake.frames import PRICES, prices

pytestmark = [pytest.mark.fleet, pytest.mark.nightly]
DAYS = [str(date(2025, 1, 1) + timedelta(days=number)) for number in range(30)]


@pytest.fixture
def lake(object_store: Process, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    for name, value in credentials(object_store.url).items():
        monkeypatch.setenv(name, value)
    return Lake(f"s3://bellwether/{request.node.name}", cache=tmp_path / "cache", catalog=tmp_path / "catalog.db")


def require_whole(lake: Lake, days: list[str]) -> None:
    """Check that each day has the rows of its writer, and that nothing is damaged."""
    assert [day for (day,) in lake.manifests(PRICES)] == days
    for day in days:
        assert lake.slice(PRICES, [(day,)]).read().equals(prices(day))
    assert verify(lake, [PRICES]).damaged == ()


def test_acknowledged_commits_survive_a_killed_store(lake: Lake, object_store: Process) -> None:
    acknowledged, refused = [], 0
    for number, day in enumerate(DAYS):
        if number in {10, 20}:
            object_store.kill()
            with pytest.raises(LakeError):
                lake.write(PRICES, (day,), prices(day), run_id="away")
            refused += 1
            object_store.start()
        lake.write(PRICES, (day,), prices(day), run_id=f"r{day}")
        acknowledged.append(day)
    assert refused == 2
    require_whole(lake, acknowledged)
