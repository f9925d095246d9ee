"""Sensor that imports finished recordings into the lake."""

from __future__ import annotations

import dagster as dg

from assets.venues.jobs import RECORDINGS
from assets.venues.recordings import RECORDING
from bellwether.errors import LakeError
from bellwether.recordings.recording import RecordingStatus
from bellwether.tables import table
from orchestration.automation import find_missing
from orchestration.run_priority import AUTOMATIC
from resources import LakeResource
from resources.recordings import RecordingsResource


@dg.sensor(
    job=RECORDINGS,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Stores every finished recording in the lake. An aborted one becomes a partition, which an operator can materialize.",
)
def finished_recordings(
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
