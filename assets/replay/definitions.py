"""Dagster definitions of replay."""

from __future__ import annotations

import dagster as dg

from assets.replay import assets
from assets.replay.jobs import JOBS, build_episodes
from bellwether.settings import Settings
from resources.recordings import EpisodesResource


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets, jobs, the sensor and the store of episodes of a world."""
    return dg.Definitions(
        assets=dg.load_assets_from_modules([assets]),
        jobs=JOBS,
        sensors=(build_episodes,),
        resources={"store": EpisodesResource(path=str(config.episodes_path))},
    )
