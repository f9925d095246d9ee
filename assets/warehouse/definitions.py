"""What Dagster runs for the warehouse."""

from __future__ import annotations

import dagster as dg

from assets.warehouse import assets
from assets.warehouse.jobs import PUBLISH
from assets.warehouse.sensors import publisher
from bellwether.settings import Settings


def definitions(config: Settings) -> dg.Definitions:
    """The published file, the job that makes it and the sensor that launches it."""
    return dg.Definitions(assets=dg.load_assets_from_modules([assets]), jobs=[PUBLISH], sensors=[publisher])
