"""A condition that no update escapes: a partition is out of date when something that it is made from has changed since the run began that made it.

Conditions that count updates between two ticks lose those that land while a run is under way. This one compares what is stored. What was made again
with the same rows has not changed.
Not here: which tables it holds for (automation.py).
Concept: https://docs.dagster.io/guides/automate/declarative-automation
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary

import dagster as dg

from orchestration.freshness import data_version
from orchestration.partitions import PARTITION

#: Updates and failed runs that are read at once.
_PAGE = 100
#: So many partitions of an input are asked for by name; updates of more are read and chosen from.
_FEW = 20
#: By how much the stored creation of a run may lie before the real one.
_COARSE = timedelta(seconds=2)
#: Runs of a partition that may fail in a row for the same inputs where nothing else is said.
MOST_ATTEMPTS = 3
#: Time after a failure before the next attempt, doubled with each.
BACK_OFF = timedelta(minutes=5)


class OutOfDate(dg.AutomationCondition):
    """True for partitions of which some input has changed after the start of the run that materialized them last, or that lack.

    ignored: inputs that make nothing out of date. attempts: how often runs of a partition may fail in a row for the same inputs, with growing pauses,
    before it waits for a change or for a person.
    """

    def __init__(self, ignored: Collection[dg.AssetKey] = (), attempts: int = MOST_ATTEMPTS) -> None:
        self._ignored, self._attempts = frozenset(ignored), attempts

    @property
    def name(self) -> str:
        """How it is shown in the UI."""
        return "is out of date"

    def get_node_unique_id(self, **place: Any) -> str:
        """What tells its results apart from those of other conditions."""
        return f"{super().get_node_unique_id(**place)}-{self._attempts}-{'-'.join(sorted(map(str, self._ignored)))}"

    def evaluate(self, context: dg.AutomationContext) -> dg.AutomationResult:
        """Those of the candidates that are out of date and may be tried now."""
        view, candidates = context.asset_graph_view, context.candidate_subset
        if context.partitions_def is None:
            due = not candidates.is_empty and self._is_due(context, None)
            return dg.AutomationResult(context, true_subset=candidates if due else view.get_empty_subset(key=context.key))
        keys = {key for key in candidates.expensively_compute_partition_keys() if self._is_due(context, key)}
        return dg.AutomationResult(context, true_subset=candidates.compute_intersection_with_partition_keys(keys))

    def _is_due(self, context: dg.AutomationContext, partition: str | None) -> bool:
        instance = context.asset_graph_view.instance
        made = _latest(instance, context.key, partition)
        created = 0.0
        if made is not None:
            run = instance.get_run_record_by_id(made.run_id) if made.run_id else None
            created = _began(run) if run else made.timestamp
        parents = sorted(context.asset_graph.get(context.key).parent_keys - self._ignored)
        newest = max((_newest(context, parent, partition, created, made) for parent in parents), default=0.0)
        return newest > created and self._may_try(context, partition, max(newest, created))

    def _may_try(self, context: dg.AutomationContext, partition: str | None, since: float) -> bool:
        """Whether the attempts that have failed since the newest input leave another one, and the last is long enough ago."""
        failed = _failures(context, partition, since)
        if not failed:
            return True
        pause = BACK_OFF * 2 ** (len(failed) - 1)
        return len(failed) < self._attempts and context.evaluation_time.timestamp() >= max(failed) + pause.total_seconds()


def _began(run: dg.RunRecord) -> float:
    """When a run began to execute: what landed before was there for it to read. SQLite keeps its creation in whole seconds only."""
    return run.start_time or run.create_timestamp.timestamp()


def _latest(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None) -> dg.EventLogRecord | None:
    wanted = dg.AssetRecordsFilter(key, asset_partitions=None if partition is None else [partition])
    return next(iter(instance.fetch_materializations(wanted, limit=1).records), None)


def _newest(
    context: dg.AutomationContext, parent: dg.AssetKey, partition: str | None, after: float, made: dg.EventLogRecord | None
) -> float:
    """When an input changed last, after an instant and by another run than the one that made the partition; 0 if it did not.

    Every materialization since is compared with what was there before: rows that changed and changed back may have been read in between.
    """
    view = context.asset_graph_view
    own = view.get_full_subset(key=context.key)
    if partition is not None:
        own = own.compute_intersection_with_partition_keys({partition})
    inputs = view.compute_parent_subset(parent, own)
    keys = inputs.expensively_compute_partition_keys() if inputs.partitions_def is not None else None
    few = sorted(keys) if keys is not None and len(keys) <= _FEW else None
    wanted, cursor = dg.AssetRecordsFilter(parent, asset_partitions=few, after_timestamp=after), None
    while True:
        page = view.instance.fetch_materializations(wanted, limit=_PAGE, cursor=cursor)
        for record in page.records:  # the newest first
            is_own = made is not None and made.run_id and record.run_id == made.run_id
            if is_own or not (keys is None or record.partition_key in keys):
                continue
            if (
                made is None
                or data_version(record) is None
                or data_version(record) != _read(view.instance, parent, record.partition_key, after, made)
            ):
                return record.timestamp
        if not page.has_more:
            return 0.0
        cursor = page.cursor


def _read(instance: dg.DagsterInstance, parent: dg.AssetKey, partition: str | None, began: float, made: dg.EventLogRecord) -> str | None:
    """The data version of an input that the run read that made a partition: its own, else the last before it began. None where nobody stated one."""
    parts = None if partition is None else [partition]
    during = dg.AssetRecordsFilter(parent, asset_partitions=parts, after_timestamp=began, before_timestamp=made.timestamp)
    for record in instance.fetch_materializations(during, limit=_PAGE).records:
        if made.run_id and record.run_id == made.run_id:
            return data_version(record)
    before = dg.AssetRecordsFilter(parent, asset_partitions=parts, before_timestamp=began)
    return next((data_version(record) for record in instance.fetch_materializations(before, limit=1).records), None)


def _failures(context: dg.AutomationContext, partition: str | None, since: float) -> list[float]:
    """When runs of the partition failed that began after an instant, the last first."""
    view = context.asset_graph_view
    if view not in _FAILED:
        _FAILED[view] = _FailedRuns(view.instance)
    return [
        record.end_time or record.create_timestamp.timestamp()
        for record in _FAILED[view].created_after(datetime.fromtimestamp(since, UTC) - _COARSE)
        if _began(record) > since
        and (partition is None or record.dagster_run.tags.get(PARTITION) == partition)
        and context.key in _FAILED[view].assets(record.dagster_run)
    ]


class _FailedRuns:
    """Failed runs of all assets, the last first: read once for all that is looked at in a tick, as far back as one of them asks."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._read: list[dg.RunRecord] = []
        self._planned: dict[str, Set[dg.AssetKey]] = {}
        self._is_whole = False

    def created_after(self, instant: datetime) -> Iterator[dg.RunRecord]:
        """Those that were created after an instant."""
        while not self._is_whole and not (self._read and self._read[-1].create_timestamp <= instant):
            cursor = self._read[-1].dagster_run.run_id if self._read else None
            filters = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])
            page = self._instance.get_run_records(filters=filters, limit=_PAGE, cursor=cursor)
            self._read += page
            self._is_whole = len(page) < _PAGE
        return takewhile(lambda record: record.create_timestamp > instant, self._read)

    def assets(self, run: dg.DagsterRun) -> Set[dg.AssetKey]:
        """The assets that a run was to make. A run of a whole job does not name them itself."""
        if run.asset_selection is not None:
            return run.asset_selection
        if run.run_id not in self._planned:
            planned = self._instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
            self._planned[run.run_id] = {record.asset_key for record in planned.records if record.asset_key is not None}
        return self._planned[run.run_id]


#: By tick: what Dagster looks through while it evaluates all conditions once.
_FAILED: WeakKeyDictionary[Any, _FailedRuns] = WeakKeyDictionary()
