"""Jobs of the arena, and the schedules and sensors that request them: weekly decisions, polls of markets, marks (prices of positions), and results.

Concept: https://docs.dagster.io/guides/automate
"""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from time import sleep

import dagster as dg

from assets.arena import assets
from assets.arena.assets import BOOK_TABLES, DECIDED_TABLES, RANKING_TABLES, WEEK
from bellwether.arena.identity import week_of, week_start
from bellwether.arena.lifecycle import decision_deadline, is_start_allowed
from bellwether.errors import BellwetherError
from bellwether.lake.staleness import Staleness
from bellwether.settings import Settings, settings
from orchestration.asset_declarations import key, select
from orchestration.automation import asset_recipe
from orchestration.orphaned_runs import is_in_progress
from orchestration.partitions import DAY, RANGE_END, RANGE_START, group_days
from orchestration.run_priority import AUTOMATIC, DUE, PROMPT
from resources import LakeResource
from resources.arena import ArenaResource

#: A week: universe, cohort, decisions, trades and evidence.
WEEKS = dg.define_asset_job(
    "arena_week", select("arena/universe", *DECIDED_TABLES), description="Run a week of the arena. Stored decisions are kept."
)
#: Evidence about markets with open bets.
EVIDENCE = dg.define_asset_job("arena_evidence", select("arena/evidence"), description="Poll the markets with open bets of the arena.")
#: Agents of a cohort, after an operator closed one of them.
AGENTS = dg.define_asset_job("arena_agents", select("arena/agents"), description="Update the agents of a cohort after an intervention.")
#: Marks of past days.
MARKS = dg.define_asset_job(
    "arena_marks", select("arena/prices"), description="Reconstruct the marks of past days, and check observed ones."
)
#: All results computed from the facts.
BOOKS = dg.define_asset_job(
    "arena_books",
    select(*BOOK_TABLES, "arena/submissions", *RANKING_TABLES),
    description="Compute ledger, scores, portfolios and leaderboard; compare families and submitted forecasts.",
)


