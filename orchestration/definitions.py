"""The code location: what the domains declare, put together, with the checks, clocks and resources that they share.

Not here: any logic, and nothing of one domain (bellwether/domains says where its part is). Nothing heavy is imported on the way: every step of
a run pays for what this module loads.
Concept: https://docs.dagster.io/guides/build/projects-and-components
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from multiprocessing.util import register_after_fork
from typing import Any

import dagster as dg

from bellwether.domains import load_domains
from bellwether.settings import Settings, settings
from orchestration import alarms
from orchestration.checks import OPERATIONS, build_checks, whole_lake
from orchestration.orphaned_runs import kill_with_run
from orchestration.progress import progress
from orchestration.retention import PRUNE
from orchestration.schedules import SCHEDULES
from orchestration.sensors import SENSORS
from resources import LakeIOManager, LakeResource, ModelsResource, WarehouseResource
from resources.journal import JournalResource
from resources.reports import ReportsResource
from resources.venues import WorldResource

#: A spawned step imports all modules (seconds); a forked one finds them loaded.
EXECUTOR = dg.multiprocess_executor.configured({"max_concurrent": 2, "start_method": {"forkserver": {"preload_modules": [__name__]}}})
# In every process that the preloaded one forks: a step.
register_after_fork(EXECUTOR, kill_with_run)


def resources(config: Settings) -> dict[str, Any]:
    """The resources of a world that domains share."""
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


def build_defs(*, config: Settings | None = None, resource_overrides: Mapping[str, Any] | None = None) -> dg.Definitions:
    """The definitions of the platform; production, the command line and tests differ in resources only."""
    config = config or settings()
    declared = [import_module(domain.definitions).definitions(config) for domain in load_domains() if domain.definitions]
    together = dg.Definitions.merge(*declared)
    return dg.Definitions(
        assets=together.assets,
        asset_checks=(
            *(together.asset_checks or ()),
            *build_checks(one for one in together.assets or () if isinstance(one, dg.AssetsDefinition)),
            whole_lake,
        ),
        jobs=(*(together.jobs or ()), OPERATIONS, PRUNE),
        schedules=(*(together.schedules or ()), *SCHEDULES),
        sensors=(*(together.sensors or ()), *SENSORS, *alarms.SENSORS),
        # A run of a fleet is a process of a worker, which cannot start others.
        executor=EXECUTOR if config.fleet is None else dg.in_process_executor,
        loggers={"console": dg.colored_console_logger, "progress": progress},
        resources={**resources(config), **(together.resources or {}), **(resource_overrides or {})},
    )


defs = build_defs()
