"""Start of the books of a recording, found without parsing its frames."""

from __future__ import annotations

from dataclasses import dataclass

from bellwether.recordings.recording import Recording
from bellwether.venues.kalshi.stream.frame import DELTA, REST_BOOKS, SNAPSHOT

_SNAPSHOT, _DELTA, _POLLED = (f'"{kind}"'.encode() for kind in (SNAPSHOT, DELTA, REST_BOOKS))


@dataclass(frozen=True, slots=True)
class InitialBooks:
    """Start of the books. snapshot: ordinal of the first snapshot, None without any. last: ordinal of the last change, -1 without any.

    changes: count of changes. polled: books also come as pages of their own.
    """

    snapshot: int | None
    last: int
    changes: int
    polled: bool


def find_initial_books(recording: Recording) -> InitialBooks:
    """Find the start of a recording's books. Message types are searched as text, so only the absence of a type is certain."""
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
