"""Jobs that pull, clean and check data of the venues, and the schedules and the sensor that request them.

Concept: https://docs.dagster.io/guides/automate
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import date, datetime, timedelta

import dagster as dg
import polars as pl

from assets.clean import assets as clean
from assets.clean.assets import CLEAN_TABLES
from assets.raw import assets as raw
from assets.raw.assets import ARCHIVE_TABLES, DAY_TABLES, RECORDING, RECORDING_TABLES, SERIES_TABLES
from bellwether.errors import LakeError
from bellwether.lake import Lake
from bellwether.recordings.recording import RecordingStatus
from bellwether.settings import Settings, Venue, settings
from bellwether.tables import table
from bellwether.tables.raw import KALSHI_PULLS, KALSHI_SERIES, POLYMARKET_PULLS
from bellwether.tables.schema import WEEKLY
from bellwether.venues.wire.rejects import PATIENCE
from orchestration.asset_declarations import select
from orchestration.automation import find_missing
from orchestration.checks import LAKE_CHECKS
from orchestration.partitions import DAY
from orchestration.run_priority import AUTOMATIC
from resources import LakeResource
from resources.recordings import RecordingsResource
from resources.venues import KalshiVenue, PolymarketVenue, WorldResource

#: The list of series, which belongs to no day.
SERIES = dg.define_asset_job("series", select(*SERIES_TABLES), description="Pull the list of series.")
#: Markets at the historical endpoints of the venue, for days before its cutoff.
ARCHIVE = dg.define_asset_job("archive", select(*ARCHIVE_TABLES), description="Scan the venue's archive of settled markets.")
#: A day from pull to checked clean rows.
DAYS = dg.define_asset_job(
    "days", select(*DAY_TABLES, *CLEAN_TABLES) - LAKE_CHECKS, description="Pull, clean and check UTC days of all venues."
)
#: The same with the list of series, if none is stored.
DAILY = dg.define_asset_job(
    "daily",
    select(*SERIES_TABLES, *DAY_TABLES, *CLEAN_TABLES) - LAKE_CHECKS,
    description="Pull, clean and check a UTC day of all venues, with the list of series if none is stored.",
)
#: A recording of a stream.
RECORDINGS = dg.define_asset_job("recordings", select(*RECORDING_TABLES), description="Store a recording and its gap report in the lake.")

JOBS = (SERIES, ARCHIVE, DAYS, DAILY, RECORDINGS)


#: Age of a day from which it is no longer pulled automatically.
LONGEST = timedelta(days=730)
_WEEK = 7
#: Tag that Dagster gives the runs of the schedule `pull_days`.
CLOCK = {"dagster/schedule_name": "pull_days"}


def days_to_pull(today: date, final: Collection[date], followed: Collection[date]) -> list[date]:
    """Return the days to pull today, oldest first: yesterday, and earlier days within `PATIENCE` (45 days) that are not `final`.

    final: days whose data is final. followed: days that were pulled or requested. Days before the first of them are left out.
    """
    yesterday = today - timedelta(days=1)
    first = max(min(followed, default=yesterday), today - PATIENCE)
    days = (first + timedelta(days=offset) for offset in range((yesterday - first).days + 1))
    return [day for day in days if day not in final or day == yesterday]


def final_days(lake: LakeResource, today: date, venues: Collection[Venue]) -> set[date]:
    """Return the days within `PATIENCE` whose data is final on all venues."""
    recent = [((today - timedelta(days=back)).isoformat(),) for back in range(1, PATIENCE.days + 1)]
    days_by_venue = []
    for venue in venues:
        rows = lake.lake.slice(_PULLS[venue], recent, missing="skip").scan().select("day", "final").collect()
        days_by_venue.append(set(rows.filter("final")["day"]))
    return set.intersection(*days_by_venue) if days_by_venue else set()


def old_days(lake: LakeResource, today: date, venues: Collection[Venue]) -> list[date]:
    """Return the days before `PATIENCE` with open markets that are pulled today, oldest first. Each such day is pulled once a week."""
    ages = range(PATIENCE.days + 1, LONGEST.days + 1)
    return find_open_days(lake.lake, [today - timedelta(days=age) for age in ages if age % _WEEK == 0], venues)


def find_open_days(lake: Lake, days: Iterable[date], venues: Collection[Venue], pulled_before: datetime | None = None) -> list[date]:
    """Return those of the `days` whose last pull was not final on a venue, oldest first. pulled_before: leave out pulls at this time (UTC) or later."""
    names = [(day.isoformat(),) for day in days]
    is_open = ~pl.col("final") if pulled_before is None else ~pl.col("final") & (pl.col("known_at") < pulled_before)
    pulls = [lake.slice(_PULLS[venue], names, missing="skip").scan() for venue in venues]
    return sorted({day for rows in pulls for day in rows.filter(is_open).select("day").collect()["day"]})


def followed_days(lake: LakeResource, instance: dg.DagsterInstance, today: date) -> set[date]:
    """Return the days within `PATIENCE` that are in the lake, or that the schedule has already requested."""
    pulled = {partition[0] for declared in _PULLS.values() for partition in lake.lake.manifests(declared)}
    runs = instance.get_run_records(dg.RunsFilter(tags=CLOCK), limit=1000)
    pulled |= {record.dagster_run.tags.get("dagster/partition", "") for record in runs}
    return {day for text in pulled if text and (day := date.fromisoformat(text)) >= today - PATIENCE}


_REFRESH = {"config": {"refresh": True}}
_PULLS = {Venue.KALSHI: KALSHI_PULLS, Venue.POLYMARKET: POLYMARKET_PULLS}


@dg.schedule(
    job=DAILY,
    cron_schedule="20 1 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 01:20 UTC: pulls yesterday's markets, and days of the last 45 that are not final; older days with open markets weekly.",
)
def pull_days(context: dg.ScheduleEvaluationContext, lake: LakeResource) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Request one run for each day that is to be pulled. Days that this world does not have are skipped."""
    tick = context.scheduled_execution_time
    existing, today = set(DAY.get_partition_keys()), tick.date()
    final, followed = final_days(lake, today, settings().venues), followed_days(lake, context.instance, today)
    is_clock_fixed = today - settings().now().date() > timedelta(days=1)
    old = [] if is_clock_fixed else old_days(lake, today, settings().venues)
    wanted = [day.isoformat() for day in (*old, *days_to_pull(today, final, followed))]
    days = [day for day in wanted if day in existing]
    if not days:
        yield dg.SkipReason(f"days outside this world: {', '.join(wanted)}")
    series = lake.lake.manifest(KALSHI_SERIES, ())
    is_late = series is not None and tick - series.written_at > WEEKLY
    for number, day in enumerate(days):
        config = {"raw__kalshi_series": _REFRESH} if is_late and number == 0 else {}
        yield dg.RunRequest(run_key=f"{day}@{tick:%Y-%m-%d}", partition_key=day, run_config={"ops": config}, tags=AUTOMATIC)


