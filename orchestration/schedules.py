"""Clocks: the daily pull and the weekly list of series.

Not here: what follows by itself when its inputs change (automation.py).
Concept: https://docs.dagster.io/guides/automate/schedules
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import date, timedelta

import dagster as dg
import polars as pl

from bellwether.tables.raw import KALSHI_PULLS, POLYMARKET_PULLS
from orchestration.jobs import DAYS, OPERATIONS, SERIES
from orchestration.partitions import DAY
from resources import LakeResource

#: A day that is not final this long after it is left to a person.
PATIENCE = timedelta(days=45)


def days_to_pull(today: date, waiting: Collection[date]) -> list[date]:
    """Yesterday, and those earlier days within `PATIENCE` that are `waiting`, oldest first."""
    late = {day for day in waiting if today - PATIENCE <= day < today}
    return sorted(late | {today - timedelta(days=1)})


def waiting_days(lake: LakeResource, today: date) -> set[date]:
    """Days within `PATIENCE` whose last pull of either venue was not final: an outcome may still change, or pages were missing."""
    recent = [(str(today - timedelta(days=back)),) for back in range(1, PATIENCE.days + 1)]
    pulls = [
        lake.lake.slice(declared, recent, missing="skip").scan().select("day", "final") for declared in (KALSHI_PULLS, POLYMARKET_PULLS)
    ]
    return set(pl.concat(pulls).filter(~pl.col("final")).collect()["day"])


@dg.schedule(
    job=DAYS,
    cron_schedule="20 1 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 01:20 UTC: yesterday's markets, and again the days that were not final.",
)
def daily_pull(context: dg.ScheduleEvaluationContext, lake: LakeResource) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """One run per day that needs pulling; a day outside the partitions (the sandbox's clock stands still) is left out."""
    tick = context.scheduled_execution_time
    known = set(DAY.get_partition_keys())
    wanted = [day.isoformat() for day in days_to_pull(tick.date(), waiting_days(lake, tick.date()))]
    days = [day for day in wanted if day in known]
    if not days:
        yield dg.SkipReason(f"none of {', '.join(wanted)} is a day of this world")
    for day in days:
        yield dg.RunRequest(run_key=f"{day}@{tick:%Y-%m-%d}", partition_key=day, tags={"bellwether/clock": "daily_pull"})


@dg.schedule(
    job=SERIES,
    cron_schedule="40 0 * * 1",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every Monday at 00:40 UTC: the list of series, which has their categories and fees.",
)
def weekly_series(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """One run that asks the venue again."""
    return dg.RunRequest(
        run_key=f"{context.scheduled_execution_time:%Y-%m-%d}", run_config={"ops": {"raw__kalshi_series": {"config": {"refresh": True}}}}
    )


daily_operations = dg.ScheduleDefinition(
    name="daily_operations",
    job=OPERATIONS,
    cron_schedule="20 3 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 03:20 UTC, after the pull: is the lake fresh and complete, do markets have prices, what held the pulls up?",
)

SCHEDULES = (daily_pull, weekly_series, daily_operations)
