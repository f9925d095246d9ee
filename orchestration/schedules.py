"""Clocks of all domains: the checks of the whole lake, and the pruning of Dagster's history.

Not here: what follows by itself when its inputs change (automation.py), or the clocks of a domain (assets/<domain>/schedules.py).
Concept: https://docs.dagster.io/guides/automate/schedules
"""

from __future__ import annotations

import dagster as dg

from orchestration.checks import OPERATIONS
from orchestration.retention import PRUNE
from orchestration.run_priority import AUTOMATIC

daily_operations = dg.ScheduleDefinition(
    name="daily_operations",
    job=OPERATIONS,
    cron_schedule="20 3 * * *",
    tags=AUTOMATIC,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 03:20 UTC, after the pull: is the lake fresh and complete, do markets have prices, what held the pulls up?",
)

daily_prune = dg.ScheduleDefinition(
    name="daily_prune",
    job=PRUNE,
    cron_schedule="20 4 * * *",
    tags=AUTOMATIC,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 04:20 UTC: finished runs older than BELLWETHER_KEEP_RUNS_DAYS are deleted, and pages of superseded pulls.",
)

SCHEDULES = (daily_operations, daily_prune)
