"""Report of missing data in a recording: numbers that never came, and stretches in which a book could not be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bellwether.recordings.recording import TornSegment
from bellwether.recordings.sequence_numbers import SequenceNumbers


class FramePosition(NamedTuple):
    """A frame's place: its ordinal and when it was received (nanoseconds since 1970, UTC)."""

    ordinal: int
    received_at: int | None


@dataclass(frozen=True, slots=True)
class Outage:
    """A market's book could not be trusted after frame `start`, up to the snapshot `end`; to the end of the recording when that is None.

    cause: gap (a number was skipped), break (the connection ended), start (the first frame of the market was no snapshot), unsubscribed (its changes
    were no longer sent), subscription (changes came on a subscription of which there is no snapshot), late (a change came after others that it
    precedes), repeated (two frames had one number), unnumbered (a frame of a numbered subscription had no number) or unreadable.
    """

    market: str
    cause: str
    connection: int
    sid: int
    start: FramePosition
    end: FramePosition | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers that were skipped between two frames, as seen when the later of them came. `missing` counts those that never came at all."""

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
    """Missing data of a recording. In a `partial` one, holes are expected: they were frames of other markets, or were lost; the two cannot be distinguished."""

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
        """Frames that were sent and are not here; 0 in a partial recording, where that is not known."""
        return 0 if self.partial else self.absent

    @property
    def absent(self) -> int:
        """Numbers that are not here, for whatever reason."""
        return sum(numbers.missing for numbers in self.numbers)

    @property
    def duplicates(self) -> int:
        """Numbers that came again."""
        return sum(numbers.duplicates for numbers in self.numbers)

    @property
    def inversions(self) -> int:
        """Frames that came after a later number."""
        return sum(numbers.inversions for numbers in self.numbers)
