"""Jobs that publish the warehouse, build the site and validate the tables, and the sensors and the schedule that request them.

Concept: https://docs.dagster.io/guides/automate
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

import dagster as dg

from assets.summary import assets
from bellwether.errors import LakeError
from bellwether.lake.warehouse import publication_time, tables_written_since
from bellwether.settings import Settings, settings
from orchestration.asset_declarations import select
from orchestration.orphaned_runs import is_in_progress, running_commands
from orchestration.run_priority import AUTOMATIC
from resources import LakeResource, WarehouseResource

#: The published DuckDB file.
PUBLISH = dg.define_asset_job("publish", select("summary/warehouse"), description="Publish the warehouse.")

#: The static site.
SITE = dg.define_asset_job("site", select("summary/site"), description="Build the static site of the warehouse.")

#: Great Expectations over the published tables.
DATA_DOCS = dg.define_asset_job("data_docs", select("summary/data_docs"), description="Validate the published tables and build Data Docs.")


#: Minimum time between publications of frequently written tables, or while a command is running.
_OFTEN = timedelta(hours=1)
#: Names this process in the cursors of the sensors.
_PROCESS = secrets.token_hex(4)


@dg.sensor(
    job=PUBLISH,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Publishes the warehouse when the lake has changed.",
)
def publish_warehouse(
    context: dg.SensorEvaluationContext, lake: LakeResource, warehouse: WarehouseResource
) -> dg.RunRequest | dg.SkipReason:
    """Request a publication if the lake has changed since the latest one.

    The first run of a day and of a process removes superseded files. A failed publication is retried the next day, or after a change.
    """
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    first = context.cursor != f"{today} {_PROCESS}"
    published_at = publication_time(warehouse.database)
    written = tables_written_since(lake.lake, warehouse.database)
    if not written:
        context.update_cursor(f"{today} {_PROCESS}")
        return dg.SkipReason("the warehouse is up to date")
    if not first and all(declared.often for declared in written) and _is_recent(published_at):
        return dg.SkipReason("only frequently written tables have changed; they are published once an hour")
    if why := _wait_reason(context.instance, PUBLISH.name, published_at):
        return dg.SkipReason(why)
    config = {"ops": {"summary__warehouse": {"config": {"vacuum": first}}}}
    return dg.RunRequest(run_key=f"{lake.lake.catalog.head()}@{today}", run_config=config, tags=AUTOMATIC)


@dg.sensor(
    job=SITE,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Rebuilds the static site after a publication.",
)
def build_site(context: dg.SensorEvaluationContext, warehouse: WarehouseResource) -> dg.RunRequest | dg.SkipReason:
    """Request a build of the site if a site exists and is out of date.

    The first site is built on request only. A failed build is retried the next day, or after the next publication.
    """
    from bellwether.site import read_site_state, read_warehouse_state

    mark = f"{warehouse.database} {publication_time(warehouse.database)} {_PROCESS}"
    if context.cursor == mark:
        return dg.SkipReason("the site is up to date")
    built = read_site_state(settings().site_path)
    if built is None:
        return dg.SkipReason("no site has been built; materialize summary/site or run bellwether site")
    try:
        state = read_warehouse_state(warehouse.database)
    except LakeError as error:
        return dg.SkipReason(str(error))
    if state == built:
        context.update_cursor(mark)
        return dg.SkipReason("the site is up to date")
    if why := _wait_reason(context.instance, SITE.name, publication_time(warehouse.database)):
        return dg.SkipReason(why)
    return dg.RunRequest(run_key=f"{state}@{datetime.now(UTC):%Y-%m-%d}", tags=AUTOMATIC)


@dg.schedule(
    job=DATA_DOCS,
    cron_schedule="40 3 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every day at 03:40 UTC: validates the published tables with Great Expectations.",
)
def validate_warehouse(context: dg.ScheduleEvaluationContext, warehouse: WarehouseResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run that validates the published tables; skip if no warehouse is published."""
    return dg.RunRequest(tags=AUTOMATIC) if publication_time(warehouse.database) else dg.SkipReason("nothing is published")


def _is_recent(published: datetime | None) -> bool:
    return published is not None and datetime.now(UTC) - published < _OFTEN


def _wait_reason(instance: dg.DagsterInstance, job: str, published: datetime | None) -> str | None:
    """Return why a run of `job` must wait (another run of the job, or a running command); None if it need not wait.

    published: time of the last publication, UTC.
    """
    if is_in_progress(instance, job):
        return f"a run of {job} is in progress; later changes follow with the next one"
    if running_commands(instance) and _is_recent(published):
        return "a command is running and publishes its results; remaining changes follow when it ends, or once an hour"
    return None


def definitions(config: Settings) -> dg.Definitions:
    """Build the assets, jobs, schedule and sensors of the warehouse."""
    return dg.Definitions(
        assets=dg.load_assets_from_modules([assets]),
        jobs=[PUBLISH, SITE, DATA_DOCS],
        schedules=[validate_warehouse],
        sensors=[publish_warehouse, build_site],
    )
