"""Dagster definitions of the warehouse."""

from __future__ import annotations

import dagster as dg

from assets.summary import assets
from assets.summary.jobs import DATA_DOCS, PUBLISH, SITE, build_site, publish_warehouse, validate_warehouse
from bellwether.settings import Settings


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets, jobs, schedule and sensors of the warehouse."""
    return dg.Definitions(
        assets=dg.load_assets_from_modules([assets]),
        jobs=[PUBLISH, SITE, DATA_DOCS],
        schedules=[validate_warehouse],
        sensors=[publish_warehouse, build_site],
    )