@dg.schedule(
    job=WEEKS,
    cron_schedule="5 * * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Sunday 00:05 UTC: starts the week's cohort and makes its decisions; then hourly until the deadline while a decision is open, and once more for answers that were not executed.",
)
def make_decisions(context: dg.ScheduleEvaluationContext, arena: ArenaResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run for the current week while decisions are open. Only in the first hour may this run start the week's cohort."""
    from bellwether.arena.weekly.queries import has_unexecuted_answer, is_week_decided

    tick = context.scheduled_execution_time
    week = week_of(tick)
    if week.isoformat() not in set(WEEK.get_partition_keys()):
        return dg.SkipReason(f"{week} is not a week of this world, whose clock is fixed")
    if week_of(settings().now()) != week:
        return dg.SkipReason(f"the clock of this world shows another week than {week}")
    world = arena.world(f"schedule@{week}")
    if tick >= max(decision_deadline(week_start(week), rules) for rules in world.rules.values()) and not has_unexecuted_answer(world, week):
        return dg.SkipReason(f"the deadline of {week} is over")
    if is_week_decided(world, week, tick):
        return dg.SkipReason(f"{week} is complete: every decision is made, and a missed cohort starts on request only")
    # Decided at the tick: the run may wait in the queue beyond the first hour.
    config = {"ops": {"week": {"config": {"forced": is_start_allowed(tick)}}}}
    return dg.RunRequest(run_key=f"{tick:%Y-%m-%dT%H}", partition_key=week.isoformat(), run_config=config, tags=DUE)


@dg.sensor(
    job=EVIDENCE,
    minimum_interval_seconds=1800,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Polls markets with live bets that are due; less often the longer nothing changes.",
)
def poll_markets(context: dg.SensorEvaluationContext, arena: ArenaResource) -> dg.RunRequest | dg.SkipReason:
    """Request one run that polls all markets whose next poll is due."""
    from bellwether.arena.weekly.evidence import list_due_markets

    world = arena.world("poll_markets")
    week = week_of(world.now()).isoformat()
    due = list_due_markets(world)
    if not due or week not in set(WEEK.get_partition_keys()):
        return dg.SkipReason("no market with a live bet is due")
    name = sha256("\n".join(due).encode()).hexdigest()[:12]
    return dg.RunRequest(run_key=f"{name}@{world.now():%Y-%m-%dT%H:%M}", partition_key=week, tags=AUTOMATIC)


@dg.sensor(
    job=MARKS,
    minimum_interval_seconds=3600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Marks past days with positions of reconstructed cohorts when trades or evidence are newer.",
)
def reconstruct_marks(context: dg.SensorEvaluationContext, arena: ArenaResource, lake: LakeResource) -> list[dg.RunRequest] | dg.SkipReason:
    """Request a run for each range of days whose marks (prices of positions) are out of date. While trades and evidence stay the same, at most once
    a day.
    """
    from bellwether.arena.weekly.held_prices import list_reconstructed_days

    assert context.repository_def is not None
    existing, state = set(DAY.get_partition_keys()), Staleness(lake.lake, settings().now().date())
    prices = asset_recipe(context.repository_def.asset_graph, key("arena/prices"))
    days = [(name,) for day in list_reconstructed_days(arena.world("past marks")) if (name := day.isoformat()) in existing]
    requests = []
    for start, end in group_days(day for (day,) in state.find_outdated(prices, days)):
        facts = sha256(repr(sorted(state.versions(prices, (end,)).items())).encode()).hexdigest()[:12]
        tags = {RANGE_START: start, RANGE_END: end, **AUTOMATIC}
        requests.append(dg.RunRequest(run_key=f"{start}..{end}@{facts} {datetime.now(UTC):%Y-%m-%d}", tags=tags))
    return requests or dg.SkipReason("every past day with positions of reconstructed cohorts is marked")


update_books = dg.ScheduleDefinition(
    name="update_books",
    job=BOOKS,
    cron_schedule="30 0 * * *",
    execution_timezone="UTC",
    tags=AUTOMATIC,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 00:30 UTC: portfolios and leaderboard at the marks of the day.",
)


#: Ticks of a run, and the time from the beginning of one to that of the next.
TICKS, INTERVAL = 6, timedelta(minutes=10)


@dg.op(pool="marks", description="Every ten minutes of an hour, store the prices of positions that have changed.")
def store_marks(context: dg.OpExecutionContext, arena: ArenaResource) -> None:
    """Store current prices at each tick, and report them at the end as one materialization of the day. A failed tick is left out unless it is the last."""
    from bellwether.arena.weekly.held_prices import store_tick

    changed, failure, begun = Counter[date](), None, None
    for _ in range(TICKS):
        if begun is not None:  # A slow tick delays no later one: a run that ends after its hour takes the place of the next.
            sleep(max(0.0, (begun + INTERVAL - settings().now()).total_seconds()))
        begun = settings().now()
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
def mark_positions(context: dg.ScheduleEvaluationContext, arena: ArenaResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run that stores current prices, unless no position is open or the previous run is in progress. No request is sent to a venue."""
    from bellwether.arena.weekly.held_prices import has_open_positions

    if not has_open_positions(arena.world("marks")):
        return dg.SkipReason("no live cohort has an open position")
    if is_in_progress(context.instance, MARKS_NOW.name):
        return dg.SkipReason("the previous run is in progress")
    return dg.RunRequest(tags=PROMPT)


JOBS = (WEEKS, EVIDENCE, AGENTS, MARKS, MARKS_NOW, BOOKS)
SCHEDULES = (make_decisions, mark_positions, update_books)
SENSORS = (poll_markets, reconstruct_marks)


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets, jobs, schedules, sensors and resources of the arena."""
    return dg.Definitions(
        assets=dg.load_assets_from_modules([assets]),
        jobs=JOBS,
        schedules=SCHEDULES,
        sensors=SENSORS,
        resources={"arena": ArenaResource.of(config)},
    )
