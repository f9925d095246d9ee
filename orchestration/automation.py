"""Shared sensors: `update_tables`, which requests runs for outdated partitions, and the one that adds partitions for names in the registry.

Not here: staleness (bellwether/lake/staleness.py), registries (bellwether/domains.py) and schedules (definitions.py).
Concept: https://docs.dagster.io/guides/automate/sensors
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import dagster as dg

from bellwether import checks
from bellwether.domains import DOMAINS, resolve_reference
from bellwether.errors import QualityError
from bellwether.lake import Lake
from bellwether.lake.partitions import Partition
from bellwether.lake.staleness import Staleness, TableInputs, is_read
from bellwether.settings import settings
from bellwether.tables import TABLES, Table
from bellwether.tables.schema import external_table
from orchestration.asset_declarations import UpdatePolicy
from orchestration.orphaned_runs import UNFINISHED, is_orphan, running_commands
from orchestration.partitions import PARTITION, from_key, group_keys, keys_from_tags, range_tags, to_key
from orchestration.run_priority import AUTOMATIC
from resources import LakeResource

#: Time after a failure before the next attempt, doubled with each.
BACK_OFF = timedelta(minutes=5)
#: Tag of the sensor's runs: digest of the partitions and the versions of their inputs.
MADE_FROM = "bellwether/made_from"


def asset_recipe(graph: Any, key: dg.AssetKey) -> TableInputs:
    """Return what can make an asset outdated: the lake tables that it reads and the version of its code."""
    node = graph.get(key)
    inputs = sorted(name for parent in node.parent_keys if (name := "/".join(parent.path)) in TABLES and parent != key)
    return TableInputs(
        asset_table(graph, key),
        tuple(TABLES[name] for name in inputs),
        node.code_version,
    )


def asset_table(graph: Any, key: dg.AssetKey) -> Table:
    """Return the table declaration of an asset. For files outside the lake, the declaration has partition columns only."""
    name, definition = "/".join(key.path), graph.get(key).partitions_def
    if name in TABLES:
        return TABLES[name]
    return external_table(name, *([definition.name] if isinstance(definition, dg.DynamicPartitionsDefinition) and definition.name else []))


#: Whether rows break a blocking rule, by their digest.
_BLOCKED: dict[str, bool] = {}


@dataclass(frozen=True, slots=True)
class OutdatedPartition:
    """Outdated partition of an asset.

    made_from: text of the partition's current inputs and their versions. attempts: maximum of failed runs with these inputs.
    """

    key: dg.AssetKey
    partition: Partition
    made_from: str
    attempts: int


class UpdatePlan:
    """Plan of the next updates: outdated partitions, except those whose inputs are being changed by a run.

    runs: assets and tags of the runs in progress.
    """

    def __init__(
        self,
        graph: Any,
        lake: Lake,
        instance: dg.DagsterInstance,
        runs: Iterable[tuple[Iterable[dg.AssetKey], Mapping[str, str]]] = (),
    ) -> None:
        self._graph, self._instance, self._lake = graph, instance, lake
        self._state = Staleness(lake, settings().now().date())
        self._changing: dict[str, set[Partition]] = defaultdict(set)
        self._requested: dict[str, set[Partition]] = defaultdict(set)
        for keys, tags in runs:
            for key in keys:
                if graph.has(key):
                    self._changing["/".join(key.path)].update(self._partitions(key, tags))

    def due(self) -> list[OutdatedPartition]:
        """Return the partitions that can be updated now, upstream tables first."""
        return [
            partition
            for key in self._graph.toposorted_asset_keys
            if (follow := UpdatePolicy.of(self._graph.get(key).metadata))
            for partition in self._plan_asset(key, follow)
        ]

    def _plan_asset(self, key: dg.AssetKey, follow: UpdatePolicy) -> Iterator[OutdatedPartition]:
        """Yield the partitions of an asset that can be updated now. Those that must wait are noted as changing, so that downstream assets wait too."""
        recipe, candidates = asset_recipe(self._graph, key), self._partitions(key, {})
        candidates &= set(
            resolve_reference(follow.candidates)(self._state.stored_partitions(recipe.followed[0]))
            if follow.candidates
            else self._state.find_buildable(recipe)
        )
        due = set(self._state.find_outdated(recipe, candidates))
        for partition in sorted(candidates - self._changing[recipe.table.name]):
            waits = self._has_input(self._changing, recipe, partition) or self._has_input(self._requested, recipe, partition, apart=True)
            wanted = partition in due or self._has_input(self._requested, recipe, partition)
            if waits or (wanted and self._is_blocked(recipe, partition)):
                self._changing[recipe.table.name].add(partition)
            elif wanted:
                self._requested[recipe.table.name].add(partition)
                yield OutdatedPartition(key, partition, self._describe_inputs(recipe, partition), follow.attempts)

    def _is_blocked(self, recipe: TableInputs, partition: Partition) -> bool:
        """Return True if an input's partition of the same name breaks a blocking rule. Each file is checked only once per process."""
        for source in recipe.followed:
            manifest = (
                self._state.stored_partitions(source).get(partition) if source.partitioned_by == recipe.table.partitioned_by else None
            )
            if manifest is not None and manifest.digest not in _BLOCKED:
                try:
                    checks.require(source.name, self._lake.slice_from(source, {partition: manifest}).scan())
                    _BLOCKED[manifest.digest] = False
                except QualityError:
                    _BLOCKED[manifest.digest] = True
            if manifest is not None and _BLOCKED[manifest.digest]:
                return True
        return False

    def _has_input(self, among: Mapping[str, set[Partition]], recipe: TableInputs, partition: Partition, *, apart: bool = False) -> bool:
        """Return True if a partition reads any of the partitions in `among` (by table). apart: ignore tables partitioned like this asset, which the
        same run updates.
        """
        return any(
            is_read(recipe.table, partition, source, other)
            for source in recipe.followed
            if not (apart and source.partitioned_by == recipe.table.partitioned_by)
            for other in among[source.name]
        )

    def _partitions(self, key: dg.AssetKey, tags: Mapping[str, str]) -> set[Partition]:
        """Return the partitions of an asset that a run writes. tags: of the run."""
        table, definition = asset_table(self._graph, key), self._graph.get(key).partitions_def
        return {from_key(table, name) if definition else () for name in keys_from_tags(definition, tags, self._instance)}

    def _describe_inputs(self, recipe: TableInputs, partition: Partition) -> str:
        manifest = self._state.stored_partitions(recipe.table).get(partition)
        return f"{recipe.table.name} {partition} {manifest.run_id if manifest else ''} {sorted(self._state.versions(recipe, partition).items())}"


