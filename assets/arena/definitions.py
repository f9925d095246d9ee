"""Definitions of the arena for Dagster."""

from __future__ import annotations

import dagster as dg

from assets.arena import assets
from assets.arena.jobs import JOBS, SCHEDULES, SENSORS
from bellwether.settings import Settings
from resources.arena import ArenaResource


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets, jobs, schedules, sensors and resources of the arena."""
    return dg.Definitions(
        assets=dg.load_assets_from_modules([assets]),
        jobs=JOBS,
        schedules=SCHEDULES,
        sensors=SENSORS,
        resources={"arena": ArenaResource.of(config)},
    )
