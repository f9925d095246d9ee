"""A small graph run in the sandbox, shared by the tests that look at its results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.defs_state.base import set_defs_state_storage

from bellwether.lake import Lake
from bellwether.settings import Settings, settings
from orchestration.commands import require_success
from orchestration.definitions import build_defs
from orchestration.runner import Runner

#: Eight days around the sandbox's historical cutoff: half of them come from the archive, half from the live endpoints.
FIRST, LAST = date(2026, 3, 30), date(2026, 4, 6)
FORECASTERS = ("market-24h", "always-half", "sandbox-calibrated")


@pytest.fixture(autouse=True)
def _no_instance_left_open() -> Iterator[None]:
    """Dagster notes the instance that a test opens, and asks it again when definitions are resolved, also after it is gone."""
    with set_defs_state_storage(None):
        yield


@dataclass(frozen=True)
class World:
    """One world of the tests: its settings, definitions, Dagster instance and lake."""

    config: Settings
    defs: dg.Definitions
    instance: dg.DagsterInstance

    @property
    def lake(self) -> Lake:
        return Lake(self.config.lake_uri)

    def runner(self) -> Runner:
        return Runner(self.defs, self.instance)


def open_world(home: Path, **changes: object) -> World:
    """A world whose lake, warehouse and Dagster storage lie below `home`."""
    config = Settings(home=home, **changes)  # type: ignore[arg-type]
    (home / "dagster").mkdir(parents=True, exist_ok=True)
    return World(config, build_defs(config=config), dg.DagsterInstance.local_temp(str(home / "dagster")))


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Eight days of the sandbox, from raw to the published warehouse, with two forecasters on sandbox-2026."""
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    home = tmp_path_factory.mktemp("evaluated")
    world = open_world(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BELLWETHER_HOME", str(home))  # the journal is where the settings say
        settings.cache_clear()
        run_all(world)
    settings.cache_clear()
    yield world
    world.instance.dispose()


def run_all(world: World) -> Runner:
    """Everything the demo does, over fewer days and forecasters."""
    runner = world.runner()
    runner.series()
    runner.archive()
    runner.days(FIRST, LAST)
    require_success(runner.release("sandbox-2026", FORECASTERS))
    runner.publish()
    return runner