def run_requests(graph: Any, due: Iterable[OutdatedPartition], instance: dg.DagsterInstance, now: datetime) -> Iterator[dg.RunRequest]:
    """Yield run requests for outdated partitions, one per range of neighbouring partitions and set of assets that run together."""
    by_key: dict[tuple[tuple[str, ...], str], list[OutdatedPartition]] = defaultdict(list)
    for partition in due:
        table = asset_table(graph, partition.key)
        by_key[table.partitioned_by, to_key(table, partition.partition)].append(partition)
    together: dict[tuple[dg.AssetKey, ...], dict[str, list[OutdatedPartition]]] = defaultdict(dict)
    for (_, name), group_partitions in by_key.items():
        keys = tuple(sorted({key for partition in group_partitions for key in graph.get(partition.key).execution_set_asset_keys}))
        together[keys][name] = group_partitions
    for keys, by_name in together.items():
        node = graph.get(keys[0])
        for group in group_keys(node.partitions_def, by_name, instance, node.backfill_policy):
            group_partitions = [partition for name in group for partition in by_name[name]]
            yield from _run_request(keys, range_tags(group), group_partitions, instance, now)


def _run_request(
    keys: Iterable[dg.AssetKey], tags: Mapping[str, str], partitions: list[OutdatedPartition], instance: dg.DagsterInstance, now: datetime
) -> Iterator[dg.RunRequest]:
    """Yield one run request, or none if a run with the same inputs failed recently or too often. A request with the same inputs is repeated once a
    day at most.
    """
    digest = sha256("\n".join(sorted(partition.made_from for partition in partitions)).encode()).hexdigest()[:16]
    filters = dg.RunsFilter(tags={MADE_FROM: digest}, statuses=[dg.DagsterRunStatus.FAILURE])
    failed = [record.end_time or record.create_timestamp.timestamp() for record in instance.get_run_records(filters)]
    if len(failed) >= min(partition.attempts for partition in partitions):
        return
    if failed and now.timestamp() < max(failed) + (BACK_OFF * 2 ** (len(failed) - 1)).total_seconds():
        return
    yield dg.RunRequest(
        run_key=f"{digest}-{len(failed)}@{now:%Y-%m-%d}",
        asset_selection=list(keys),
        partition_key=tags.get(PARTITION),
        tags={**AUTOMATIC, MADE_FROM: digest, **tags},
    )


