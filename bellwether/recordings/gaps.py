"""What is missing in a recording: numbers that never came, per subscription, and when each market's book could not be trusted.

Numbers count per connection and subscription over all its markets. A book is valid from a snapshot on, until a number is skipped on its
subscription or its connection ends; a frame that comes late does not mend it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from bellwether.recordings.recording import Recording, Status, Torn, dump_json, put, read_json
from bellwether.venues.kalshi.stream.frame import DELTA, SNAPSHOT, Frame, body_of, envelope_of, message, ticker_of

#: File that keeps the summary of a finished recording.
GAPS = "gaps.json"

Key = tuple[int, int]


@dataclass(slots=True)
class Numbers:
    """The numbers of one subscription: `ranges` are those that never came, first and last included, in ascending order."""

    connection: int
    sid: int
    first: int
    last: int
    received: int = 0
    duplicates: int = 0
    inversions: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    markets: set[str] = field(default_factory=set)
    ranges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """How many numbers never came."""
        return sum(last - first + 1 for first, last in self.ranges)

    def count(self, seq: int) -> bool:
        """Take in a number; whether it skipped some."""
        self.received += 1
        if seq == self.last + 1:
            self.last = seq
            return False
        if seq > self.last:
            self.ranges.append((self.last + 1, seq - 1))
            self.last = seq
            return True
        if self._fill(seq):
            self.inversions += 1
        else:
            self.duplicates += 1
        return False

    def _fill(self, seq: int) -> bool:
        place = bisect_right(self.ranges, (seq, self.last)) - 1
        if place < 0 or seq > self.ranges[place][1]:
            return False
        first, last = self.ranges[place]
        self.ranges[place : place + 1] = [part for part in ((first, seq - 1), (seq + 1, last)) if part[0] <= part[1]]
        return True


class Mark(NamedTuple):
    """A frame's place: its ordinal and when it was received (nanoseconds since 1970, UTC)."""

    ordinal: int
    received_at: int | None


class Effect(Enum):
    """What a frame means for its market's book.

    OPENED: a snapshot of a book that was not valid. RENEWED: a snapshot of one that was. CHANGED: a delta of a valid book.
    IGNORED: a frame that no valid book can take.
    """

    OPENED = "opened"
    RENEWED = "renewed"
    CHANGED = "changed"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Outage:
    """A market's book could not be trusted behind frame `start`, up to the snapshot `end`; to the end of the recording when that is None.

    cause: gap (a number was skipped), break (the connection ended) or start (the first frame of the market was no snapshot).
    """

    market: str
    cause: str
    connection: int
    sid: int
    start: Mark
    end: Mark | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers that were skipped between two frames, as seen when the later of them came. `missing` counts those that never came at all."""

    connection: int
    sid: int
    first: int
    last: int
    missing: int
    before: Mark | None
    after: Mark
    markets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GapReport:
    """What is missing in a recording. In a `partial` one, holes are expected: they were other markets' frames, or were lost; nobody can tell."""

    recording: str
    partial: bool
    frames: int
    connections: int
    numbers: tuple[Numbers, ...]
    gaps: tuple[Gap, ...]
    outages: tuple[Outage, ...]
    torn: tuple[Torn, ...]

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


