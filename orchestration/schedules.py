"""Clocks: the daily pull and the weekly list of series.

Not here: what follows by itself when its inputs change (automation.py).
Concept: https://docs.dagster.io/guides/automate/schedules
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta

import dagster as dg
import polars as pl

from bellwether.tables import table
from orchestration.jobs import DAYS, OPERATIONS, SERIES
from orchestration.partitions import DAY
from resources import LakeResource

#: A market that is still open to settlement this long after its close is left to a person.
PATIENCE = timedelta(days=45)
_WAITING = ("undetermined", "disputed")


def days_to_pull(today: date, waiting: Mapping[date, int]) -> list[date]:
    """Yesterday, and every earlier day within `PATIENCE` that still has markets waiting for their outcome, oldest first."""
    yesterday = today - timedelta(days=1)
    late = {day for day, markets in waiting.items() if markets > 0 and today - PATIENCE <= day < today}
    return sorted(late | {yesterday})


def waiting_markets(lake: LakeResource, today: date) -> dict[date, int]:
    """Markets per close day, within `PATIENCE`, whose outcome was not final when last seen."""
    declared = table("clean/markets")
    recent = [(str(today - timedelta(days=back)),) for back in range(1, PATIENCE.days + 1)]
    frame = (
        lake.lake.slice(declared, recent, missing="skip")
        .scan()
        .filter(pl.col("outcome_reason").is_in(_WAITING))
        .group_by("day")
        .len()
        .collect()
    )
    return dict(zip(frame["day"], frame["len"], strict=True))


@dg.schedule(
    job=DAYS,
    cron_schedule="20 1 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 01:20 UTC: yesterday's markets, and again the days whose markets were not all final.",
)
def daily_pull(context: dg.ScheduleEvaluationContext, lake: LakeResource) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """One run per day that needs pulling; a day outside the partitions (the sandbox's clock stands still) is left out."""
    tick = context.scheduled_execution_time
    known = set(DAY.get_partition_keys())
    wanted = [day.isoformat() for day in days_to_pull(tick.date(), waiting_markets(lake, tick.date()))]
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