def _unfinished_runs(context: dg.SensorEvaluationContext) -> Iterator[tuple[Iterable[dg.AssetKey], Mapping[str, str]]]:
    """Yield assets and tags of each unfinished run, except those whose process was killed."""
    repository = context.repository_def
    assert repository is not None
    for run in context.instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)):
        if not is_orphan(context.instance, run):
            whole = repository.has_job(run.job_name) and repository.get_job(run.job_name).asset_layer.executable_asset_keys
            yield run.asset_selection or whole or (), run.tags


@dg.sensor(
    job_name="__ASSET_JOB",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Updates derived tables after changes of their inputs; models that cost money only if the settings name them.",
)
def update_tables(context: dg.SensorEvaluationContext, lake: LakeResource) -> list[dg.RunRequest] | dg.SkipReason:
    """Request runs for outdated partitions; none while a command is running."""
    assert context.repository_def is not None
    if running_commands(context.instance):
        return dg.SkipReason("a command is running; remaining updates follow when it ends")
    graph = context.repository_def.asset_graph
    due = UpdatePlan(graph, lake.lake, context.instance, _unfinished_runs(context)).due()
    if requests := list(run_requests(graph, due, context.instance, datetime.now(UTC))):
        return requests
    return dg.SkipReason(f"{len(due)} partitions are out of date and wait after failures" if due else "everything is up to date")


def find_missing(registered: Iterable[str], existing: Iterable[str]) -> list[str]:
    """Return the names in `registered` that are not in `existing`, in the order of `registered`."""
    have = set(existing)
    return [name for name in registered if name not in have]


def registered_partitions(instance: dg.DagsterInstance) -> list[dg.AddDynamicPartitionsRequest]:
    """Return requests that add a Dagster partition for each registered or stored name that has none. Partitions are never removed."""
    requests = []
    for domain in DOMAINS:
        for name, function in domain.partitions.items():
            new = find_missing(resolve_reference(function)(), instance.get_dynamic_partitions(name))
            if new:
                requests.append(dg.AddDynamicPartitionsRequest(name, new))
    return requests


#: Names of registered partitions, for users.
_REGISTERED = ", ".join(name for domain in DOMAINS for name in domain.partitions)


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=f"Adds partitions of names in the registry and in the lake: {_REGISTERED}.",
)
def add_partitions(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Add a partition for each registered or stored name that has none. If a registry cannot be read, the tick fails."""
    requests = registered_partitions(context.instance)
    if not requests:
        return dg.SkipReason(f"all registered names ({_REGISTERED}) have partitions")
    return dg.SensorResult(dynamic_partitions_requests=requests)


SENSORS = (add_partitions, update_tables)
