"""Dagster definitions of the benchmark."""

from __future__ import annotations

import dagster as dg

from assets.benchmark import assets
from assets.benchmark.jobs import JOBS
from bellwether.settings import Settings


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets and jobs of the benchmark."""
    return dg.Definitions(assets=dg.load_assets_from_modules([assets]), jobs=JOBS)
