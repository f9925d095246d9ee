"""Dagster definitions of the venues."""

from __future__ import annotations

import dagster as dg

from assets.clean import assets as clean
from assets.raw import assets as raw
from assets.raw.jobs import JOBS, import_recordings, pull_days, pull_series
from bellwether.settings import Settings, Venue
from resources.recordings import RecordingsResource
from resources.venues import KalshiVenue, PolymarketVenue, WorldResource


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets, jobs, schedules, sensors and resources of the venues."""
    world = WorldResource.of(config)
    sample = {"candle_days": config.candle_days, "candle_markets": config.candle_markets}
    return dg.Definitions(
        assets=dg.load_assets_from_modules([raw, clean]),
        jobs=JOBS,
        schedules=(pull_days, pull_series),
        sensors=(import_recordings,),
        resources={
            "recordings": RecordingsResource(path=str(config.recordings_path)),
            "kalshi": KalshiVenue(
                world=world, asked=Venue.KALSHI in config.venues, tokens_per_second=config.kalshi_tokens_per_second, **sample
            ),
            "polymarket": PolymarketVenue(world=world, asked=Venue.POLYMARKET in config.venues, **sample),
        },
    )
