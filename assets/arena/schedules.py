"""The clocks of the arena: the weekly decisions, the looks at markets, the marks.

A mark is a tick of a sensor and no run: it writes rows of arena/prices where a price changed, and Dagster keeps one line of it, which is pruned.
Concept: https://docs.dagster.io/guides/automate/sensors
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256

import dagster as dg

from assets.arena.jobs import BOOKS, EVIDENCE, MARKS, WEEKS
from assets.arena.partitions import WEEK
from bellwether.arena.identity import week_of, week_start
from bellwether.arena.lifecycle import decision_deadline, is_start_allowed
from bellwether.lake.staleness import Staleness
from bellwether.settings import settings
from orchestration.asset_declarations import key
from orchestration.automation import asset_recipe
from orchestration.partitions import DAY, RANGE_END, RANGE_START, group_days
from orchestration.run_priority import AUTOMATIC, DUE
from resources import LakeResource
from resources.arena import ArenaResource


@dg.schedule(
    job=WEEKS,
    cron_schedule="5 * * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Sunday 00:05 UTC: the week's cohort and decisions; then every hour until its deadline, while a decision is left, and once more for answers that were not executed.",
)
def weekly_decisions(context: dg.ScheduleEvaluationContext, arena: ArenaResource) -> dg.RunRequest | dg.SkipReason:
    """One run for a week that has decisions left. A cohort is started in the first hour of its week only; later ticks finish what it began."""
    from bellwether.arena.weekly.queries import has_unexecuted_answer, is_week_decided

    tick = context.scheduled_execution_time
    week = week_of(tick)
    if week.isoformat() not in set(WEEK.get_partition_keys()):
        return dg.SkipReason(f"{week} is no week of this world: its clock stands still")
    if week_of(settings().now()) != week:
        return dg.SkipReason(f"the clock of this world shows another week than {week}")
    world = arena.world(f"schedule@{week}")
    if tick >= max(decision_deadline(week_start(week), rules) for rules in world.rules.values()) and not has_unexecuted_answer(world, week):
        return dg.SkipReason(f"the decisions of {week} are due no more")
    if is_week_decided(world, week, tick):
        return dg.SkipReason(f"nothing is left of {week}: every decision is made, and a cohort that was missed is started on request only")
    # A run that waits in the queue for longer than the first hour starts what its tick could.
    config = {"ops": {"week": {"config": {"forced": is_start_allowed(tick)}}}}
    return dg.RunRequest(run_key=f"{tick:%Y-%m-%dT%H}", partition_key=week.isoformat(), run_config=config, tags=DUE)


@dg.sensor(
    job=EVIDENCE,
    minimum_interval_seconds=1800,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks at the markets that live bets wait for, when one is due: less often the longer nothing happens.",
)
def resolutions(context: dg.SensorEvaluationContext, arena: ArenaResource) -> dg.RunRequest | dg.SkipReason:
    """One run for all markets that are due."""
    from bellwether.arena.weekly.evidence import due_markets

    world = arena.world("resolutions")
    week = week_of(world.now()).isoformat()
    due = due_markets(world)
    if not due or week not in set(WEEK.get_partition_keys()):
        return dg.SkipReason("no market that a live bet waits for is due")
    name = sha256("\n".join(due).encode()).hexdigest()[:12]
    return dg.RunRequest(run_key=f"{name}@{world.now():%Y-%m-%dT%H:%M}", partition_key=week, tags=AUTOMATIC)


@dg.sensor(
    minimum_interval_seconds=600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Marks what live cohorts hold, every ten minutes: rows of arena/prices where a price changed. No run.",
)
def marks(context: dg.SensorEvaluationContext, arena: ArenaResource) -> dg.SkipReason:
    """A tick writes the day's rows and reports how many changed. It fails if the venue does not answer, and the next one retries."""
    from bellwether.arena.weekly.held_prices import store_tick

    day, changed = store_tick(arena.world(f"marks-{context.cursor or 0}"))
    context.update_cursor(str(int(context.cursor or 0) + 1))
    return dg.SkipReason(f"{changed} prices of {day} changed" if changed else "no price that is held changed")


@dg.sensor(
    job=MARKS,
    minimum_interval_seconds=3600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Marks the past days on which reconstructed cohorts held something, when trades or evidence of them are newer.",
)
def past_marks(context: dg.SensorEvaluationContext, arena: ArenaResource, lake: LakeResource) -> list[dg.RunRequest] | dg.SkipReason:
    """One run for neighbouring days; an unchanged state of the facts is requested once a day."""
    from bellwether.arena.weekly.held_prices import reconstructed_days

    assert context.repository_def is not None
    existing, state = set(DAY.get_partition_keys()), Staleness(lake.lake, settings().now().date())
    prices = asset_recipe(context.repository_def.asset_graph, key("arena/prices"))
    days = [(name,) for day in reconstructed_days(arena.world("past marks")) if (name := day.isoformat()) in existing]
    asked = []
    for start, end in group_days(day for (day,) in state.find_outdated(prices, days)):
        facts = sha256(repr(sorted(state.versions(prices, (end,)).items())).encode()).hexdigest()[:12]
        tags = {RANGE_START: start, RANGE_END: end, **AUTOMATIC}
        asked.append(dg.RunRequest(run_key=f"{start}..{end}@{facts} {datetime.now(UTC):%Y-%m-%d}", tags=tags))
    return asked or dg.SkipReason("every past day on which a reconstructed cohort held something is marked")


daily_books = dg.ScheduleDefinition(
    name="daily_books",
    job=BOOKS,
    cron_schedule="30 0 * * *",
    execution_timezone="UTC",
    tags=AUTOMATIC,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 00:30 UTC: portfolios and the leaderboard at the marks of the day; they follow trades and evidence by themselves.",
)

SCHEDULES = (weekly_decisions, daily_books)
SENSORS = (resolutions, marks, past_marks)