@dg.schedule(
    job=SERIES,
    cron_schedule="40 0 * * 1",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every Monday at 00:40 UTC: pulls the list of series with categories and fees.",
)
def pull_series(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """Request a run that pulls the list of series, even if a stored list is recent."""
    return dg.RunRequest(
        run_key=f"{context.scheduled_execution_time:%Y-%m-%d}",
        run_config={"ops": {"raw__kalshi_series": _REFRESH}},
        tags=AUTOMATIC,
    )


@dg.sensor(
    job=RECORDINGS,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Stores every finished recording in the lake. An aborted one becomes a partition, which an operator can materialize.",
)
def import_recordings(
    context: dg.SensorEvaluationContext, recordings: RecordingsResource, lake: LakeResource
) -> dg.SensorResult | dg.SkipReason:
    """Add a partition for each recording that is no longer written (finished or interrupted), and request a run for each finished one not in the
    lake.
    """
    ended = {}
    stored = {partition[0]: manifest.rows for partition, manifest in lake.lake.manifests(table("raw/recordings")).items()}
    for recording in recordings.all():
        try:
            if recording.status is not RecordingStatus.RECORDING:
                ended[recording.name] = recording.done
        except LakeError as error:
            context.log.warning(f"left out: {error}")
    new = find_missing(ended, context.instance.get_dynamic_partitions(str(RECORDING.name)))
    runs = [
        dg.RunRequest(run_key=f"{name}@{summary['ended_at']}@{summary['frames']}", partition_key=name, tags=AUTOMATIC)
        for name, summary in ended.items()
        if summary is not None and stored.get(name) != summary["frames"]
    ]
    if not runs and not new:
        return dg.SkipReason("the lake has every finished recording")
    return dg.SensorResult(run_requests=runs, dynamic_partitions_requests=[RECORDING.build_add_request(new)] if new else [])


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets, jobs, schedules, sensors and resources of the venues."""
    world = WorldResource.of(config)
    sample = {"candle_days": config.candle_days, "candle_markets": config.candle_markets}
    return dg.Definitions(
        assets=dg.load_assets_from_modules([raw, clean]),
        jobs=JOBS,
        schedules=(pull_days, pull_series),
        sensors=(import_recordings,),
        resources={
            "recordings": RecordingsResource(path=str(config.recordings_path)),
            "kalshi": KalshiVenue(
                world=world, asked=Venue.KALSHI in config.venues, tokens_per_second=config.kalshi_tokens_per_second, **sample
            ),
            "polymarket": PolymarketVenue(world=world, asked=Venue.POLYMARKET in config.venues, **sample),
        },
    )
