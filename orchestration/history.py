"""Keeps Dagster's history and the stored pages small: finished runs are compressed, and what is older than the retention is removed.

A run's events, logs and record are kept for `BELLWETHER_KEEP_RUNS_DAYS`, as are evaluations of automation conditions and what ticks log; when and by
which run each partition was last made, and the last result of each check, are kept for ever: what is out of date is judged by them. Ticks have a
retention of their own (`dagster.yaml`).

Not here: how events are stored (event_log.py, event_archive.py) or the lake's superseded files (`Lake.vacuum`).
Concept: https://docs.dagster.io/deployment/oss/dagster-yaml
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import dagster as dg
from dagster._core.storage.dagster_run import FINISHED_STATUSES

from bellwether.lake import Lake
from bellwether.settings import Venue, settings
from bellwether.tables import table
from orchestration.orphans import remove_stale_locks
from resources import LakeResource

if TYPE_CHECKING:
    from orchestration.event_log import EventLog

#: A run that another process executes may still get events for so long after its end.
GRACE = timedelta(minutes=10)
_AT_ONCE = 200
#: Superseded pulls stay for so long, as superseded files of tables do.
KEEP_SUPERSEDED = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune did: runs compressed, runs removed, bytes of DAGSTER_HOME that it freed."""

    compressed: int
    removed: int
    bytes: int


def compress(instance: dg.DagsterInstance, run_ids: Iterable[str]) -> None:
    """Compress runs that have ended and remove their captured output where it is empty. Nothing happens in another event storage."""
    log = _event_log(instance)
    if log is None:
        return
    for run_id in run_ids:
        log.archive(run_id)
        output = _output(instance, run_id)
        if not any(path.stat().st_size for path in output.rglob("*") if path.is_file()):
            shutil.rmtree(output, ignore_errors=True)


def prune(instance: dg.DagsterInstance, keep: timedelta, now: datetime) -> Pruned:
    """Compress the runs that have ended, and remove those that were created before `now - keep`. Does nothing in another event storage."""
    log = _event_log(instance)
    if log is None:
        return Pruned(0, 0, 0)
    before = _size(instance)
    ended = compress_ended(instance, now)
    old = _older(instance, now - keep)
    for some in _batches([*old, *_deleted(instance, log, now - GRACE)]):
        log.forget(some)
        for run_id in some:
            instance.run_storage.delete_run(run_id)
            shutil.rmtree(_output(instance, run_id), ignore_errors=True)
    if instance.schedule_storage is not None:
        instance.schedule_storage.purge_asset_evaluations((now - keep).timestamp())
    for path in Path(instance.storage_directory()).glob("__repository__*/*/*.err"):  # what ticks logged
        if _modified(path) < (now - keep).timestamp():
            path.unlink(missing_ok=True)
    remove_stale_locks(instance)
    return Pruned(ended, len(old), max(0, before - _size(instance)))


def compress_ended(instance: dg.DagsterInstance, now: datetime, most: int | None = None) -> int:
    """Compress the runs that ended `GRACE` ago, `most` of them. Returns how many; none in another event storage."""
    log = _event_log(instance)
    if log is None:
        return 0
    loose = [run_id for run_id in log.get_all_run_ids() if not log.is_archived(run_id)]
    ended = [run_id for some in _batches(loose) for run_id in _ended(instance, some, now - GRACE)][:most]
    compress(instance, ended)
    return len(ended)


def prune_pages(lake: Lake) -> int:
    """Delete the pages of pulls that were superseded a week ago and that no row of raw/<venue>_pulls names. Returns bytes freed."""
    from bellwether.venues.http.pages import PageStore

    freed = 0
    for venue in Venue:
        named = lake.slice(table(f"raw/{venue}_pulls"), missing="skip").scan().select("pull").collect()["pull"].to_list()
        freed += PageStore(lake.storage, venue).vacuum(KEEP_SUPERSEDED, datetime.now(UTC), keep=named).bytes
    return freed


@dg.op(description="Compress finished runs; remove those older than BELLWETHER_KEEP_RUNS_DAYS, and pages of superseded pulls.")
def prune_history(context: dg.OpExecutionContext, lake: LakeResource) -> None:
    """Prune this world's Dagster home and its stored pages."""
    keep = settings().keep_runs_days
    pruned = prune(context.instance, timedelta(days=keep), datetime.now(UTC))
    context.log.info(
        f"{pruned.compressed} runs compressed, {pruned.removed} runs older than {keep} days removed, {pruned.bytes} bytes freed"
    )
    context.log.info(f"pages of superseded pulls removed, {prune_pages(lake.lake)} bytes freed")


@dg.job(
    name="prune",
    description="Compress Dagster's finished runs, remove old ones and the pages of superseded pulls; what was last made, and when, stays known.",
    executor_def=dg.in_process_executor,
)
def PRUNE() -> None:
    """One step."""
    prune_history()


def _event_log(instance: dg.DagsterInstance) -> "EventLog | None":
    """The platform's event storage; None where the instance has another."""
    # Dagster's SQL storages are slow to import, and the code location does not need them.
    from orchestration.event_log import EventLog

    log = instance.event_log_storage
    return log if isinstance(log, EventLog) else None


def _ended(instance: dg.DagsterInstance, run_ids: Sequence[str], before: datetime) -> list[str]:
    records = instance.get_run_records(dg.RunsFilter(run_ids=list(run_ids), statuses=list(FINISHED_STATUSES)))
    return [record.dagster_run.run_id for record in records if (record.end_time or 0.0) < before.timestamp()]


def _older(instance: dg.DagsterInstance, before: datetime) -> list[str]:
    wanted = dg.RunsFilter(statuses=list(FINISHED_STATUSES), created_before=before)
    return [record.dagster_run.run_id for record in instance.get_run_records(wanted)]


def _deleted(instance: dg.DagsterInstance, log: "EventLog", before: datetime) -> list[str]:
    """Runs without a record that have left events or output: a person has deleted them. A run that starts has its record first."""
    left = {run_id: Path(log.path_for_shard(run_id)) for run_id in log.get_all_run_ids()}
    left |= {path.name: path for path in Path(instance.storage_directory()).glob("*") if _is_run_id(path.name)}
    known = {
        record.dagster_run.run_id
        for some in _batches(sorted(left))
        for record in instance.get_run_records(dg.RunsFilter(run_ids=list(some)))
    }
    return sorted(run_id for run_id, path in left.items() if run_id not in known and _modified(path) < before.timestamp())


def _is_run_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def _modified(path: Path) -> float:
    """When a run's file or folder was last written, 0 for a compressed file: its run has ended."""
    return path.stat().st_mtime if path.exists() else 0.0


def _batches(run_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (run_ids[first : first + _AT_ONCE] for first in range(0, len(run_ids), _AT_ONCE))


def _output(instance: dg.DagsterInstance, run_id: str) -> Path:
    """Where Dagster's local manager puts what the steps of a run print."""
    return Path(instance.storage_directory()) / run_id


def _size(instance: dg.DagsterInstance) -> int:
    """Bytes below DAGSTER_HOME, without logs of writes to the list of runs: closing the file folds them into it."""
    instance.run_storage.dispose()
    return sum(path.stat().st_size for path in Path(instance.root_directory).rglob("*") if path.is_file())
