"""Report of missing data in a recording: missing sequence numbers, and periods without a valid book."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bellwether.recordings.recording import TornSegment
from bellwether.recordings.sequence_numbers import SequenceNumbers


class FramePosition(NamedTuple):
    """Position of a frame: its ordinal and time of receipt (ns since 1970, UTC)."""

    ordinal: int
    received_at: int | None


@dataclass(frozen=True, slots=True)
class Outage:
    """Period without a valid book of a market: from frame `start` to the snapshot `end`; None means to the end of the recording.

    cause: gap (a number was skipped), break (the connection ended), start (the first frame of the market was not a snapshot), unsubscribed
    (its changes were no longer sent), error with a code (the venue ended its subscription), subscription (changes came on a subscription
    without a snapshot), late (a change came after later ones), repeated (two frames had one number), unnumbered (a frame of a numbered
    subscription had no number) or unreadable.
    """

    market: str
    cause: str
    connection: int
    sid: int
    start: FramePosition
    end: FramePosition | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Sequence numbers `first` to `last` skipped between two consecutive frames. missing: how many of them never arrived later."""

    connection: int
    sid: int
    first: int
    last: int
    missing: int
    before: FramePosition | None
    after: FramePosition
    markets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GapReport:
    """Missing data of a recording. partial: numbers of frames of markets outside the recording are skipped, so that gaps are normal."""

    recording: str
    partial: bool
    frames: int
    connections: int
    numbers: tuple[SequenceNumbers, ...]
    gaps: tuple[Gap, ...]
    outages: tuple[Outage, ...]
    torn: tuple[TornSegment, ...]

    @property
    def lost(self) -> int:
        """Number of frames that were sent and are missing; 0 in a partial recording, where this number is unknown."""
        return 0 if self.partial else self.absent

    @property
    def absent(self) -> int:
        """Number of missing sequence numbers: lost frames, or frames of markets outside a partial recording."""
        return sum(numbers.missing for numbers in self.numbers)

    @property
    def duplicates(self) -> int:
        """Number of frames whose sequence number had already arrived."""
        return sum(numbers.duplicates for numbers in self.numbers)

    @property
    def inversions(self) -> int:
        """Number of frames that arrived after a frame with a higher number."""
        return sum(numbers.inversions for numbers in self.numbers)
