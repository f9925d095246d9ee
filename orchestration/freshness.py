"""Freshness policies of scheduled tables in the live world.

Not here: schedules (assets/<domain>/schedules.py) and outdated partitions (bellwether/lake/staleness.py).
Concept: https://docs.dagster.io/guides/observe/asset-freshness-policies
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dagster as dg

from bellwether.settings import Settings, World
from bellwether.tables import TABLES
from orchestration.asset_declarations import key


def apply_policies(assets: Iterable[Any], config: Settings) -> list[Any]:
    """Return the assets with a freshness policy added for each table with `Table.max_age`: late after that age, missing after 1.5 times that age.

    Worlds other than live get no policies.
    """
    if config.world is not World.LIVE:
        return list(assets)
    chosen = {
        key(table.name): dg.FreshnessPolicy.time_window(warn_window=table.max_age, fail_window=1.5 * table.max_age)
        for table in TABLES.values()
        if table.max_age is not None
    }
    return list(
        dg.map_asset_specs(lambda spec: spec.replace_attributes(freshness_policy=chosen[spec.key]) if spec.key in chosen else spec, assets)
    )
