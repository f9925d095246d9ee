"""Assets of recordings: the stored messages ("frames") of a venue's stream, and the gaps between them."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from bellwether.recordings.frames import read_batches, to_gap_rows
from bellwether.recordings.gaps import build_gap_report
from orchestration.partitions import INDEPENDENT
from orchestration.steps import PartitionRows, StepOutput, make_each
from resources import LakeIOManager
from resources.recordings import RecordingsResource

RECORDING = dg.DynamicPartitionsDefinition(name="recording")
RECORDING_TABLES = ("raw/recordings", "raw/recording_gaps")


@dg.multi_asset(
    name="recording",
    group_name="raw",
    outs={name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"kalshi"}) for name in RECORDING_TABLES},
    partitions_def=RECORDING,
    backfill_policy=INDEPENDENT,
)
def recording(
    context: dg.AssetExecutionContext, recordings: RecordingsResource, io_manager: dg.ResourceParam[LakeIOManager]
) -> Iterator[StepOutput]:
    """Store the frames of a finished recording in order of arrival, and its gap report."""

    def make(name: str) -> PartitionRows:
        ended = recordings.load_ended(name)
        report = build_gap_report(ended)
        numbers: dict[str, Any] = {
            "frames": report.frames,
            "connections": report.connections,
            "lost": report.lost,
            "holes expected": report.partial,
            "book outages": len(report.outages),
            "duplicates": report.duplicates,
            "inversions": report.inversions,
        }
        metadata = {"raw/recordings": {"status": str(ended.status), **numbers}, "raw/recording_gaps": numbers}
        return {"raw/recordings": read_batches(ended), "raw/recording_gaps": to_gap_rows(report)}, metadata

    yield from make_each(context, io_manager, RECORDING_TABLES, make)
