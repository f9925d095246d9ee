"""Missing data of a recording: skipped sequence numbers, and the periods in which a market has no valid book.

The *primary* subscription of a market is the one that sent its latest snapshot. A book is valid from that snapshot on. It ends at a skipped
number of its subscription, at the end of the connection, when the venue ends the subscription or removes the market from it, and at an
unreadable or contradictory frame. Only a snapshot begins the next.

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

from bellwether.recordings.recording import Recording
from bellwether.venues.kalshi.stream.frame import (
    DELTA,
    SNAPSHOT,
    Frame,
    SubscriptionEnd,
    parse_message,
    read_body,
    read_envelope,
    read_subscription_end,
    read_ticker,
)

#: Key of a subscription: the ordinal of its connection, and its id there.
Key = tuple[int, int]


# --- report --------------------------------------------------------------------------------------------------------------


class FramePosition(NamedTuple):
    """Position of a frame: its ordinal and time of receipt (ns since 1970, UTC)."""

    ordinal: int
    received_at: int | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing data of a subscription after frame `start` (None: its first) up to frame `end` (None: the end of the recording).

    kind: `book` for a period without a valid book of a market, which a snapshot ends; otherwise the numbers `first_seq` to `last_seq` were
    skipped: `lost`, or `partial` in a recording that lacks other markets. missing: how many of them never arrived later.

    cause: of a book: gap (a number was skipped), break (the connection ended), start (the first frame of the market was not a snapshot),
    unsubscribed (its changes were no longer sent), error with a code (the venue ended its subscription), late (a change came after later
    ones) or unreadable.
    """

    kind: str
    connection: int
    sid: int
    start: FramePosition | None
    end: FramePosition | None
    markets: tuple[str, ...]
    cause: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    missing: int | None = None


@dataclass(frozen=True, slots=True)
class GapReport:
    """Missing data of a recording. partial: numbers of frames of markets outside the recording are skipped, so that gaps are normal."""

    recording: str
    partial: bool
    frames: int
    connections: int
    numbers: tuple[SequenceNumbers, ...]
    gaps: tuple[Gap, ...]
    outages: tuple[Gap, ...]

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

    def describe(self) -> str:
        """Return the number of frames and of lost ones as text."""
        return f"{self.frames:,} frames, {'holes expected' if self.partial else f'{self.lost} lost'}"

    @property
    def inversions(self) -> int:
        """Number of frames that arrived after a frame with a higher number."""
        return sum(numbers.inversions for numbers in self.numbers)


class Arrival(Enum):
    """Place of a sequence number among the earlier ones: the next one, after skipped ones, after a higher one, or received before."""

    NEXT = "next"
    AFTER_GAP = "after gap"
    LATE = "late"
    REPEATED = "repeated"


@dataclass(slots=True)
class SequenceNumbers:
    """Received and missing sequence numbers of one subscription.

    ranges: missing numbers as (first, last), inclusive, in ascending order. kinds: frames by type.
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

    @property
    def missing(self) -> int:
        """Number of skipped sequence numbers that never arrived."""
        return sum(last - first + 1 for first, last in self.ranges)

    def count(self, seq: int) -> Arrival:
        """Count a received sequence number."""
        self.received += 1
        if seq > self.last:
            is_next = seq == self.last + 1
            if not is_next:
                self.ranges.append((self.last + 1, seq - 1))
            self.last = seq
            return Arrival.NEXT if is_next else Arrival.AFTER_GAP
        if self._fill(seq):
            self.inversions += 1
            return Arrival.LATE
        self.duplicates += 1
        return Arrival.REPEATED if seq >= self.first else Arrival.LATE

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

    OPENED: a snapshot begins or renews the book. CHANGED: a delta changes a valid book. REPEATED: a frame of this number arrived before.
    SUPERSEDED: a delta is older than the book's snapshot, or of another subscription. UNAPPLIED: there is no valid book.
    """

    OPENED = "opened"
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


class _Book(NamedTuple):
    """Valid book of a market: its primary subscription, and the number and the position of its snapshot."""

    key: Key
    opened: int
    begun: FramePosition


