"""Dagster definitions of the warehouse."""

from __future__ import annotations

import dagster as dg

from assets.summary import assets
from assets.summary.jobs import DATA_DOCS, PUBLISH, SITE, daily_data_docs, publisher, site_builder
from bellwether.settings import Settings


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets, jobs, schedule and sensors of the warehouse."""
    return dg.Definitions(
        assets=dg.load_assets_from_modules([assets]),
        jobs=[PUBLISH, SITE, DATA_DOCS],
        schedules=[daily_data_docs],
        sensors=[publisher, site_builder],
    )
