"""Assets of a day under permanent faults: the run fails, and every partition stays unchanged."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from assets.venues import runs
from assets.venues.raw import DAY_TABLES
from bellwether.lake import Lake
from bellwether.sandbox.faults import HEADER
from bellwether.sandbox.server import serve
from bellwether.sandbox.services import CLOB_PATH, KALSHI_PATH
from bellwether.sandbox.worlds import build_generated
from bellwether.settings import World as Choice
from bellwether.tables import table
from orchestration.runner import RunFailed
from tests.demo_home import World, open_world

NOW = datetime.fromisoformat("2025-09-01T17:20:03Z")
DAY = date(2025, 8, 5)


class Switch:
    """ASGI app that requests a fault below a path, after it is switched on."""

    def __init__(self, app: ASGIApp) -> None:
        self.path, self.fault = "", ""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.fault and scope["path"].startswith(self.path):
            scope = {**scope, "headers": [*scope["headers"], (HEADER.lower().encode(), self.fault.encode())]}
        await self._app(scope, receive, send)


def partitions(world: World) -> dict[str, Any]:
    """Return the manifests of the day."""
    lake = Lake(world.config.lake_uri)
    return {name: lake.manifest(table(name), (DAY.isoformat(),)) for name in DAY_TABLES}


@pytest.mark.slow
def test_a_day_whose_pull_fails_in_its_last_step_leaves_every_partition_as_it_was(tmp_path: Path):
    switch = Switch(build_generated(11, NOW))
    with serve(switch) as site:
        urls = {"kalshi_url": site.kalshi, "gamma_url": site.gamma, "clob_url": site.clob}
        world = open_world(tmp_path, world=Choice.LIVE, kalshi_tokens_per_second=1e6, candle_days=1, candle_markets=3, **urls)
        runs.pull_series(world.runner())
        runs.scan_archive(world.runner())
        switch.path, switch.fault = f"{KALSHI_PATH}/markets/candlesticks", "expired=1000"
        assert [ends(world) for _ in range(2)] == ["authentication"] * 2
        assert not any(partitions(world)[name] for name in DAY_TABLES if "kalshi" in name)
        switch.fault = ""
        runs.pull_days(world.runner(), DAY, DAY)
        assert all(partitions(world).values())
        for switch.path, switch.fault in ((f"{KALSHI_PATH}/markets/candlesticks", "credit=1000"), (CLOB_PATH, "expired=1000")):
            venue = "kalshi" if switch.path.startswith(KALSHI_PATH) else "polymarket"
            before = partitions(world)
            assert ends(world, refresh=True) == ("out of credit" if venue == "kalshi" else "authentication")
            after = partitions(world)
            assert [after[name] for name in DAY_TABLES if venue in name] == [before[name] for name in DAY_TABLES if venue in name]
        switch.fault = ""
        runs.pull_days(world.runner(), DAY, DAY, refresh=True)
        assert all(partitions(world).values())
    world.instance.dispose()


def ends(world: World, **options: Any) -> str:
    """Return the failure of a run over the day."""
    with pytest.raises(RunFailed, match=r"HTTP 40[12]") as caught:
        runs.pull_days(world.runner(), DAY, DAY, **options)
    return "authentication" if "HTTP 401" in str(caught.value) else "out of credit"
