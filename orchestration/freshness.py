"""Freshness policies of scheduled tables in the live world.

Not here: schedules (assets/<domain>/schedules.py) and outdated partitions (bellwether/lake/staleness.py).
Concept: https://docs.dagster.io/guides/observe/asset-freshness-policies
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import dagster as dg

from bellwether.settings import Settings, World
from orchestration.asset_declarations import key

#: Policy of a daily table: late after 36 hours, missing after 60.
DAILY = dg.FreshnessPolicy.time_window(warn_window=timedelta(hours=36), fail_window=timedelta(hours=60))
#: Policy of a weekly table.
WEEKLY = dg.FreshnessPolicy.time_window(warn_window=timedelta(days=8), fail_window=timedelta(days=11))


def apply_policies(assets: Iterable[Any], policies: Mapping[str, dg.FreshnessPolicy], config: Settings) -> list[Any]:
    """Return the assets with their freshness policies added. policies: by `group/name`. Worlds other than live get no policies."""
    if config.world is not World.LIVE:
        return list(assets)
    chosen = {key(name): policy for name, policy in policies.items()}
    return list(
        dg.map_asset_specs(lambda spec: spec.replace_attributes(freshness_policy=chosen[spec.key]) if spec.key in chosen else spec, assets)
    )
