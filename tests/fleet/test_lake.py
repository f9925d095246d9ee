"""The lake on a real object store: concurrent writers, killed writers, and a killed store."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from bellwether.errors import LakeError
from bellwether.lake import Lake
from bellwether.lake.recovery import verify
from deploy.loopback import Process, credentials
from tests.unit.lake.frames import PRICES, prices

pytestmark = [pytest.mark.fleet, pytest.mark.nightly]
ROOT = Path(__file__).resolve().parents[2]
DAYS = [str(date(2025, 1, 1) + timedelta(days=number)) for number in range(60)]
WRITER = """
import sys
from pathlib import Path
from bellwether.lake import Lake
from tests.unit.lake.frames import PRICES, prices
lake = Lake(sys.argv[1], catalog=Path(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
for day in sys.argv[3:]:
    lake.write(PRICES, (day,), prices(day), run_id=f"r{day}")
    print(day, flush=True)
"""


@pytest.fixture
def lake(object_store: Process, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    for name, value in credentials(object_store.url).items():
        monkeypatch.setenv(name, value)
    return Lake(f"s3://bellwether/{request.node.name}", cache=tmp_path / "cache", catalog=tmp_path / "catalog.db")


def writer(lake: Lake, days: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, lake.uri, lake.catalog.where, *days]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def require_whole(lake: Lake, days: list[str]) -> None:
    """Check that each day has the rows of its writer, and that nothing is damaged."""
    assert [day for (day,) in lake.manifests(PRICES)] == days
    for day in days:
        assert lake.slice(PRICES, [(day,)]).read().equals(prices(day))
    assert verify(lake, [PRICES]).damaged == ()


def test_acknowledged_commits_survive_a_killed_store(lake: Lake, object_store: Process) -> None:
    acknowledged, refused = [], 0
    for number, day in enumerate(DAYS[:30]):
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
