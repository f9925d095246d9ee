"""Sensor that builds the episodes of recordings which the lake contains."""

from __future__ import annotations

import dagster as dg

from assets.replay.jobs import EPISODES
from assets.replay.partitions import EPISODE
from orchestration.automation import find_missing
from orchestration.run_priority import AUTOMATIC
from resources import LakeResource
from resources.recordings import RecordingsResource


@dg.sensor(
    job=EPISODES,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Builds the episodes of every recording in the lake, and rebuilds those without a result when the lake has new data.",
)
def recorded_episodes(
    context: dg.SensorEvaluationContext, recordings: RecordingsResource, lake: LakeResource
) -> dg.SensorResult | dg.SkipReason:
    """Add a partition for each episode of finished recordings, and request a run for each outdated episode."""
    from bellwether.replay.episode_builder.sources import outdated_episodes

    due = outdated_episodes(lake.lake, {name: recording.name for name, (recording, _) in recordings.episodes().items()})
    new = find_missing(due, context.instance.get_dynamic_partitions(str(EPISODE.name)))
    if not due:
        return dg.SkipReason("every episode of the recordings in the lake is up to date")
    return dg.SensorResult(
        run_requests=[dg.RunRequest(run_key=f"{name}@{sources}", partition_key=name, tags=AUTOMATIC) for name, sources in due.items()],
        dynamic_partitions_requests=[EPISODE.build_add_request(new)] if new else [],
    )
