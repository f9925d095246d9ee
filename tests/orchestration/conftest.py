"""A small graph run in the sandbox, shared by tests that read its results."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from filelock import FileLock

from assets.benchmark.runs import evaluate_release
from assets.venues import runs
from assets.warehouse.runs import publish as publish_warehouse
from bellwether.lake import Lake
from bellwether.lake.warehouse import publish
from bellwether.settings import Settings, settings
from orchestration.definitions import build_defs
from orchestration.home import settings_file
from orchestration.run_session import require_success
from orchestration.runner import Runner
from tests.shared import shared_folder

#: Eight days around the sandbox's historical cutoff: half from the archive, half from the live endpoints.
FIRST, LAST = date(2026, 3, 30), date(2026, 4, 6)
FORECASTERS = ("market-24h", "always-half", "sandbox-calibrated")
#: Otherwise Dagster writes logs below the user's home folder, which may not be writable.
SILENT = {"telemetry": {"enabled": False}}


@dataclass(frozen=True)
class World:
    """A test world: settings, definitions, Dagster instance and lake."""

    config: Settings
    defs: dg.Definitions
    instance: dg.DagsterInstance

    @property
    def lake(self) -> Lake:
        return Lake(self.config.lake_uri)

    def runner(self) -> Runner:
        """Return the runner of a command that appears ended to others, because sensors wait for running commands."""
        runner = Runner(self.defs, self.instance)
        runner.close()
        return runner


def stock_storage(folder: str) -> dict[str, Any]:
    """Return the storage section of dagster.yaml for an instance whose folder is not DAGSTER_HOME."""
    chosen = yaml.safe_load(settings_file())
    log = chosen["event_log_storage"]
    return {**SILENT, "compute_logs": chosen["compute_logs"], "event_log_storage": {**log, "config": {"base_dir": folder}}}


def open_world(home: Path, **changes: object) -> World:
    """Return a world below `home` that stores its lake, warehouse, runs and events as usual."""
    config = Settings(home=home, **changes)  # type: ignore[arg-type]
    dagster_home = str(home / "dagster")
    os.makedirs(dagster_home, exist_ok=True)
    return World(config, build_defs(config=config), dg.DagsterInstance.local_temp(dagster_home, overrides=stock_storage(dagster_home)))


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Eight days of the sandbox, from raw tables to the published warehouse, with three forecasters on sandbox-2026. Each process has a
    copy.
    """
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    original = shared_folder(tmp_path_factory) / "evaluated"
    with FileLock(f"{original}.lock"):
        if not original.exists():
            new = original.with_suffix(".new")
            _make(new)
            new.rename(original)
    home = tmp_path_factory.mktemp("copies") / "evaluated"
    shutil.copytree(original, home)
    with _settings_of(home):
        world = open_world(home)
        publish(world.lake, world.config.warehouse_uri)  # it names the files of its lake
    yield world
    world.instance.dispose()


def _make(home: Path) -> None:
    with _settings_of(home):
        world = open_world(home)
        run_all(world)
    world.instance.dispose()


@contextmanager
def _settings_of(home: Path) -> Iterator[None]:
    """Select a home in the environment, so that its journal is used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BELLWETHER_HOME", str(home))
        settings.cache_clear()
        yield
    settings.cache_clear()


def run_all(world: World) -> Runner:
    """Run all steps of the demo for fewer days and forecasters."""
    runner = world.runner()
    runs.pull_series(runner)
    runs.scan_archive(runner)
    runs.pull_days(runner, FIRST, LAST)
    require_success(evaluate_release(runner, "sandbox-2026", FORECASTERS))
    publish_warehouse(runner)
    return runner
