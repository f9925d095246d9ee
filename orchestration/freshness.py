"""When tables that clocks renew count as late, which Dagster's daemon reports as their freshness; only where the world's clock runs.

Not here: the clocks (assets/<domain>/schedules.py), or when a partition is out of date (freshness.py).
Concept: https://docs.dagster.io/guides/observe/asset-freshness-policies
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import dagster as dg

from bellwether.settings import Settings, World
from orchestration.asset_declarations import key

#: Of a table that is made every day: it is late after a day and a half, and missing after two and a half.
DAILY = dg.FreshnessPolicy.time_window(warn_window=timedelta(hours=36), fail_window=timedelta(hours=60))
#: Of a table that is made every week.
WEEKLY = dg.FreshnessPolicy.time_window(warn_window=timedelta(days=8), fail_window=timedelta(days=11))


def apply_policies(assets: Iterable[Any], policies: Mapping[str, dg.FreshnessPolicy], config: Settings) -> list[Any]:
    """The assets, in the live world those that `policies` names (`group/name`) with their policy: the sandbox's clock stands still, and every
    deadline would pass.
    """
    if config.world is not World.LIVE:
        return list(assets)
    chosen = {key(name): policy for name, policy in policies.items()}
    return list(
        dg.map_asset_specs(lambda spec: spec.replace_attributes(freshness_policy=chosen[spec.key]) if spec.key in chosen else spec, assets)
    )
