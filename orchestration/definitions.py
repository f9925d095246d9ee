"""Code location: the definitions of all domains, with shared checks, schedules, sensors and resources.

Not here: definitions of one domain (bellwether/domains.py). This module imports nothing heavy, since every run loads it.
Concept: https://docs.dagster.io/guides/build/projects-and-components
"""

from __future__ import annotations

from importlib import import_module
from multiprocessing.util import register_after_fork
from typing import Any

import dagster as dg

from bellwether.domains import DOMAINS
from bellwether.settings import Settings, settings
from orchestration import alarms
from orchestration.asset_declarations import complete_specs
from orchestration.automation import SENSORS
from orchestration.checks import OPERATIONS, build_checks, whole_lake
from orchestration.orphaned_runs import kill_with_run
from orchestration.retention import PRUNE
from orchestration.run_priority import AUTOMATIC
from orchestration.steps import progress
from resources import LakeIOManager, LakeResource, ModelsResource, WarehouseResource
from resources.models import JournalResource
from resources.reports import ReportsResource
from resources.venues import WorldResource

#: Forked steps reuse loaded modules; spawned ones would import them for seconds.
EXECUTOR = dg.multiprocess_executor.configured({"max_concurrent": 2, "start_method": {"forkserver": {"preload_modules": [__name__]}}})
# Called in each step, which the preloaded process forks.
register_after_fork(EXECUTOR, kill_with_run)
check_whole_lake = dg.ScheduleDefinition(
    name="check_whole_lake",
    job=OPERATIONS,
    cron_schedule="20 3 * * *",
    tags=AUTOMATIC,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 03:20 UTC, after the pull: checks freshness, completeness, prices and rate limits of the lake.",
)
prune_runs = dg.ScheduleDefinition(
    name="prune_runs",
    job=PRUNE,
    cron_schedule="20 4 * * *",
    tags=AUTOMATIC,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 04:20 UTC: deletes finished runs older than BELLWETHER_KEEP_RUNS_DAYS, and pages of superseded pulls.",
)
SCHEDULES = (check_whole_lake, prune_runs)


def resources(config: Settings) -> dict[str, Any]:
    """Return by name the Dagster resources that all domains share."""
    lake, world, journal = LakeResource.of(config), WorldResource.of(config), JournalResource()
    return {
        "lake": lake,
        "io_manager": LakeIOManager(lake=lake),
        "warehouse": WarehouseResource(database=config.warehouse_uri),
        "world": world,
        "journal": journal,
        "models": ModelsResource(world=world, journal=journal),
        "reports": ReportsResource(uri=config.reports_uri),
    }


def build_defs(*, config: Settings | None = None) -> dg.Definitions:
    """Build the Dagster definitions of all domains. config: settings (default: those of the environment)."""
    config = config or settings()
    declared = [import_module(domain.definitions).definitions(config) for domain in DOMAINS if domain.definitions]
    together = dg.Definitions.merge(*declared)
    assets = complete_specs(together.assets or (), config)
    return dg.Definitions(
        assets=assets,
        asset_checks=(
            *(together.asset_checks or ()),
            *build_checks(asset for asset in assets if isinstance(asset, dg.AssetsDefinition)),
            whole_lake,
        ),
        jobs=(*(together.jobs or ()), OPERATIONS, PRUNE),
        schedules=(*(together.schedules or ()), *SCHEDULES),
        sensors=(*(together.sensors or ()), *SENSORS, *alarms.SENSORS),
        # A run of a fleet is a process of a worker, which cannot start child processes.
        executor=EXECUTOR if config.fleet is None else dg.in_process_executor,
        loggers={"console": dg.colored_console_logger, "progress": progress},
        resources={**resources(config), **(together.resources or {})},
    )


defs = build_defs()
