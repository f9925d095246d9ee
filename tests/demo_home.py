"""The demo home: one small world for all tests that need a graph, built once per run and copied for tests that write.

Contents: days of both venues, six forecasters on the sandbox's release, an event of three hours with four agents, two weeks of the arena with a corrected
settlement, and the published warehouse. `python -m tests.demo_home FOLDER` builds it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from filelock import FileLock

from bellwether.lake import Lake
from bellwether.settings import Settings, settings

if TYPE_CHECKING:
    import dagster as dg

    from orchestration.runner import Runner

#: Five days around the day at which Kalshi's archive begins, so that some come from it.
FIRST, LAST = date(2026, 7, 1), date(2026, 7, 5)
FORECASTERS = ("market-24h", "always-half", "base-rate", "sandbox-calibrated", "sandbox-noisy", "sandbox-failing")
AGENTS = ("buy-and-hold", "momentum", "market-maker", "llm")
#: First weeks of the arena's two cohorts.
WEEKS = (date(2026, 8, 16), date(2026, 8, 23))
RELEASE = "sandbox-2026"
#: Number of its first questions that the model with tools answers.
RESEARCHED = 20
#: The event of the imported capture.
EVENT = "KXMLBGAME-26SEP282300NYYBOS"
#: Otherwise Dagster writes logs below the user's home folder, which may not be writable.
SILENT = {"telemetry": {"enabled": False}}


@dataclass(frozen=True)
class World:
    """A home with its settings, definitions, Dagster instance and lake."""

    config: Settings
    defs: dg.Definitions
    instance: dg.DagsterInstance

    @property
    def lake(self) -> Lake:
        return Lake(self.config.lake_uri)

    def runner(self) -> Runner:
        """Return the runner of a command that appears ended to others, because sensors wait for running commands."""
        from orchestration.runner import Runner

        runner = Runner(self.defs, self.instance)
        runner.close()
        return runner


def stock_storage(folder: str) -> dict[str, Any]:
    """Return the storage section of dagster.yaml for an instance whose folder is not DAGSTER_HOME."""
    from orchestration.home import settings_file

    chosen = yaml.safe_load(settings_file())
    log = chosen["event_log_storage"]
    return {**SILENT, "compute_logs": chosen["compute_logs"], "event_log_storage": {**log, "config": {"base_dir": folder}}}


def open_world(home: Path, **changes: object) -> World:
    """Return the world of a home, which stores its lake, warehouse, runs and events as usual."""
    import dagster as dg

    from orchestration.definitions import build_defs

    config = Settings(home=home, **changes)  # type: ignore[arg-type]
    dagster_home = str(home / "dagster")
    os.makedirs(dagster_home, exist_ok=True)
    return World(config, build_defs(config=config), dg.DagsterInstance.local_temp(dagster_home, overrides=stock_storage(dagster_home)))


@contextmanager
def selected(home: Path, **variables: str) -> Iterator[None]:
    """Select a home in the environment, for the code that reads settings itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BELLWETHER_HOME", str(home))
        patch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
        for name, value in variables.items():
            patch.setenv(name, value)
        settings.cache_clear()
        yield
    settings.cache_clear()


def pull_days(runner: Runner) -> None:
    """Pull the days of both venues."""
    from assets.raw import runs

    runs.pull_series(runner)
    runs.scan_archive(runner)
    runs.pull_days(runner, FIRST, LAST)


def forecast(runner: Runner) -> None:
    """Run the forecasters and rank them, and the model with tools on the first questions."""
    from assets.benchmark.runs import evaluate_release, research
    from orchestration.run_session import require_success

    require_success(evaluate_release(runner, RELEASE, FORECASTERS))
    require_success(research(runner, f"{RELEASE}@{RESEARCHED}"))


def trade(runner: Runner) -> None:
    """Import the capture of an event, and backtest the agents in it."""
    from assets.replay.runs import run_backtests
    from bellwether.recordings.captures import import_captures
    from bellwether.sandbox.replayer import CAPTURES
    from orchestration.run_session import require_success

    import_captures(settings().recordings_path, CAPTURES / f"{EVENT}.json.gz")
    require_success(run_backtests(runner, AGENTS))


def compete(runner: Runner) -> None:
    """Run the weeks of the arena."""
    from assets.arena.runs import run_weeks

    run_weeks(runner, list(WEEKS))


def correct(runner: Runner) -> None:
    """Cancel a settled market, so that its settlement is corrected and its bets are refunded."""
    from assets.arena.queries import open_arena
    from assets.arena.runs import apply_intervention
    from bellwether.arena.weekly.interventions import cancel_market
    from bellwether.tables import table

    settlements, trades = (runner.lake.slice(table(name)).read() for name in ("arena/settlements", "arena/trades"))
    if settlements["number"].max() == 1:
        with open_arena(run="demo") as arena:
            intervention = cancel_market(arena, trades["market_id"].max(), "operator", "the question was withdrawn")  # type: ignore[arg-type]
        apply_intervention(runner, intervention)


def publish(runner: Runner) -> None:
    """Publish the warehouse."""
    from assets.summary.runs import publish as publish_warehouse

    publish_warehouse(runner)


STAGES: tuple[Callable[[Runner], None], ...] = (pull_days, forecast, trade, compete, correct, publish)


def run_all(world: World) -> Runner:
    """Run all stages; those that are up to date run nothing."""
    runner = world.runner()
    for stage in STAGES:
        stage(runner)
    return runner


def build(home: Path, **changes: object) -> None:
    """Build the demo home. changes: of the settings, such as the seed."""
    with selected(home, **{f"BELLWETHER_{name.upper()}": str(value) for name, value in changes.items()}):
        world = open_world(home, **changes)
        with world.instance:
            run_all(world)


def shared_home(folder: Path) -> Path:
    """Return the demo home below `folder`, which all processes of a test run share and only read. The first of them builds it.

    The variable DEMO_HOME names one that was built before, for repeated runs of a few tests.
    """
    if "DEMO_HOME" in os.environ:
        return Path(os.environ["DEMO_HOME"])
    home, done = folder / "demo", folder / "demo.done"
    with FileLock(f"{home}.lock"):
        if not done.exists():
            build(home)
            done.touch()
    return home


def copy_home(home: Path, target: Path) -> Path:
    """Copy a home that other processes may have open: Parquet files as hard links, because they are replaced and never changed, databases by
    SQLite's backup, and everything else as copies.
    """

    def copy(source: str, to: str) -> None:
        if source.endswith(".parquet"):
            os.link(source, to)
        elif source.endswith(".db"):
            with closing(sqlite3.connect(source)) as database, closing(sqlite3.connect(to)) as own:
                database.backup(own)
        else:
            shutil.copy2(source, to)

    logs = shutil.ignore_patterns("*.db-wal", "*.db-shm", "*.db-journal")
    shutil.copytree(home, target, copy_function=copy, ignore=logs, symlinks=True)
    return target


def open_copy(home: Path, target: Path) -> World:
    """Copy the demo home and open the copy. Its warehouse is published again, because it names the files of its lake."""
    from bellwether.lake.warehouse import publish as publish_lake

    world = open_world(copy_home(home, target))
    publish_lake(world.lake, world.config.warehouse_uri)
    return world


if __name__ == "__main__":
    build(Path(sys.argv[1]))
