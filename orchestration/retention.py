"""Retention of Dagster's runs and of the stored pages of venues.

Dagster deletes old ticks (`retention` in `dagster.yaml`) and evaluations of conditions, but never runs. The daily job `prune` deletes finished runs older than
`BELLWETHER_KEEP_RUNS_DAYS`, except those that made the current version of a partition, without which the UI would show it as missing.

Not here: the lake's superseded files (`Lake.vacuum`).
Concept: https://docs.dagster.io/deployment/oss/dagster-yaml
"""

from datetime import UTC, datetime, timedelta

import dagster as dg

from bellwether.lake import Lake
from bellwether.settings import Venue, settings
from bellwether.tables import table
from resources import LakeResource

#: Statuses of runs that have ended.
FINISHED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
#: Time for which pages of superseded pulls are kept.
KEEP_SUPERSEDED = timedelta(days=7)
#: Events per query.
_PAGE = 500


def prune(instance: dg.DagsterInstance, keep: timedelta, now: datetime) -> list[str]:
    """Delete finished runs created before `now - keep`, with their events and captured output. Returns the ids of the deleted runs.

    Runs that wrote the latest materialization of a partition are kept.
    """
    old = {record.dagster_run.run_id for record in instance.get_run_records(dg.RunsFilter(statuses=FINISHED, created_before=now - keep))}
    superseded = sorted(old - _current_runs(instance)) if old else []
    for run_id in superseded:
        instance.delete_run(run_id)
        instance.compute_log_manager.delete_logs(prefix=[run_id])
    return superseded


def _current_runs(instance: dg.DagsterInstance) -> set[str]:
    """Return the ids of the runs that wrote the latest materialization of an asset or of one of its partitions."""
    runs: set[str] = set()
    for key in instance.get_asset_keys():
        latest = instance.fetch_materializations(key, limit=1).records
        by_partition = instance.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
        numbers = sorted({*by_partition.values(), *(record.storage_id for record in latest)})
        for first in range(0, len(numbers), _PAGE):
            wanted = dg.AssetRecordsFilter(key, storage_ids=numbers[first : first + _PAGE])
            runs |= {record.run_id for record in instance.fetch_materializations(wanted, limit=_PAGE).records}
    return runs


def prune_pages(lake: Lake) -> int:
    """Delete stored pages of pulls that newer pulls replaced at least a week ago, unless raw/<venue>_pulls names them. Returns the number of freed
    bytes.
    """
    from bellwether.venues.http.pages import PageStore

    freed = 0
    for venue in Venue:
        named = lake.slice(table(f"raw/{venue}_pulls"), missing="skip").scan().select("pull").collect()["pull"].to_list()
        freed += PageStore(lake.storage, venue).vacuum(KEEP_SUPERSEDED, datetime.now(UTC), keep=named).bytes
    return freed


@dg.op(description="Delete finished runs older than BELLWETHER_KEEP_RUNS_DAYS, and pages of superseded pulls.")
def prune_history(context: dg.OpExecutionContext, lake: LakeResource) -> None:
    """Prune this world's Dagster home and its stored pages."""
    keep = settings().keep_runs_days
    deleted = prune(context.instance, timedelta(days=keep), datetime.now(UTC))
    context.log.info(f"{len(deleted)} runs older than {keep} days deleted")
    context.log.info(f"pages of superseded pulls deleted, {prune_pages(lake.lake)} bytes freed")


@dg.job(
    name="prune",
    description="Delete old runs of Dagster and pages of superseded pulls, except runs that made the current version of a partition.",
    executor_def=dg.in_process_executor,
)
def PRUNE() -> None:
    """Delete old runs and pages."""
    prune_history()
