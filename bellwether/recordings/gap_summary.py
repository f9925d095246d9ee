"""Gap reports of recordings, and the stored summary of a finished one."""

from __future__ import annotations

from typing import Any

from bellwether.files import write_durably
from bellwether.recordings.book_validation import BookValidator, Effect, validate_frames
from bellwether.recordings.gap_report import FramePosition, Gap, GapReport, Outage
from bellwether.recordings.recording import Recording, RecordingStatus, dump_json, read_json
from bellwether.recordings.sequence_numbers import SequenceNumbers

__all__ = [
    "GAPS",
    "BookValidator",
    "Effect",
    "FramePosition",
    "Gap",
    "GapReport",
    "Outage",
    "SequenceNumbers",
    "build_gap_report",
    "store_gap_summary",
    "summarize_gaps",
]

#: File with the summary of a finished recording.
GAPS = "gaps.json"


def build_gap_report(recording: Recording) -> GapReport:
    """Build the gap report of a recording, finished or not."""
    return validate_frames(recording.frames(), partial=recording.about.partial).report(recording.name, recording.torn)


def summarize_gaps(recording: Recording) -> dict[str, Any]:
    """Return the counts of a gap report: from the stored summary if present, else from the frames."""
    kept = recording.folder / GAPS
    if kept.is_file():
        return read_json(kept)
    report = build_gap_report(recording)
    return {
        "frames": report.frames,
        "connections": report.connections,
        "partial": report.partial,
        "lost": report.lost,
        "absent": report.absent,
        "gaps": len(report.gaps),
        "book_outages": len(report.outages),
        "duplicates": report.duplicates,
        "inversions": report.inversions,
        "torn_bytes": sum(torn.bytes for torn in report.torn),
    }


def store_gap_summary(recording: Recording) -> dict[str, Any]:
    """Store and return the summary of a finished recording, so that listings need not read its frames."""
    found = summarize_gaps(recording)
    if recording.status is RecordingStatus.FINISHED:
        write_durably(recording.folder / GAPS, dump_json(found))
    return found