class Watch:
    """Follows frames in order of arrival; `heard` takes each in and says what it means for its market's book."""

    def __init__(self, *, partial: bool = False) -> None:
        self.partial = partial
        self.numbers: dict[Key, Numbers] = {}
        self.frames = 0
        self.connections = 0
        self.outages: list[Outage] = []
        self._invalidated: list[Outage] = []
        self._gaps: list[tuple[Key, int, int, Mark | None, Mark]] = []
        self._open: dict[str, Outage] = {}
        self._books: dict[str, tuple[Key, int]] = {}
        self._beside: dict[tuple[str, Key], int] = {}
        self._marks: dict[Key, Mark] = {}
        self._last: tuple[int, Mark] | None = None

    def heard(self, frame: Frame, found: dict[str, Any]) -> Effect | None:
        """Take in a frame, read already; None when it says nothing of a book."""
        mark = Mark(frame.ordinal, frame.received_at)
        self.frames += 1
        self._follow_connection(frame.connection, mark)
        kind, sid, seq = envelope_of(found)
        if sid is None or seq is None:
            return None
        key = (frame.connection, sid)
        self._count(key, seq, mark)
        numbers = self.numbers[key]
        numbers.kinds[kind or "?"] += 1
        market = ticker_of(body_of(found))
        if market is None:
            return None
        numbers.markets.add(market)
        if kind == SNAPSHOT:
            return self._snapshot(market, key, seq, mark)
        return self._delta(market, key, seq, mark) if kind == DELTA else None

    def _follow_connection(self, connection: int, mark: Mark) -> None:
        if self._last is None or self._last[0] != connection:
            self.connections += 1
            for market, (key, _) in list(self._books.items()):
                self._invalidate(market, "break", key, self._last[1] if self._last else mark)
        self._last = (connection, mark)

    def _count(self, key: Key, seq: int, mark: Mark) -> None:
        numbers = self.numbers.get(key)
        before = self._marks.get(key)
        if numbers is None:
            # Numbers begin with 1; what a partial capture begins with says nothing.
            numbers = self.numbers[key] = Numbers(*key, first=seq, last=seq - 1 if self.partial else 0)
        expected = numbers.last + 1
        if numbers.count(seq):
            self._gaps.append((key, expected, seq - 1, before, mark))
            if not self.partial:
                for market, (of, _) in list(self._books.items()):
                    if of == key:
                        self._invalidate(market, "gap", key, before or mark)
        self._marks[key] = mark

    def _invalidate(self, market: str, cause: str, key: Key, start: Mark) -> None:
        del self._books[market]
        self._open[market] = Outage(market, cause, *key, start, None)
        self._invalidated.append(self._open[market])

    def invalidated(self) -> list[Outage]:
        """The valid books that were lost since this was asked last."""
        found, self._invalidated = self._invalidated, []
        return found

    def _snapshot(self, market: str, key: Key, seq: int, mark: Mark) -> Effect:
        known = self._books.get(market)
        if known is not None and known[0] == key and seq < known[1]:
            # It came after changes that it does not hold.
            self._invalidate(market, "gap", key, mark)
            return Effect.IGNORED
        if known is not None:
            self._beside[market, known[0]] = known[1]
        outage = self._open.pop(market, None)
        if outage is not None:
            self.outages.append(replace(outage, end=mark))
        self._books[market] = (key, seq)
        return Effect.OPENED if known is None else Effect.RENEWED

    def _delta(self, market: str, key: Key, seq: int, mark: Mark) -> Effect:
        known = self._books.get(market)
        if self.partial and known is not None and known[0] != key and seq > self._beside.get((market, key), seq):
            # A snapshot asked for on another subscription does not end the one that the changes come on.
            self._beside[market, known[0]] = known[1]
            self._books[market] = known = (key, seq - 1)
        if known is None or known[0] != key:
            if known is None and market not in self._open:
                self._open[market] = Outage(market, "start", *key, mark, None)
            return Effect.IGNORED
        if seq <= known[1]:
            return Effect.IGNORED
        self._books[market] = (key, seq)
        return Effect.CHANGED

    def gaps(self) -> Iterator[Gap]:
        """The gaps so far, each with what of it never came. In a partial recording one per subscription, over all its holes."""
        if self.partial:
            yield from self._holes()
            return
        for key, first, last, before, after in self._gaps:
            numbers = self.numbers[key]
            yield Gap(*key, first, last, _within(numbers.ranges, first, last), before, after, tuple(sorted(numbers.markets)))

    def _holes(self) -> Iterator[Gap]:
        for key, numbers in self.numbers.items():
            if numbers.ranges:
                first, last = numbers.ranges[0][0], numbers.ranges[-1][1]
                yield Gap(*key, first, last, numbers.missing, None, self._marks[key], tuple(sorted(numbers.markets)))

    def report(self, recording: str, torn: Iterable[Torn] = ()) -> GapReport:
        """All of it."""
        numbers = tuple(self.numbers[key] for key in sorted(self.numbers))
        outages = sorted([*self.outages, *self._open.values()], key=lambda outage: (outage.start.ordinal, outage.market))
        return GapReport(recording, self.partial, self.frames, self.connections, numbers, tuple(self.gaps()), tuple(outages), tuple(torn))


def _within(ranges: list[tuple[int, int]], first: int, last: int) -> int:
    """How many numbers of [first, last] lie in these ranges, which are in ascending order."""
    place = max(0, bisect_right(ranges, (first, first)) - 1)
    count = 0
    for start, end in ranges[place:]:
        if start > last:
            break
        count += max(0, min(end, last) - max(start, first) + 1)
    return count


def gap_report(recording: Recording) -> GapReport:
    """The gap report of a recording, finished or not."""
    watch = Watch(partial=recording.about.partial)
    for frame in recording.frames():
        watch.heard(frame, message(frame.data))
    return watch.report(recording.name, recording.torn)


def gap_summary(recording: Recording) -> dict[str, Any]:
    """The numbers of a gap report; of a finished recording they are kept beside it, so that it is read once."""
    kept = recording.folder / GAPS
    if kept.is_file():
        return read_json(kept)
    report = gap_report(recording)
    found = {
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
    if recording.status is Status.FINISHED:
        put(kept, dump_json(found))
    return found
