"""Partitions of the arena: weeks by the date of their Sunday, including the current week.

Not here: days (orchestration/partitions.py).
Concept: https://docs.dagster.io/guides/build/partitions-and-backfills
"""

from __future__ import annotations

from datetime import timedelta

import dagster as dg

from bellwether.arena.identity import WEEK as SEVEN_DAYS
from bellwether.arena.identity import week_of
from bellwether.settings import World, settings
from bellwether.tables import Table
from orchestration.asset_declarations import key
from orchestration.partitions import days_ahead
from resources.io_manager import UNDER_WAY


def weekly_partitions() -> dg.WeeklyPartitionsDefinition:
    """Define one partition per UTC week, from the first whole week of the settings. In the sandbox, whose clock is fixed, the last week is the
    clock's.
    """
    config = settings()
    first = week_of(config.first_day + timedelta(days=6))
    if config.world is World.SANDBOX:
        last = week_of(config.now()) + SEVEN_DAYS
        beyond = days_ahead(last) // SEVEN_DAYS.days + 1
        return dg.WeeklyPartitionsDefinition(start_date=first.isoformat(), end_date=last.isoformat(), timezone="UTC", end_offset=beyond)
    return dg.WeeklyPartitionsDefinition(start_date=first.isoformat(), timezone="UTC", end_offset=1)


WEEK = weekly_partitions()

#: Dependency on the previous week.
BEFORE = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True)


def whole_table(table: Table) -> dg.AssetIn:
    """Return an asset input with all partitions of a table, including the current day, which a sensor writes."""
    if not table.partitioned_by:
        return dg.AssetIn(key(table.name))
    metadata = {UNDER_WAY: True} if table.partitioned_by == ("day",) else None
    return dg.AssetIn(key(table.name), partition_mapping=dg.AllPartitionMapping(), metadata=metadata)
