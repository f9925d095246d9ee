"""Assets of a day whose pull fails in its last step: the run fails, and every partition stays unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from assets.raw import runs
from assets.raw.assets import DAY_TABLES
from bellwether.lake import Manifest
from bellwether.sandbox.server import serve
from bellwether.settings import Venue
from bellwether.settings import World as Choice
from bellwether.tables import table
from orchestration.runner import RunFailed
from tests.demo_home import World, open_world
from tests.faulty_server import FaultyServer, always, app_of, no_faults
from tests.unit.venues.world import DAY, ordinary


def partitions(world: World) -> list[Manifest | None]:
    """Return the manifests of the day."""
    return [world.lake.manifest(table(name), (DAY.isoformat(),)) for name in DAY_TABLES if "kalshi" in name]


def fail(world: World, *, refresh: bool) -> None:
    """Pull the day in vain."""
    with pytest.raises(RunFailed, match="HTTP 401"):
        runs.pull_days(world.runner(), DAY, DAY, refresh=refresh)


@pytest.mark.nightly
def test_a_day_whose_pull_fails_in_its_last_step_leaves_every_partition_unchanged(tmp_path: Path) -> None:
    refusing = always("401", "/kalshi/trade-api/v2/markets/candlesticks")
    server = FaultyServer(app_of({"kalshi": ordinary()}), refusing)
    with serve(server) as site:
        address = f"{site.root}/kalshi/trade-api/v2"
        world = open_world(tmp_path, world=Choice.LIVE, venues=(Venue.KALSHI,), kalshi_url=address, kalshi_tokens_per_second=1e6)
        runs.pull_series(world.runner())
        fail(world, refresh=False)
        assert not any(partitions(world))
        server.plan = no_faults
        runs.pull_days(world.runner(), DAY, DAY)
        before = partitions(world)
        assert all(before)
        server.plan = refusing
        fail(world, refresh=True)
        assert partitions(world) == before
    world.instance.dispose()
