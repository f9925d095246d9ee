"""Gap reports of recordings, and the stored summary of a finished one."""

from __future__ import annotations

from typing import Any

from bellwether.files import write_durably
from bellwether.recordings.book_validation import validate_frames
from bellwether.recordings.gap_report import GapReport
from bellwether.recordings.recording import Recording, RecordingStatus, dump_json, read_json

#: File with the summary of a finished recording.
GAPS = "gaps.json"


def build_gap_report(recording: Recording) -> GapReport:
    """Build the gap report of a recording, finished or not."""
    return validate_frames(recording.frames(), partial=recording.about.partial).report(recording.name, recording.torn)


def summarize_gaps(recording: Recording) -> dict[str, Any]:
    """Return the counts of a recording's gap report: from its stored summary if there is one, else from the frames."""
    stored = recording.folder / GAPS
    if stored.is_file():
        return read_json(stored)
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
    """Return the counts of a recording's gap report; store them if the recording is finished, so that listings need not read the frames."""
    summary = summarize_gaps(recording)
    if recording.status is RecordingStatus.FINISHED:
        write_durably(recording.folder / GAPS, dump_json(summary))
    return summary
