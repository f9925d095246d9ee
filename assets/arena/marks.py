"""The job that stores current marks (prices of positions), and the sensor that requests it every ten minutes.

Not here: marks of past days (assets.py).
Concept: https://docs.dagster.io/guides/build/ops
"""

import dagster as dg

from bellwether.errors import BellwetherError
from orchestration.asset_declarations import key
from orchestration.orphaned_runs import is_in_progress
from orchestration.run_priority import PROMPT
from resources.arena import ArenaResource


@dg.op(pool="marks", description="Store the prices of positions that changed since the last tick.")
def store_marks(context: dg.OpExecutionContext, arena: ArenaResource) -> None:
    """Store current prices, and report them as a materialization of the day."""
    from bellwether.arena.weekly.held_prices import store_tick

    try:
        day, changed = store_tick(arena.world(context.run_id))
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    context.log.info(f"{changed} prices of {day} changed")
    if changed:
        context.log_event(dg.AssetMaterialization(key("arena/prices"), partition=day.isoformat(), metadata={"changed prices": changed}))


@dg.job(name="arena_tick", description="Store the current prices of positions of live cohorts.", executor_def=dg.in_process_executor)
def TICK() -> None:
    """Store current prices."""
    store_marks()


@dg.sensor(
    job=TICK,
    minimum_interval_seconds=600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Every ten minutes: requests a run that stores changed prices of positions of live cohorts in arena/prices.",
)
def marks(context: dg.SensorEvaluationContext, arena: ArenaResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run that stores current prices, unless no position is open or the previous run is in progress. No request is sent to a venue."""
    from bellwether.arena.weekly.held_prices import has_open_positions

    if not has_open_positions(arena.world("marks")):
        return dg.SkipReason("no live cohort has an open position")
    if is_in_progress(context.instance, TICK.name):
        return dg.SkipReason("the previous run is in progress")
    return dg.RunRequest(tags=PROMPT)
