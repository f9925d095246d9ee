"""Validity of the books of a recording, determined from the sequence numbers of its frames.

A book is followed on every subscription that sent a snapshot of it. Each of these is a line, valid from its snapshot on. A line ends at a skipped
number of its subscription, at the end of its connection, when the market is unsubscribed, or at a frame that does not fit. Only a snapshot
reopens it. A market's book is valid while at least one of its lines is.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from bellwether.recordings.exchange_times import read_exchange_time
from bellwether.recordings.gap_report import FramePosition, Gap, GapReport, Outage
from bellwether.recordings.recording import TornSegment
from bellwether.recordings.sequence_numbers import Key, SequenceNumbers, count_within
from bellwether.venues.kalshi.stream.frame import DELTA, SNAPSHOT, Frame, parse_message, read_body, read_envelope, read_ticker

#: Id of a subscription whose frames do not name one.
UNNAMED = -1
#: Frames per subscription whose content is kept to distinguish a repetition from another frame of the same number.
_REMEMBERED = 4096


class Effect(Enum):
    """Effect of a frame on the book of its market, as kept for its subscription.

    OPENED: a snapshot without a valid line. RENEWED: a snapshot of a valid line. CHANGED: a delta of a valid line. REPEATED: a frame that came
    before. SUPERSEDED: a frame older than a later snapshot, or of a replaced subscription. UNAPPLIED: a frame without a valid book.
    """

    OPENED = "opened"
    RENEWED = "renewed"
    CHANGED = "changed"
    REPEATED = "repeated"
    SUPERSEDED = "superseded"
    UNAPPLIED = "unapplied"


class FrameEffect(NamedTuple):
    """Effect of a book frame, with its market and subscription, and whether a frame with a higher number arrived before it."""

    effect: Effect
    market: str
    key: Key
    is_late: bool = False


class BookEnd(NamedTuple):
    """End of a line: the book is invalid after frame `start` of subscription `source`, or from the exchange time `at` (ns UTC)."""

    market: str
    key: Key
    cause: str
    start: FramePosition
    source: Key
    at: int | None = None


class _PendingEnd(NamedTuple):
    """Pending end of all lines of a market; it is withdrawn if one of them receives a frame at or after the exchange time `until`."""

    start: FramePosition
    source: Key
    at: int | None
    until: int | None


@dataclass(slots=True)
class _BookLine:
    """Valid book of a market on one subscription.

    opened, last: numbers of its snapshot and its last frame; None if the subscription has no numbers.
    """

    opened: int | None
    last: int | None


class _RecentFrames:
    """Latest frames of a subscription by number."""

    __slots__ = ("_digests", "_order")

    def __init__(self) -> None:
        self._digests: dict[int, int] = {}
        self._order: deque[int] = deque()

    def keep(self, seq: int, data: bytes) -> None:
        if seq not in self._digests:
            self._order.append(seq)
            if len(self._order) > _REMEMBERED:
                del self._digests[self._order.popleft()]
        self._digests[seq] = zlib.crc32(data)

    def has(self, seq: int, data: bytes) -> bool:
        """Return whether an identical frame with this number was kept."""
        return self._digests.get(seq) == zlib.crc32(data)


class BookValidator:
    """Validator of the books of a recording; `take` receives its frames in order of arrival.

    partial: holes in the numbers are expected and end no line.
    """

    def __init__(self, *, partial: bool = False) -> None:
        self.partial = partial
        self.numbers: dict[Key, SequenceNumbers] = {}
        self.frames = 0
        self.connections = 0
        self.outages: list[Outage] = []
        self._ended: list[BookEnd] = []
        self._gaps: list[tuple[Key, int, int, FramePosition | None, FramePosition]] = []
        self._open: dict[str, Outage] = {}
        self._lines: dict[str, dict[Key, _BookLine]] = {}
        #: Highest number of a frame that no line took, and all lines so far.
        self._untaken: dict[tuple[str, Key], int] = {}
        self._opened: set[tuple[str, Key]] = set()
        self._memories: dict[Key, _RecentFrames] = {}
        self._marks: dict[Key, FramePosition] = {}
        #: Subscriptions that an unreadable frame may belong to; the next number decides.
        self._doubtful: set[Key] = set()
        #: Markets with an ended or replaced line, whose other lines must be confirmed by a later frame.
        self._doubts: dict[str, _PendingEnd] = {}
        self._connection: int | None = None
        self._body: dict[str, Any] = {}

    def take(self, frame: Frame, found: dict[str, Any]) -> FrameEffect | None:
        """Process a parsed frame and return its effect; None for a frame without a book."""
        mark = FramePosition(frame.ordinal, frame.received_at)
        self.frames += 1
        if frame.connection != self._connection:
            self._follow_connection(frame.connection)
        kind, sid, seq = read_envelope(found)
        if not found and frame.data.strip():
            self._doubt(frame.connection)
            return None
        is_book = kind in (DELTA, SNAPSHOT)
        if sid is None and not is_book:
            return None
        key = (frame.connection, UNNAMED if sid is None else sid)
        before = self._marks.get(key, mark)
        body = self._body = read_body(found)
        market = read_ticker(body)
        comes_late = False
        if sid is not None and seq is not None:
            comes_late = self._count(key, seq, mark)
            numbers = self.numbers[key]
            numbers.kinds[kind or "?"] += 1
            if market is not None:
                numbers.markets.add(market)
        elif is_book:
            self._marks[key] = mark
        if is_book:
            return self._book(frame, (kind, key, seq, market), body, mark, comes_late=comes_late)
        if kind == "unsubscribed":
            self._end_all(key, "unsubscribed", before)
        elif kind == "ok" and type(body.get("market_tickers")) is list:
            self._end_all(key, "unsubscribed", before, but=frozenset(map(str, body["market_tickers"])))
        return None

    def ended(self) -> list[BookEnd]:
        """Return the valid lines that ended since the last call."""
        found, self._ended = self._ended, []
        return found

    def finish(self) -> None:
        """Finish the input: lines that are still in doubt end."""
        for market in list(self._doubts):
            self._give_up(market)
        for key in sorted(self._doubtful):
            self._end_all(key, "unreadable", self._marks[key])
        self._doubtful.clear()

    # --- numbers ---------------------------------------------------------------------------------------------------------

    def _follow_connection(self, connection: int) -> None:
        self.connections += 1
        self._connection = connection
        keys = {key for lines in self._lines.values() for key in lines if key[0] != connection}
        for key in sorted(keys):
            self._end_all(key, "break", self._marks[key])

    def _count(self, key: Key, seq: int, mark: FramePosition) -> bool:
        """Count a frame's number and return whether the frame is late or repeated: its number is not higher than all earlier ones."""
        numbers = self.numbers.get(key)
        before = self._marks.get(key)
        if numbers is None:
            # Numbers begin with 1, except in a partial capture.
            numbers = self.numbers[key] = SequenceNumbers(*key, first=seq, last=seq - 1 if self.partial else 0)
        expected = numbers.last + 1
        if numbers.count(seq):
            self._gaps.append((key, expected, seq - 1, before, mark))
            if not self.partial:
                self._end_all(key, "gap", before or mark)
                self._doubt_others(numbers, key, before or mark)
        if seq >= expected:
            self._doubtful.discard(key)
        self._marks[key] = mark
        return seq < expected

    def _doubt(self, connection: int) -> None:
        """Put in doubt the subscriptions to which an unreadable frame may belong.

        Where numbers cannot decide it (without numbers, or in a partial recording), their lines end.
        """
        for key in [key for key in self._marks if key[0] == connection]:
            self._doubt_one(key)

    def _doubt_one(self, key: Key) -> None:
        if not self.partial and key in self.numbers:
            self._doubtful.add(key)
        elif key in self._marks:
            self._end_all(key, "unreadable", self._marks[key])

    # --- lines -----------------------------------------------------------------------------------------------------------

    def _book(
        self,
        frame: Frame,
        told: tuple[str | None, Key, int | None, str | None],
        body: dict[str, Any],
        mark: FramePosition,
        *,
        comes_late: bool,
    ) -> FrameEffect | None:
        kind, key, seq, market = told
        if seq is not None and not self._is_new(key, seq, frame.data, comes_late=comes_late):
            return None if market is None else FrameEffect(Effect.REPEATED, market, key)
        if market is None:
            if seq is None:
                self._doubt_one(key)
            else:
                self._end_all(key, "unreadable", mark)
            return None
        if comes_late and seq is not None and not self.numbers[key].was_missing and seq >= self.numbers[key].first:
            # Another frame had this number, or the earlier frame is no longer kept.
            self._end_all(key, "repeated", mark)
        if seq is None and key in self.numbers:
            if key in self._lines.get(market, ()):
                self._end(market, key, "unnumbered", mark)
            return FrameEffect(Effect.UNAPPLIED, market, key)
        if kind == SNAPSHOT:
            return FrameEffect(self._snapshot(market, key, seq, mark, comes_late=comes_late), market, key, comes_late)
        return FrameEffect(self._delta(market, key, seq, mark, body), market, key, comes_late)

    def _is_new(self, key: Key, seq: int, data: bytes, *, comes_late: bool) -> bool:
        memory = self._memories.get(key)
        if memory is None:
            memory = self._memories[key] = _RecentFrames()
        if comes_late and memory.has(seq, data):
            return False
        memory.keep(seq, data)
        return True

    def _snapshot(self, market: str, key: Key, seq: int | None, mark: FramePosition, *, comes_late: bool) -> Effect:
        if market in self._doubts:
            self._give_up(market)
        lines = self._lines.setdefault(market, {})
        line = lines.get(key)
        last = self._untaken.get((market, key)) if line is None else line.last
        if seq is not None and ((last is not None and seq < last) or (comes_late and not self.partial)):
            # It came after changes that it does not contain, or that may have been lost.
            if line is not None:
                self._end(market, key, "gap", mark)
            return Effect.UNAPPLIED
        lines[key] = _BookLine(seq, seq)
        self._opened.add((market, key))
        outage = self._open.pop(market, None)
        if outage is not None:
            self.outages.append(replace(outage, end=mark))
        return Effect.OPENED if line is None else Effect.RENEWED

    def _delta(self, market: str, key: Key, seq: int | None, mark: FramePosition, body: dict[str, Any]) -> Effect:
        lines = self._lines.get(market)
        line = None if lines is None else lines.get(key)
        if lines is None or line is None:
            if seq is not None:
                self._untaken[market, key] = max(seq, self._untaken.get((market, key), seq))
            return self._without_line(market, key, mark, read_exchange_time(body))
        if seq is not None and line.last is not None and line.opened is not None:
            if seq <= line.last:
                return self._late(market, key, mark, read_exchange_time(body)) if self.partial and seq > line.opened else Effect.SUPERSEDED
            line.last = seq
        if self._doubts:
            self._go_on(market, key, read_exchange_time(body))
        return Effect.CHANGED

    def _late(self, market: str, key: Key, mark: FramePosition, at: int | None) -> Effect:
        """End the line at the position of a change that arrived out of order."""
        self._end(market, key, "late", mark, at)
        return Effect.UNAPPLIED

    def _without_line(self, market: str, key: Key, mark: FramePosition, at: int | None) -> Effect:
        """Handle a delta of a subscription without a valid line of the market."""
        lines = self._lines.get(market)
        if not lines:
            if market not in self._open:
                self._open[market] = Outage(market, "start", *key, mark, None)
            return Effect.UNAPPLIED
        if (market, key) in self._opened:
            self._doubts.setdefault(market, _PendingEnd(mark, key, at, at))
            return Effect.SUPERSEDED
        for other in list(lines):
            # Its snapshot was lost, perhaps with changes on the other lines: those are complete up to their last frame.
            self._end(market, other, "subscription", self._marks.get(other, mark))
        return Effect.UNAPPLIED

    def _go_on(self, market: str, key: Key, at: int | None) -> None:
        """Withdraw the pending ends that a frame at exchange time `at` refutes.

        These are the ends of all markets of the subscription; in a partial recording only that of `market`.
        """
        for one in [market] if self.partial else [one for one in self._doubts if key in self._lines[one]]:
            doubt = self._doubts.get(one)
            if doubt is not None and (at is None or doubt.until is None or at >= doubt.until):
                del self._doubts[one]

    def _doubt_others(self, numbers: SequenceNumbers, key: Key, start: FramePosition) -> None:
        """Put in doubt the lines of other subscriptions on the markets that a loss on this one may affect."""
        until = read_exchange_time(self._body)
        for market in numbers.markets:
            if self._lines.get(market):
                self._doubts.setdefault(market, _PendingEnd(start, key, None, until))

    def _give_up(self, market: str) -> None:
        """End the lines of a market that no later frame confirmed."""
        doubt = self._doubts[market]
        for key in list(self._lines.get(market, ())):
            self._end(market, key, "subscription", doubt.start, doubt.at)

    def _end_all(self, key: Key, cause: str, start: FramePosition, but: frozenset[str] = frozenset()) -> None:
        for market in [market for market, lines in self._lines.items() if key in lines and market not in but]:
            self._end(market, key, cause, start)

    def _end(self, market: str, key: Key, cause: str, start: FramePosition, at: int | None = None) -> None:
        lines = self._lines[market]
        last = lines.pop(key).last
        if last is not None:
            self._untaken[market, key] = max(last, self._untaken.get((market, key), last))
        ended = BookEnd(market, key, cause, start, key, at)
        doubt = self._doubts.get(market)
        if doubt is not None and doubt.start.ordinal <= start.ordinal and not lines:
            ended = BookEnd(market, key, "subscription", doubt.start, doubt.source, doubt.at)
        self._ended.append(ended)
        if lines:
            self._doubts.setdefault(market, _PendingEnd(start, key, at, read_exchange_time(self._body)))
            return
        self._doubts.pop(market, None)
        self._open[market] = Outage(market, ended.cause, *key, ended.start, None)

    # --- the report ------------------------------------------------------------------------------------------------------

    def gaps(self) -> Iterator[Gap]:
        """Return the gaps so far, each with its count of missing numbers. In a partial recording there is one per subscription, over all its holes."""
        if self.partial:
            yield from self._holes()
            return
        for key, first, last, before, after in self._gaps:
            numbers = self.numbers[key]
            yield Gap(*key, first, last, count_within(numbers.ranges, first, last), before, after, tuple(sorted(numbers.markets)))

    def _holes(self) -> Iterator[Gap]:
        for key, numbers in self.numbers.items():
            if numbers.ranges:
                first, last = numbers.ranges[0][0], numbers.ranges[-1][1]
                yield Gap(*key, first, last, numbers.missing, None, self._marks[key], tuple(sorted(numbers.markets)))

    def report(self, recording: str, torn: Iterable[TornSegment] = ()) -> GapReport:
        """Return the complete report, after the last frame."""
        self.finish()
        numbers = tuple(self.numbers[key] for key in sorted(self.numbers))
        outages = sorted([*self.outages, *self._open.values()], key=lambda outage: (outage.start.ordinal, outage.market))
        return GapReport(recording, self.partial, self.frames, self.connections, numbers, tuple(self.gaps()), tuple(outages), tuple(torn))


def validate_frames(frames: Iterable[Frame], *, partial: bool = False) -> BookValidator:
    """Return a validator that has processed these frames."""
    watch = BookValidator(partial=partial)
    for frame in frames:
        watch.take(frame, parse_message(frame.data))
    return watch
