"""What Dagster runs for the arena."""

from __future__ import annotations

import dagster as dg

from assets.arena import assets, rankings
from assets.arena.clocks import SCHEDULES, SENSORS
from assets.arena.jobs import JOBS
from bellwether.settings import Settings
from resources import LakeResource, ModelsResource
from resources.arena import ArenaResource
from resources.journal import JournalResource
from resources.venues import PolymarketVenue, WorldResource


def definitions(config: Settings) -> dg.Definitions:
    """Assets, jobs, clocks and the arena's means in a world."""
    world, journal = WorldResource.of(config), JournalResource()
    return dg.Definitions(
        assets=dg.load_assets_from_modules([assets, rankings]),
        jobs=JOBS,
        schedules=SCHEDULES,
        sensors=SENSORS,
        resources={
            "arena": ArenaResource(
                lake=LakeResource(uri=config.lake_uri),
                journal=journal,
                polymarket=PolymarketVenue(world=world),
                models=ModelsResource(world=world, journal=journal),
                lineup=config.arena_lineup,
            )
        },
    )
