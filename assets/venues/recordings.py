"""Recordings: what a stream said, frame by frame, and what is missing among it."""

from collections.abc import Iterator

import dagster as dg

from assets.venues.partitions import RECORDING
from orchestration.declare import out
from resources.recordings import RecordingsResource

RECORDING_TABLES = ("raw/recordings", "raw/recording_gaps")


@dg.multi_asset(
    name="recording",
    outs={name.split("/")[1]: out(name, "kalshi") for name in RECORDING_TABLES},
    partitions_def=RECORDING,
)
def recording(context: dg.AssetExecutionContext, recordings: RecordingsResource) -> Iterator[dg.Output]:
    """Every frame of a recording in order of arrival, and its gap report. One that is being written is refused."""
    from bellwether.recordings.frames import batches, gap_rows
    from bellwether.recordings.gaps import gap_report

    found = recordings.ended(context.partition_key)
    report = gap_report(found)
    numbers = {
        "frames": report.frames,
        "connections": report.connections,
        "lost": report.lost,
        "holes expected": report.partial,
        "book outages": len(report.outages),
        "duplicates": report.duplicates,
        "inversions": report.inversions,
    }
    yield dg.Output(batches(found), "recordings", metadata={"status": str(found.status), **numbers})
    yield dg.Output(gap_rows(report), "recording_gaps", metadata=numbers)
