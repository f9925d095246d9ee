"""Shared schedules: checks of the whole lake, and pruning of old runs.

Not here: updates after changes of inputs (automation.py) and schedules of a domain (assets/<domain>/schedules.py).
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
    description="Every day at 03:20 UTC, after the pull: checks freshness, completeness, prices and rate limits of the lake.",
)

daily_prune = dg.ScheduleDefinition(
    name="daily_prune",
    job=PRUNE,
    cron_schedule="20 4 * * *",
    tags=AUTOMATIC,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 04:20 UTC: deletes finished runs older than BELLWETHER_KEEP_RUNS_DAYS, and pages of superseded pulls.",
)

SCHEDULES = (daily_operations, daily_prune)
