"""Definitions of the arena for Dagster."""

from __future__ import annotations

import dagster as dg

from assets.arena import assets, marks, rankings
from assets.arena.jobs import JOBS
from assets.arena.schedules import SCHEDULES, SENSORS
from bellwether.settings import Settings
from resources.arena import ArenaResource


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets, jobs, schedules, sensors and resources of the arena."""
    return dg.Definitions(
        assets=dg.load_assets_from_modules([assets, rankings]),
        jobs=(*JOBS, marks.MARKS_NOW),
        schedules=(*SCHEDULES, marks.hourly_marks),
        sensors=SENSORS,
        resources={"arena": ArenaResource.of(config)},
    )
