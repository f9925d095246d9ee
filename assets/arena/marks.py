"""The job that stores current marks (prices of positions), and the schedule that requests it every hour.

Not here: marks of past days (assets.py).
Concept: https://docs.dagster.io/guides/build/ops
"""

from collections import Counter
from datetime import date
from time import sleep

import dagster as dg

from bellwether.errors import BellwetherError
from orchestration.asset_declarations import key
from orchestration.orphaned_runs import is_in_progress
from orchestration.run_priority import PROMPT
from resources.arena import ArenaResource

#: Ticks of a run, and seconds between them.
TICKS, PAUSE = 6, 600


@dg.op(pool="marks", description="Every ten minutes of an hour, store the prices of positions that have changed.")
def store_marks(context: dg.OpExecutionContext, arena: ArenaResource) -> None:
    """Store current prices at each tick, and report them at the end as one materialization of the day. A failed tick is left out unless it is the last."""
    from bellwether.arena.weekly.held_prices import store_tick

    changed, failure = Counter[date](), None
    for number in range(TICKS):
        if number:
            sleep(PAUSE)
        try:
            day, count = store_tick(arena.world(context.run_id))
        except BellwetherError as error:
            failure = error
            context.log.warning(str(error))
            continue
        failure = None
        changed[day] += count
        context.log.info(f"{count} prices of {day} changed")
    for day, count in changed.items():
        if count:
            context.log_event(dg.AssetMaterialization(key("arena/prices"), partition=day.isoformat(), metadata={"changed prices": count}))
    if failure is not None:
        raise dg.Failure(str(failure), allow_retries=False) from failure


@dg.job(name="arena_marks_now", description="Store the current prices of positions of live cohorts.", executor_def=dg.in_process_executor)
def MARKS_NOW() -> None:
    """Store current prices."""
    store_marks()


@dg.schedule(
    job=MARKS_NOW,
    cron_schedule="0 * * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every hour: requests a run that stores changed prices of positions of live cohorts in arena/prices, at six ticks.",
)
def hourly_marks(context: dg.ScheduleEvaluationContext, arena: ArenaResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run that stores current prices, unless no position is open or the previous run is in progress. No request is sent to a venue."""
    from bellwether.arena.weekly.held_prices import has_open_positions

    if not has_open_positions(arena.world("marks")):
        return dg.SkipReason("no live cohort has an open position")
    if is_in_progress(context.instance, MARKS_NOW.name):
        return dg.SkipReason("the previous run is in progress")
    return dg.RunRequest(tags=PROMPT)
