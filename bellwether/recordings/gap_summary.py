"""Gap reports of recordings, and the summary that a finished one keeps."""

from __future__ import annotations

from typing import Any

from bellwether.files import write_durably
from bellwether.recordings.book_validation import Effect, Watch, watch_frames
from bellwether.recordings.gap_report import Gap, GapReport, Mark, Outage
from bellwether.recordings.recording import Recording, Status, dump_json, read_json
from bellwether.recordings.sequence_numbers import Numbers

__all__ = ["GAPS", "Effect", "Gap", "GapReport", "Mark", "Numbers", "Outage", "Watch", "gap_report", "gap_summary", "keep_gap_summary"]

#: File that keeps the summary of a finished recording.
GAPS = "gaps.json"


def gap_report(recording: Recording) -> GapReport:
    """The gap report of a recording, finished or not."""
    return watch_frames(recording.frames(), partial=recording.about.partial).report(recording.name, recording.torn)


def gap_summary(recording: Recording) -> dict[str, Any]:
    """The numbers of a gap report: from the stored summary, else from its frames."""
    kept = recording.folder / GAPS
    if kept.is_file():
        return read_json(kept)
    report = gap_report(recording)
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


def keep_gap_summary(recording: Recording) -> dict[str, Any]:
    """Store the summary of a finished recording in its folder, so that a list of recordings need not read its frames; returns the summary."""
    found = gap_summary(recording)
    if recording.status is Status.FINISHED:
        write_durably(recording.folder / GAPS, dump_json(found))
    return found
