"""Sensors: what is registered, and finished recordings and their episodes, become partitions; derived tables follow their inputs.

Not here: the registry itself (bellwether/registry) or the conditions (automation.py).
Concept: https://docs.dagster.io/guides/automate/sensors
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256

import dagster as dg

from bellwether.errors import LakeError
from bellwether.lake.warehouse import current_files, named_files, written_since
from bellwether.settings import settings
from bellwether.tables import TABLES, Table, table
from orchestration.jobs import EPISODES, PUBLISH, RECORDINGS
from orchestration.orphans import of_killed_processes
from orchestration.partitions import AGENT, EPISODE, FORECASTER, RECORDING, RELEASE
from orchestration.precedence import AUTOMATIC
from resources import LakeResource, WarehouseResource
from resources.recordings import RecordingsResource


def missing(registered: Iterable[str], existing: Iterable[str]) -> list[str]:
    """Registered names that are no partition yet, in the registry's order. Nothing is ever removed: a run may hold it."""
    have = set(existing)
    return [name for name in registered if name not in have]


def registered_partitions(instance: dg.DagsterInstance) -> list[dg.AddDynamicPartitionsRequest]:
    """Requests for every forecaster and agent, and every release of this world, that is registered and that Dagster does not know yet."""
    from bellwether.forecasting import available
    from bellwether.questions import releases
    from bellwether.replay.agents.registry import agents

    here = [name for name, release in releases().items() if settings().world in release.worlds]
    requests = []
    for definition, names in ((RELEASE, here), (FORECASTER, list(available())), (AGENT, list(agents()))):
        new = missing(names, instance.get_dynamic_partitions(str(definition.name)))
        if new:
            requests.append(definition.build_add_request(new))
    return requests