class BookValidator:
    """Collector of the gaps of a recording and of the ends of its books; `take` receives all frames in order of arrival.

    partial: missing numbers are expected and end no book.
    """

    def __init__(self, *, partial: bool = False) -> None:
        self.partial = partial
        self.numbers: dict[Key, SequenceNumbers] = {}
        self.frames = 0
        self.connections = 0
        self.outages: list[Gap] = []
        self._ended: list[Gap] = []
        self._gaps: list[tuple[Key, int, int, FramePosition | None, FramePosition]] = []
        self._open: dict[str, Gap] = {}
        self._books: dict[str, _Book] = {}
        #: Highest number of a book frame, by market and subscription.
        self._latest: dict[tuple[str, Key], int] = {}
        #: Position of the last frame of each subscription.
        self._positions: dict[Key, FramePosition] = {}
        self._connection: int | None = None

    def take(self, frame: Frame, message: dict[str, Any]) -> FrameEffect | None:
        """Process a frame, `message` being its parsed content. Returns its effect on a book; None without a book or a stated market."""
        position = FramePosition(frame.ordinal, frame.received_at)
        self.frames += 1
        if frame.connection != self._connection:
            self.connections += 1
            self._end_connection(self._connection, "break")
            self._connection = frame.connection
        kind, sid, seq = read_envelope(message)
        body, is_book, end = read_body(message), kind in (DELTA, SNAPSHOT), read_subscription_end(message)
        if sid is None or seq is None:
            if end is not None:
                self._end_subscription(end)
            elif (is_book or (not message and frame.data.strip())) and (self.partial or read_ticker(body) is not None):
                # Otherwise the missing number of an unreadable frame shows which books it concerned.
                self._end_connection(frame.connection, "unreadable")
            return None
        key = (frame.connection, sid)
        previous = self._positions.get(key, position)
        market = read_ticker(body)
        arrival = self._count(key, seq, position)
        numbers = self.numbers[key]
        numbers.kinds[kind or "?"] += 1
        numbers.markets |= set() if market is None else {market}
        if end is not None:
            self._end_subscription(end, previous)
        if is_book and market is None:
            # It may concern any book of its subscription.
            self._end_all(key, "unreadable", position)
        elif is_book and market is not None:
            return self._take_book(market, key, seq, position, arrival, is_snapshot=kind == SNAPSHOT)
        elif kind == "ok" and type(body.get("market_tickers")) is list:
            self._end_all(key, "unsubscribed", previous, but=frozenset(map(str, body["market_tickers"])))
        return None

    def pop_ended(self) -> list[Gap]:
        """Return the gaps that began with the end of a book since the last call of this method."""
        ended, self._ended = self._ended, []
        return ended

    # --- subscriptions ---------------------------------------------------------------------------------------------------

    def _count(self, key: Key, seq: int, position: FramePosition) -> Arrival:
        """Count a frame's sequence number. A gap ends the books of the subscription, except in a partial recording."""
        numbers = self.numbers.get(key)
        previous = self._positions.get(key)
        if numbers is None:
            # Numbers begin with 1, except in a partial capture.
            numbers = self.numbers[key] = SequenceNumbers(*key, first=seq, last=seq - 1 if self.partial else 0)
        expected = numbers.last + 1
        arrival = numbers.count(seq)
        if arrival is Arrival.AFTER_GAP and not self.partial:
            self._gaps.append((key, expected, seq - 1, previous, position))
            self._end_all(key, "gap", previous or position)
        self._positions[key] = position
        return arrival

    def _end_subscription(self, end: SubscriptionEnd, previous: FramePosition | None = None) -> None:
        """End the books that the end of a subscription concerns; without a stated subscription, those of the connection.

        previous: last frame of the subscription before the message, if the message is numbered.
        """
        for market, book in list(self._books.items()):
            if end.sid in (None, book.key[1]) and (not end.markets or market in end.markets):
                self._end(market, end.cause, previous or self._positions[book.key])

    def _end_connection(self, connection: int | None, cause: str) -> None:
        """End the books of a connection, each after the last frame of its subscription."""
        for key in [key for key in self._positions if key[0] == connection]:
            self._end_all(key, cause, self._positions[key])

    # --- books -----------------------------------------------------------------------------------------------------------

    def _take_book(self, market: str, key: Key, seq: int, position: FramePosition, arrival: Arrival, *, is_snapshot: bool) -> FrameEffect:
        """Process a snapshot or a delta, and return its effect."""
        if arrival is Arrival.REPEATED:
            return FrameEffect(Effect.REPEATED, market, key)
        latest = self._latest.get((market, key), -1)
        self._latest[market, key] = max(latest, seq)
        is_late = arrival is Arrival.LATE
        if is_snapshot:
            # A late snapshot lacks changes that have arrived, or that may have been lost.
            effect = self._take_snapshot(market, key, seq, position, is_late=seq < latest or (is_late and not self.partial))
        else:
            effect = self._take_delta(market, key, seq, position, is_late=seq <= latest)
        return FrameEffect(effect, market, key, is_late)

    def _take_snapshot(self, market: str, key: Key, seq: int, position: FramePosition, *, is_late: bool) -> Effect:
        """Process a snapshot, whose subscription becomes the primary one. is_late: changes after it have already arrived."""
        if is_late:
            if market in self._books and self._books[market].key == key:
                self._end(market, "gap", position)
            return Effect.UNAPPLIED
        self._books[market] = _Book(key, seq, position)
        outage = self._open.pop(market, None)
        if outage is not None:
            self.outages.append(replace(outage, end=position))
        return Effect.OPENED

    def _take_delta(self, market: str, key: Key, seq: int, position: FramePosition, *, is_late: bool) -> Effect:
        """Process a delta. is_late: a frame of the market with a higher number arrived earlier."""
        book = self._books.get(market)
        if book is None:
            self._open.setdefault(market, Gap("book", *key, position, None, (market,), "start"))
            return Effect.UNAPPLIED
        if book.key == key and is_late and self.partial and seq > book.opened:
            # Without it, every book since the snapshot may have been wrong.
            self._end(market, "late", book.begun)
            return Effect.UNAPPLIED
        return Effect.SUPERSEDED if book.key != key or is_late else Effect.CHANGED

    def _end_all(self, key: Key, cause: str, start: FramePosition, but: frozenset[str] = frozenset()) -> None:
        """End a subscription's books of all markets except `but`."""
        for market in [market for market, book in self._books.items() if book.key == key and market not in but]:
            self._end(market, cause, start)

    def _end(self, market: str, cause: str, start: FramePosition) -> None:
        """End a book after frame `start`."""
        book = self._books.pop(market)
        gap = self._open[market] = Gap("book", *book.key, start, None, (market,), cause)
        self._ended.append(gap)

    # --- report ----------------------------------------------------------------------------------------------------------

    def gaps(self) -> Iterator[Gap]:
        """Yield the gaps in sequence numbers so far. A partial recording has one per subscription, which spans all missing numbers."""
        for key, first, last, previous, following in self._gaps:
            numbers = self.numbers[key]
            missing = count_within(numbers.ranges, first, last)
            yield Gap("lost", *key, previous, following, tuple(sorted(numbers.markets)), None, first, last, missing)
        for key, numbers in self.numbers.items() if self.partial else ():
            if numbers.ranges:
                span = numbers.ranges[0][0], numbers.ranges[-1][1]
                yield Gap("partial", *key, None, self._positions[key], tuple(sorted(numbers.markets)), None, *span, numbers.missing)

    def report(self, recording: str) -> GapReport:
        """Return the gap report. recording: name in the report."""
        numbers = tuple(self.numbers[key] for key in sorted(self.numbers))
        outages = sorted([*self.outages, *self._open.values()], key=lambda gap: (gap.start.ordinal if gap.start else 0, gap.markets))
        return GapReport(recording, self.partial, self.frames, self.connections, numbers, tuple(self.gaps()), tuple(outages))


def build_gap_report(recording: Recording) -> GapReport:
    """Build the gap report of a recording, finished or not."""
    validator = BookValidator(partial=recording.about.partial)
    for frame in recording.frames():
        validator.take(frame, parse_message(frame.data))
    return validator.report(recording.name)
