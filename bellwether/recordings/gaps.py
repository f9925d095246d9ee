"""Missing data of a recording: skipped sequence numbers, and the periods in which a market has no valid book.

The *primary* subscription of a market is the one that sent its latest snapshot. A book is valid from that snapshot on. It ends at a skipped
number of its subscription, at the end of the connection, when the venue ends the subscription or removes the market from it, at an
unreadable or contradictory frame, and when another subscription sends changes that the primary one lacks. Only a snapshot begins the next.

A `key` is a subscription: (connection, subscription id). A *partial* recording lacks some of a subscription's markets, so that skipped
numbers are normal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from bellwether.files import write_durably
from bellwether.recordings.exchange_times import SECOND, read_exchange_time
from bellwether.recordings.recording import Recording, RecordingStatus, dump_json, read_json
from bellwether.venues.kalshi.stream.frame import DELTA, SNAPSHOT, Frame, parse_message, read_body, read_envelope, read_ticker
from bellwether.venues.kalshi.stream.protocol import SubscriptionEnd, read_subscription_end

#: Key of a subscription: the ordinal of its connection, and its id there.
Key = tuple[int, int]
#: Maximum lag between two subscriptions, and maximum duration of an action of the exchange; ns.
AT_ONCE = SECOND
#: File with the summary of a finished recording.
GAPS = "gaps.json"


# --- report --------------------------------------------------------------------------------------------------------------


class FramePosition(NamedTuple):
    """Position of a frame: its ordinal and time of receipt (ns since 1970, UTC)."""

    ordinal: int
    received_at: int | None


@dataclass(frozen=True, slots=True)
class Outage:
    """Period without a valid book of a market: from frame `start` to the snapshot `end`; None means to the end of the recording.

    cause: gap (a number was skipped), break (the connection ended), start (the first frame of the market was not a snapshot), unsubscribed
    (its changes were no longer sent), error with a code (the venue ended its subscription), subscription (another subscription sent changes
    that the book's own lacks), late (a change came after later ones) or unreadable.
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


@dataclass(slots=True)
class SequenceNumbers:
    """Received and missing sequence numbers of one subscription.

    ranges: missing numbers as (first, last), inclusive, in ascending order. kinds: frames by type. was_missing: the last counted number had
    been missing.
    """

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
    was_missing: bool = False

    @property
    def missing(self) -> int:
        """Number of skipped sequence numbers that never arrived."""
        return sum(last - first + 1 for first, last in self.ranges)

    def count(self, seq: int) -> bool:
        """Count a received sequence number. Returns True if numbers were skipped before it."""
        self.received += 1
        if seq == self.last + 1:
            self.last = seq
            return False
        if seq > self.last:
            self.ranges.append((self.last + 1, seq - 1))
            self.last = seq
            return True
        self.was_missing = self._fill(seq)
        if self.was_missing:
            self.inversions += 1
        else:
            self.duplicates += 1
        return False

    def _fill(self, seq: int) -> bool:
        """Remove a late number from the missing ones. Returns False if the number was not missing."""
        place = bisect_right(self.ranges, (seq, self.last)) - 1
        if place < 0 or seq > self.ranges[place][1]:
            return False
        first, last = self.ranges[place]
        self.ranges[place : place + 1] = [part for part in ((first, seq - 1), (seq + 1, last)) if part[0] <= part[1]]
        return True


def count_within(ranges: list[tuple[int, int]], first: int, last: int) -> int:
    """Return how many numbers from `first` to `last` lie in these ascending ranges."""
    place = max(0, bisect_right(ranges, (first, first)) - 1)
    count = 0
    for start, end in ranges[place:]:
        if start > last:
            break
        count += max(0, min(end, last) - max(start, first) + 1)
    return count


# --- books ---------------------------------------------------------------------------------------------------------------


class Effect(Enum):
    """Effect of a book frame on its market's book.

    OPENED: a snapshot begins a book, or replaces the book of another subscription. RENEWED: a snapshot of the primary subscription. CHANGED:
    a delta changes a valid book. REPEATED: a frame of this number arrived before. SUPERSEDED: a delta is older than the book's snapshot, or of
    another subscription. UNAPPLIED: there is no valid book.
    """

    OPENED = "opened"
    RENEWED = "renewed"
    CHANGED = "changed"
    REPEATED = "repeated"
    SUPERSEDED = "superseded"
    UNAPPLIED = "unapplied"


class FrameEffect(NamedTuple):
    """Effect of a frame of subscription `key` on the book of `market`. is_late: a frame with a higher number arrived earlier."""

    effect: Effect
    market: str
    key: Key
    is_late: bool = False


#: Change of a level as its frame states it: time, side, price and difference of size. It is equal on every subscription.
_Content = tuple[Any, ...]


@dataclass(slots=True)
class _Book:
    """Valid book of a market.

    key: its primary subscription. opened, last: numbers of its snapshot and its last frame. begun, position: of these frames. compared_from:
    exchange time (ns) of the first change that is compared with other subscriptions; None without others. recent: changes of the last
    second, with their times. ahead: changes that only another subscription has sent.
    """

    key: Key
    opened: int
    last: int
    begun: FramePosition
    position: FramePosition
    compared_from: int | None = None
    recent: dict[_Content, int] = field(default_factory=dict)
    ahead: dict[_Content, tuple[FramePosition, int]] = field(default_factory=dict)


class _BookFrame(NamedTuple):
    """Frame with a snapshot or a delta of a book. clock: latest exchange time of the market."""

    key: Key
    seq: int
    position: FramePosition
    is_late: bool
    body: dict[str, Any]
    clock: int


class BookValidator:
    """Collector of the gaps of a recording and of the ends of its books; `take` receives all frames in order of arrival.

    partial: missing numbers are expected and end no book.
    """

    def __init__(self, *, partial: bool = False) -> None:
        self.partial = partial
        self.numbers: dict[Key, SequenceNumbers] = {}
        self.frames = 0
        self.connections = 0
        self.outages: list[Outage] = []
        self._ended: list[Outage] = []
        self._gaps: list[tuple[Key, int, int, FramePosition | None, FramePosition]] = []
        self._open: dict[str, Outage] = {}
        self._books: dict[str, _Book] = {}
        #: Latest exchange time of each market's book frames, ns.
        self._clocks: dict[str, int] = {}
        #: Highest number of a frame that changed no valid book.
        self._unapplied: dict[tuple[str, Key], int] = {}
        #: Position of the last frame of each subscription.
        self._positions: dict[Key, FramePosition] = {}
        #: Subscriptions that have ended with this cause after this frame, unless a later frame shows that they continue.
        self._doubtful: dict[Key, tuple[str, FramePosition]] = {}
        self._connection: int | None = None

    def take(self, frame: Frame, message: dict[str, Any]) -> FrameEffect | None:
        """Process a frame, `message` being its parsed content. Returns its effect on a book; None without a book or a stated market."""
        position = FramePosition(frame.ordinal, frame.received_at)
        self.frames += 1
        if frame.connection != self._connection:
            self._begin_connection(frame.connection)
        kind, sid, seq = read_envelope(message)
        body, is_book, end = read_body(message), kind in (DELTA, SNAPSHOT), read_subscription_end(message)
        if sid is None or seq is None:
            if end is not None:
                self._end_subscription(end, frame.connection)
            if is_book or (not message and frame.data.strip()):
                self._take_unreadable(frame.connection, can_be_skipped=read_ticker(body) is None)
            return None
        key = (frame.connection, sid)
        previous = self._positions.get(key, position)
        market = read_ticker(body)
        is_late = self._count(key, seq, position)
        numbers = self.numbers[key]
        numbers.kinds[kind or "?"] += 1
        numbers.markets |= set() if market is None else {market}
        if end is not None:
            self._end_subscription(end, frame.connection, previous)
        if is_book:
            if market is None:
                # It may concern any book of its subscription.
                self._end_all(key, "unreadable", position)
                return None
            if is_late and not numbers.was_missing and seq >= numbers.first:
                return FrameEffect(Effect.REPEATED, market, key)
            clock = self._clocks[market] = max(self._clocks.get(market, 0), read_exchange_time(body) or 0)
            effect = self._take_book(market, _BookFrame(key, seq, position, is_late, body, clock), is_snapshot=kind == SNAPSHOT)
            return FrameEffect(effect, market, key, is_late)
        if kind == "ok" and type(body.get("market_tickers")) is list:
            self._end_all(key, "unsubscribed", previous, but=frozenset(map(str, body["market_tickers"])))
        return None

    def pop_ended(self) -> list[Outage]:
        """Return the outages that began with the end of a book since the last call of this method."""
        ended, self._ended = self._ended, []
        return ended

    def finish(self) -> None:
        """Process the end of the recording: end the books whose subscription may have ended before."""
        for market in [market for market, book in self._books.items() if book.ahead]:
            self._end_incomplete(market)
        for key in sorted(self._doubtful):
            self._end_all(key, *self._doubtful[key])
        self._doubtful.clear()

    # --- subscriptions ---------------------------------------------------------------------------------------------------

    def _begin_connection(self, connection: int) -> None:
        self.connections += 1
        self._connection = connection
        for key in sorted({book.key for book in self._books.values()}):
            self._end_all(key, *self._doubtful.pop(key, ("break", self._positions[key])))

    def _count(self, key: Key, seq: int, position: FramePosition) -> bool:
        """Count a frame's sequence number. Returns True if an earlier frame of the subscription had this number or a higher one."""
        numbers = self.numbers.get(key)
        previous = self._positions.get(key)
        if numbers is None:
            # Numbers begin with 1, except in a partial capture.
            numbers = self.numbers[key] = SequenceNumbers(*key, first=seq, last=seq - 1 if self.partial else 0)
        expected = numbers.last + 1
        if numbers.count(seq):
            self._gaps.append((key, expected, seq - 1, previous, position))
            if not self.partial:
                self._end_all(key, "gap", previous or position)
        if seq >= expected:
            self._doubtful.pop(key, None)
        self._positions[key] = position
        return seq < expected

    def _take_unreadable(self, connection: int, *, can_be_skipped: bool) -> None:
        """Process a frame without a readable number, which may be of any subscription, and end its books.

        can_be_skipped: the frame may have concerned no book, so that the next number of a subscription decides.
        """
        for key in [key for key in self._positions if key[0] == connection]:
            if can_be_skipped and not self.partial:
                self._doubtful.setdefault(key, ("unreadable", self._positions[key]))
            else:
                self._end_all(key, "unreadable", self._positions[key])

    def _end_subscription(self, end: SubscriptionEnd, connection: int, previous: FramePosition | None = None) -> None:
        """End the books that the end of a subscription concerns. Others that it may concern end unless their subscription continues.

        previous: last frame of the subscription before the message, if the message states the subscription.
        """
        for market, key in [(market, book.key) for market, book in self._books.items()]:
            if key[0] != connection or not (end.sid is None or key[1] == end.sid):
                continue
            start = previous if previous is not None and key[1] == end.sid else self._positions[key]
            if market in end.markets or (key[1] == end.sid and not end.markets):
                self._end(market, end.cause, start)
            else:
                self._doubtful.setdefault(key, (end.cause, start))

    # --- books -----------------------------------------------------------------------------------------------------------

    def _take_book(self, market: str, frame: _BookFrame, *, is_snapshot: bool) -> Effect:
        """Process a snapshot or a delta, and return its effect."""
        book = self._books.get(market)
        if book is not None and book.ahead and frame.clock - next(iter(book.ahead.values()))[1] > AT_ONCE:
            self._end_incomplete(market)
        if is_snapshot:
            return self._take_snapshot(market, frame)
        book = self._books.get(market)
        if book is None:
            self._note_unapplied(market, frame.key, frame.seq)
            if market not in self._open:
                self._open[market] = Outage(market, "start", *frame.key, frame.position, None)
            return Effect.UNAPPLIED
        return self._take_other_delta(market, book, frame) if book.key != frame.key else self._take_delta(market, book, frame)

    def _take_snapshot(self, market: str, frame: _BookFrame) -> Effect:
        book, key, seq = self._books.get(market), frame.key, frame.seq
        is_primary = book is not None and book.key == key
        last = book.last if book is not None and is_primary else self._unapplied.get((market, key))
        if (last is not None and seq < last) or (frame.is_late and not self.partial):
            # It arrived after changes that it does not contain, or that may have been lost.
            if is_primary:
                self._end(market, "gap", frame.position)
            return Effect.UNAPPLIED
        if book is not None and not is_primary and book.key in self._doubtful:
            self._end(market, *self._doubtful[book.key])
        elif book is not None and book.ahead:
            self._end_incomplete(market)
        book = self._books.get(market)
        compared_from = None if book is None else book.compared_from if is_primary else _end_of_lag(frame)
        self._books[market] = _Book(key, seq, seq, frame.position, frame.position, compared_from)
        outage = self._open.pop(market, None)
        if outage is not None:
            self.outages.append(replace(outage, end=frame.position))
        return Effect.RENEWED if book is not None and is_primary else Effect.OPENED

    def _take_delta(self, market: str, book: _Book, frame: _BookFrame) -> Effect:
        """Process a delta of the primary subscription."""
        seq = frame.seq
        if seq <= book.last:
            if self.partial and seq > book.opened:
                # Without it, every book since the snapshot may have been wrong.
                self._end(market, "late", book.begun)
                return Effect.UNAPPLIED
            return Effect.SUPERSEDED
        book.last = seq
        book.position = frame.position
        if book.compared_from is not None:
            content = _content_of(frame.body)
            if book.ahead.pop(content, None) is None:
                book.recent[content] = frame.clock
            for old in [old for old, at in book.recent.items() if frame.clock - at > AT_ONCE]:
                del book.recent[old]
        return Effect.CHANGED

    def _take_other_delta(self, market: str, book: _Book, frame: _BookFrame) -> Effect:
        """Process a delta of another subscription, which must be one of the primary subscription too, at most a second earlier or later.

        Directly after a snapshot, other subscriptions may still send changes that it contains.
        """
        self._note_unapplied(market, frame.key, frame.seq)
        if book.compared_from is None:
            book.compared_from = _end_of_lag(frame)
        content = _content_of(frame.body)
        if frame.clock >= book.compared_from and content not in book.recent:
            book.ahead.setdefault(content, (frame.position, frame.clock))
        return Effect.SUPERSEDED

    def _note_unapplied(self, market: str, key: Key, seq: int) -> None:
        self._unapplied[market, key] = max(seq, self._unapplied.get((market, key), seq))

    def _end_incomplete(self, market: str) -> None:
        """End a book that lacks changes of another subscription: after the last frame of its own that precedes them."""
        book = self._books[market]
        first, _ = next(iter(book.ahead.values()))
        self._end(market, "subscription", min(book.position, first))

    def _end_all(self, key: Key, cause: str, start: FramePosition, but: frozenset[str] = frozenset()) -> None:
        """End a subscription's books of all markets except `but`."""
        for market in [market for market, book in self._books.items() if book.key == key and market not in but]:
            self._end(market, cause, start)

    def _end(self, market: str, cause: str, start: FramePosition) -> None:
        """End a book after frame `start`."""
        book = self._books.pop(market)
        self._note_unapplied(market, book.key, book.last)
        outage = self._open[market] = Outage(market, cause, *book.key, start, None)
        self._ended.append(outage)

    # --- report ----------------------------------------------------------------------------------------------------------

    def gaps(self) -> Iterator[Gap]:
        """Yield the gaps in sequence numbers so far. A partial recording has one per subscription, which spans all missing numbers."""
        if self.partial:
            for key, numbers in self.numbers.items():
                if numbers.ranges:
                    first, last = numbers.ranges[0][0], numbers.ranges[-1][1]
                    yield Gap(*key, first, last, numbers.missing, None, self._positions[key], tuple(sorted(numbers.markets)))
            return
        for key, first, last, previous, following in self._gaps:
            numbers = self.numbers[key]
            yield Gap(*key, first, last, count_within(numbers.ranges, first, last), previous, following, tuple(sorted(numbers.markets)))

    def report(self, recording: str) -> GapReport:
        """Finish and return the gap report. recording: name in the report."""
        self.finish()
        numbers = tuple(self.numbers[key] for key in sorted(self.numbers))
        outages = sorted([*self.outages, *self._open.values()], key=lambda outage: (outage.start.ordinal, outage.market))
        return GapReport(recording, self.partial, self.frames, self.connections, numbers, tuple(self.gaps()), tuple(outages))


def _end_of_lag(frame: _BookFrame) -> int:
    """Return the exchange time until which other subscriptions may lag; without exchange times, they do not."""
    return frame.clock + AT_ONCE if frame.clock else 0


def _content_of(body: dict[str, Any]) -> _Content:
    """Return the change of a level that a delta's body states."""
    return tuple(body.get(name) for name in ("ts", "ts_ms", "side", "price_dollars", "price", "delta_fp", "delta"))


def build_gap_report(recording: Recording) -> GapReport:
    """Build the gap report of a recording, finished or not."""
    validator = BookValidator(partial=recording.about.partial)
    for frame in recording.frames():
        validator.take(frame, parse_message(frame.data))
    return validator.report(recording.name)


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
    }


def store_gap_summary(recording: Recording) -> dict[str, Any]:
    """Return the counts of a recording's gap report; store them if the recording is finished, so that listings need not read the frames."""
    summary = summarize_gaps(recording)
    if recording.status is RecordingStatus.FINISHED:
        write_durably(recording.folder / GAPS, dump_json(summary))
    return summary