def keys_missing() -> dict[str, str]:
    """Forecasters of this world that cannot be asked, with what is missing."""
    from bellwether.forecasting import available
    from bellwether.forecasting.language_model import LanguageModel
    from bellwether.models.keys import status

    models = {name: status(entry.model) for name, entry in available().items() if isinstance(entry, LanguageModel)}
    return {name: str(found) for name, found in models.items() if not found.is_ready}


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Adds every forecaster and agent, and every release of this world, from the registry to the partitions.",
)
def registry(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Add what the registry has and the partitions lack; a registry that cannot be read fails the tick and changes nothing."""
    requests = registered_partitions(context.instance)
    if not requests:
        lacking = keys_missing()
        marked = f". Cannot be asked yet: {', '.join(f'{name} ({why})' for name, why in lacking.items())}" if lacking else ""
        return dg.SkipReason(f"every registered release, forecaster and agent is a partition{marked}")
    return dg.SensorResult(dynamic_partitions_requests=requests)


_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
#: Names this process in the publisher's cursor.
_PROCESS = secrets.token_hex(4)
#: Marks of the lake's tables that were written to and yet hold the files that are published, by the published file.
_equal: dict[tuple[str, int], dict[str, str | None]] = {}


def publication_key(current: frozenset[str], published: frozenset[str]) -> str | None:
    """A key of the state to publish, the same for the same files; None when it is published already.

    Every write of a partition makes a file of a new name, so that equal sets mean equal contents.
    """
    return None if current == published else sha256("\n".join(sorted(current)).encode()).hexdigest()[:16]


@dg.sensor(
    job=PUBLISH,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Publishes the warehouse when it does not show the lake as it is; many changes at once are one publication.",
)
def publisher(context: dg.SensorEvaluationContext, lake: LakeResource, warehouse: WarehouseResource) -> dg.RunRequest | dg.SkipReason:
    """One run for a state that is not published. Updates that race with a publication are seen at the next tick, whatever their order.

    A tick looks at the tables that were written since the publication; the first of a day, and of a process, at all of them.
    A state whose publication failed is tried again the next day, or when anything changes.
    """
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    complete = context.cursor != f"{today} {_PROCESS}"
    published = (warehouse.path, _modified(warehouse.path))
    marks = {name: lake.lake.storage.mark(name) for name in TABLES}
    written = written_since(lake.lake, warehouse.path)
    if not complete and (not written or (None not in marks.values() and marks == _equal.get(published))):
        return dg.SkipReason("the published warehouse shows the lake as it is")
    looked = list(TABLES.values()) if complete else written
    key = publication_key(current_files(lake.lake, looked), _published(warehouse.path, looked))
    if key is None:
        _equal.clear()
        _equal[published] = marks
        context.update_cursor(f"{today} {_PROCESS}")
        return dg.SkipReason("the published warehouse shows the lake as it is")
    if _is_publishing(context.instance):
        return dg.SkipReason("a publication is under way; what it does not show is published after it")
    config = {"ops": {"summary__warehouse": {"config": {"complete": complete}}}}
    return dg.RunRequest(run_key=f"{key}@{today}", run_config=config, tags=AUTOMATIC)


def _published(path: str, tables: list[Table]) -> frozenset[str]:
    """The files that the warehouse covers; none when it cannot be read, or another version of the code has published it."""
    try:
        return named_files(path, tables)
    except LakeError:
        return frozenset()


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return 0


def _is_publishing(instance: dg.DagsterInstance) -> bool:
    """Whether a publication waits or runs; one whose process was killed does not."""
    is_killed = of_killed_processes(instance)
    return any(not is_killed(run) for run in instance.get_runs(dg.RunsFilter(job_name=PUBLISH.name, statuses=_UNFINISHED)))


@dg.sensor(
    job=RECORDINGS,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Takes every finished recording into the lake; one that was broken off becomes a partition and waits for a person.",
)
def finished_recordings(
    context: dg.SensorEvaluationContext, recordings: RecordingsResource, lake: LakeResource
) -> dg.SensorResult | dg.SkipReason:
    """A partition per recording that nobody is writing, and a run per one that is finished and not in the lake with all its frames."""
    from bellwether.recordings.recording import Status

    ended = {}
    stored = {partition[0]: manifest.rows for partition, manifest in lake.lake.manifests(table("raw/recordings")).items()}
    for found in recordings.all():
        try:
            if found.status is not Status.RECORDING:
                ended[found.name] = found.done
        except LakeError as error:
            context.log.warning(f"left out: {error}")
    new = missing(ended, context.instance.get_dynamic_partitions(str(RECORDING.name)))
    runs = [
        dg.RunRequest(run_key=f"{name}@{done['ended_at']}@{done['frames']}", partition_key=name, tags=AUTOMATIC)
        for name, done in ended.items()
        if done is not None and stored.get(name) != done["frames"]
    ]
    if not runs and not new:
        return dg.SkipReason("the lake has every finished recording")
    return dg.SensorResult(run_requests=runs, dynamic_partitions_requests=[RECORDING.build_add_request(new)] if new else [])


@dg.sensor(
    job=EPISODES,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Makes the episodes of every recording that the lake has, and those without a result again when more is known.",
)
def recorded_episodes(
    context: dg.SensorEvaluationContext, recordings: RecordingsResource, lake: LakeResource
) -> dg.SensorResult | dg.SkipReason:
    """A partition per episode that a finished recording holds, and a run per one that was not made from what the lake has now."""
    from bellwether.replay.building.sources import outdated_episodes

    held = {name: found.name for name, (found, _) in recordings.episodes().items()}
    due = outdated_episodes(lake.lake, held)
    new = missing(due, context.instance.get_dynamic_partitions(str(EPISODE.name)))
    if not due:
        return dg.SkipReason("every episode of the recordings in the lake is made from what the lake has")
    return dg.SensorResult(
        run_requests=[dg.RunRequest(run_key=f"{name}@{sources}", partition_key=name, tags=AUTOMATIC) for name, sources in due.items()],
        dynamic_partitions_requests=[EPISODE.build_add_request(new)] if new else [],
    )


automation = dg.AutomationConditionSensorDefinition(
    "automation",
    target=dg.AssetSelection.all(),
    run_tags=AUTOMATIC,
    use_user_code_server=True,  # one of the conditions is ours
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Lets derived tables follow what they are made from; models that cost money only where the settings name them.",
)

SENSORS = (registry, finished_recordings, recorded_episodes, automation, publisher)
