"""The days of this world as partitions, shared by every domain that has days.

Not here: other partitions (assets/<domain>/partitions.py).
Concept: https://docs.dagster.io/guides/build/partitions-and-backfills
"""

from __future__ import annotations

import dagster as dg

from bellwether.settings import World, settings


def daily_partitions() -> dg.DailyPartitionsDefinition:
    """UTC close days from the first day of the settings; the sandbox's clock stands still, so its days end there."""
    config = settings()
    end = config.sandbox_now.strftime("%Y-%m-%d") if config.world is World.SANDBOX else None
    return dg.DailyPartitionsDefinition(start_date=config.first_day.strftime("%Y-%m-%d"), end_date=end, timezone="UTC")


DAY = daily_partitions()

#: A month of days in one run: a day's own work is far cheaper than a run's start.
DAYS_PER_RUN = dg.BackfillPolicy.multi_run(max_partitions_per_run=31)

ALL_DAYS = dg.AllPartitionMapping()
