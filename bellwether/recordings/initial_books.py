"""First snapshots and changes of the books in a recording, found without parsing its frames."""

from __future__ import annotations

from dataclasses import dataclass

from bellwether.recordings.recording import Recording
from bellwether.venues.kalshi.stream.frame import DELTA, REST_BOOKS, SNAPSHOT

_SNAPSHOT, _DELTA, _POLLED = (f'"{kind}"'.encode() for kind in (SNAPSHOT, DELTA, REST_BOOKS))


@dataclass(frozen=True, slots=True)
class InitialBooks:
    """Positions of snapshots and changes up to the first change after a snapshot.

    snapshot: ordinal of the first snapshot, None without any. last: ordinal of the last change, -1 without any. changes: number of changes.
    polled: the recording has polled books.
    """

    snapshot: int | None
    last: int
    changes: int
    polled: bool


def find_initial_books(recording: Recording) -> InitialBooks:
    """Search a recording for its first snapshot and the changes around it. A type may be found in other text, but is never missed."""
    snapshot, last, changes, polled = None, -1, 0, False
    for frame in recording.frames():
        if snapshot is None and _SNAPSHOT in frame.data:
            snapshot = frame.ordinal
        elif _DELTA in frame.data and b'"delta' in frame.data:
            last, changes = frame.ordinal, changes + 1
        elif _POLLED in frame.data:
            polled = True
        if polled or (snapshot is not None and last > snapshot):
            break
    return InitialBooks(snapshot, last, changes, polled)
