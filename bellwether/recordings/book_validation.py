"""Validity of the books of a recording, determined from the sequence numbers of its frames.

Each subscription that sends a snapshot of a market keeps a copy of its book. A copy is valid from the snapshot on. It ends at a skipped
number of its subscription, at the end of the connection, when the venue ends the subscription or removes the market from it, or at an
unreadable or contradictory frame. Only a new snapshot begins another copy. A market's book is valid while at least one of its copies is.
When one copy ends, the end of the others is *pending*: later frames confirm them, or they end too. The end of copies that a terminal error
may concern is pending as well.

A `key` is a subscription: (connection, subscription id). A *partial* recording lacks some of a subscription's markets, so that skipped
numbers are normal.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from bellwether.recordings.exchange_times import read_exchange_time
from bellwether.recordings.gap_report import FramePosition, Gap, GapReport, Outage
from bellwether.recordings.recording import TornSegment
from bellwether.recordings.sequence_numbers import Key, SequenceNumbers, count_within
from bellwether.venues.kalshi.stream.frame import DELTA, SNAPSHOT, Frame, parse_message, read_body, read_envelope, read_ticker
from bellwether.venues.kalshi.stream.protocol import SubscriptionEnd, read_subscription_end

#: Id of a subscription whose frames do not name one.
UNNAMED = -1
#: Number of latest frames per subscription whose checksums are stored, to recognise repeated frames.
_REMEMBERED = 4096


class Effect(Enum):
    """Effect of a book frame on its subscription's copy of the book, such as a change or a new snapshot.

    OPENED: a snapshot begins a copy. RENEWED: a snapshot replaces a valid copy. CHANGED: a delta changes a valid copy. REPEATED: an identical
    frame arrived before. SUPERSEDED: a delta is older than the copy's snapshot, or its subscription was replaced. UNAPPLIED: there is no valid copy.
    """

    OPENED = "opened"
    RENEWED = "renewed"
    CHANGED = "changed"
    REPEATED = "repeated"
    SUPERSEDED = "superseded"
    UNAPPLIED = "unapplied"


class FrameEffect(NamedTuple):
    """Effect of a book frame on the copy of `market` on subscription `key`. is_late: a frame with a higher number arrived earlier."""

    effect: Effect
    market: str
    key: Key
    is_late: bool = False


class BookEnd(NamedTuple):
    """End of a copy: the copy is invalid after frame `start` of subscription `source`; if `at` is set, from this exchange time (ns UTC)."""

    market: str
    key: Key
    cause: str
    start: FramePosition
    source: Key
    at: int | None = None


class _PendingEnd(NamedTuple):
    """Pending end of all copies of a market, withdrawn for a frame from exchange time `until` on. Other fields as in `BookEnd`."""

    start: FramePosition
    source: Key
    at: int | None
    until: int | None
    cause: str = "subscription"


@dataclass(slots=True)
class _BookCopy:
    """Valid copy of a market's book on one subscription.

    opened, last: numbers of its snapshot and its last frame; None if the subscription has no numbers.
    """

    opened: int | None
    last: int | None


class _BookFrame(NamedTuple):
    """Frame with a snapshot or a delta of a book. seq: None if the subscription has no numbers. market: None if it is not stated."""

    is_snapshot: bool
    market: str | None
    key: Key
    seq: int | None
    position: FramePosition
    is_late: bool


class BookValidator:
    """Collector of the gaps of a recording and of the ends of its books' copies; `take` receives all frames in order of arrival.

    partial: missing numbers are expected and end no copy.
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
        #: Valid copies by market and subscription, and all copies that were ever begun.
        self._copies: dict[str, dict[Key, _BookCopy]] = {}
        self._opened: set[tuple[str, Key]] = set()
        #: Highest number of a frame that changed no valid copy.
        self._unapplied: dict[tuple[str, Key], int] = {}
        #: Checksums of the latest frames of a subscription by number, oldest first.
        self._digests: dict[Key, dict[int, int]] = {}
        #: Position of the last frame of each subscription.
        self._positions: dict[Key, FramePosition] = {}
        #: Subscriptions that an unreadable frame may belong to; the next number decides.
        self._uncertain: set[Key] = set()
        #: Pending ends by market, after one of its copies has ended or was replaced.
        self._pending: dict[str, _PendingEnd] = {}
        self._connection: int | None = None
        self._body: dict[str, Any] = {}

    def take(self, frame: Frame, message: dict[str, Any]) -> FrameEffect | None:
        """Process a frame, `message` being its parsed content. Returns its effect on a copy; None without a book or a stated market."""
        position = FramePosition(frame.ordinal, frame.received_at)
        self.frames += 1
        if frame.connection != self._connection:
            self._begin_connection(frame.connection)
        kind, sid, seq = read_envelope(message)
        body = self._body = read_body(message)
        if not message and frame.data.strip():
            for key in [key for key in self._positions if key[0] == frame.connection]:
                self._take_unreadable(key)
            return None
        is_book = kind in (DELTA, SNAPSHOT)
        if (end := read_subscription_end(message)) is not None:
            self._end_subscription(end, frame.connection)
        if sid is None and not is_book:
            return None
        key = (frame.connection, UNNAMED if sid is None else sid)
        previous = self._positions.get(key, position)
        market = read_ticker(body)
        is_late = False
        if sid is not None and seq is not None:
            is_late = self._count(key, seq, position)
            numbers = self.numbers[key]
            numbers.kinds[kind or "?"] += 1
            if market is not None:
                numbers.markets.add(market)
        elif is_book:
            self._positions[key] = position
        if is_book:
            return self._take_book(_BookFrame(kind == SNAPSHOT, market, key, seq, position, is_late), frame.data)
        if kind == "ok" and type(body.get("market_tickers")) is list:
            self._end_all(key, "unsubscribed", previous, but=frozenset(map(str, body["market_tickers"])))
        return None

    def pop_ended(self) -> list[BookEnd]:
        """Return the copies that ended since the last call of this method."""
        ended, self._ended = self._ended, []
        return ended

    def finish(self) -> None:
        """Process the end of the recording: end the copies whose pending end was not withdrawn.

        Copies also end on subscriptions that an unreadable frame may belong to.
        """
        for market in list(self._pending):
            self._end_unconfirmed(market)
        for key in sorted(self._uncertain):
            self._end_all(key, "unreadable", self._positions[key])
        self._uncertain.clear()

    # --- numbers ---------------------------------------------------------------------------------------------------------

    def _begin_connection(self, connection: int) -> None:
        self.connections += 1
        self._connection = connection
        keys = {key for copies in self._copies.values() for key in copies if key[0] != connection}
        for key in sorted(keys):
            self._end_all(key, "break", self._positions[key])

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
                # The lost frames may concern the copies of the same markets on other subscriptions.
                until = read_exchange_time(self._body)
                for market in numbers.markets:
                    if self._copies.get(market):
                        self._pending.setdefault(market, _PendingEnd(previous or position, key, None, until))
        if seq >= expected:
            self._uncertain.discard(key)
        self._positions[key] = position
        return seq < expected

    def _take_unreadable(self, key: Key) -> None:
        """Process an unreadable frame that may be of subscription `key`. The next number decides; without numbers, the copies end."""
        if not self.partial and key in self.numbers:
            self._uncertain.add(key)
        elif key in self._positions:
            self._end_all(key, "unreadable", self._positions[key])

    def _is_repeated(self, book: _BookFrame, data: bytes) -> bool:
        """Return True if a late frame is identical to an earlier frame of the same number; otherwise store its checksum."""
        if book.seq is None:
            return False
        digests, digest = self._digests.setdefault(book.key, {}), zlib.crc32(data)
        if book.is_late and digests.get(book.seq) == digest:
            return True
        digests[book.seq] = digest
        if len(digests) > _REMEMBERED:
            del digests[next(iter(digests))]
        return False

    # --- copies ----------------------------------------------------------------------------------------------------------

    def _take_book(self, book: _BookFrame, data: bytes) -> FrameEffect | None:
        """Process a snapshot or a delta. Returns its effect on a copy; None if the frame states no market. data: its bytes."""
        _, market, key, seq, position, is_late = book
        if self._is_repeated(book, data):
            return None if market is None else FrameEffect(Effect.REPEATED, market, key)
        if market is None:
            if seq is None:
                self._take_unreadable(key)
            else:
                self._end_all(key, "unreadable", position)
            return None
        if is_late and seq is not None and not self.numbers[key].was_missing and seq >= self.numbers[key].first:
            # Another frame had this number, or the earlier frame is no longer stored.
            self._end_all(key, "repeated", position)
        if seq is None and key in self.numbers:
            if key in self._copies.get(market, ()):
                self._end(market, key, "unnumbered", position)
            return FrameEffect(Effect.UNAPPLIED, market, key)
        effect = self._take_snapshot(market, book) if book.is_snapshot else self._take_delta(market, book)
        return FrameEffect(effect, market, key, is_late)

    def _take_snapshot(self, market: str, book: _BookFrame) -> Effect:
        if market in self._pending:
            self._end_unconfirmed(market)
        copies, key, seq = self._copies.setdefault(market, {}), book.key, book.seq
        copy = copies.get(key)
        last = self._unapplied.get((market, key)) if copy is None else copy.last
        if seq is not None and ((last is not None and seq < last) or (book.is_late and not self.partial)):
            # It arrived after changes that it does not contain, or that may have been lost.
            if copy is not None:
                self._end(market, key, "gap", book.position)
            return Effect.UNAPPLIED
        copies[key] = _BookCopy(seq, seq)
        self._opened.add((market, key))
        outage = self._open.pop(market, None)
        if outage is not None:
            self.outages.append(replace(outage, end=book.position))
        return Effect.OPENED if copy is None else Effect.RENEWED

    def _take_delta(self, market: str, book: _BookFrame) -> Effect:
        copies, key, seq = self._copies.get(market), book.key, book.seq
        copy = None if copies is None else copies.get(key)
        if copy is None:
            if seq is not None:
                self._unapplied[market, key] = max(seq, self._unapplied.get((market, key), seq))
            return self._take_delta_without_copy(market, book)
        if seq is not None and copy.last is not None and copy.opened is not None:
            if seq <= copy.last:
                if self.partial and seq > copy.opened:
                    self._end(market, key, "late", book.position, read_exchange_time(self._body))
                    return Effect.UNAPPLIED
                return Effect.SUPERSEDED
            copy.last = seq
        if self._pending:
            self._confirm_copies(market, key)
        return Effect.CHANGED

    def _confirm_copies(self, market: str, key: Key) -> None:
        """Withdraw the pending ends of all markets of a subscription whose current frame confirms them; if partial, only of `market`."""
        at = read_exchange_time(self._body)
        for other in [market] if self.partial else [other for other in self._pending if key in self._copies[other]]:
            pending = self._pending.get(other)
            if pending is not None and (at is None or pending.until is None or at >= pending.until):
                del self._pending[other]

    def _take_delta_without_copy(self, market: str, book: _BookFrame) -> Effect:
        """Process a delta whose subscription has no valid copy of the market's book, and return its effect."""
        copies, key, position = self._copies.get(market), book.key, book.position
        if not copies:
            if market not in self._open:
                self._open[market] = Outage(market, "start", *key, position, None)
            return Effect.UNAPPLIED
        if (market, key) in self._opened:
            at = read_exchange_time(self._body)
            self._pending.setdefault(market, _PendingEnd(position, key, at, at))
            return Effect.SUPERSEDED
        for other in list(copies):
            # The snapshot was lost, perhaps with changes on the other subscriptions: their copies are complete up to their last frame.
            self._end(market, other, "subscription", self._positions.get(other, position))
        return Effect.UNAPPLIED

    def _end_unconfirmed(self, market: str) -> None:
        """End all copies of a market's book at its pending end."""
        pending = self._pending[market]
        for key in list(self._copies.get(market, ())):
            self._end(market, key, pending.cause, pending.start, pending.at)

    def _end_subscription(self, end: SubscriptionEnd, connection: int) -> None:
        """End the copies that the end of a subscription concerns. If the message leaves open whether it concerns a copy, its end is pending."""
        for market, copies in list(self._copies.items()):
            for key in [key for key in copies if key[0] == connection and (end.sid is None or key[1] in (end.sid, UNNAMED))]:
                if market in end.markets or (key[1] == end.sid and not end.markets):
                    self._end(market, key, end.cause, self._positions[key])
                else:
                    self._pending.setdefault(market, _PendingEnd(self._positions[key], key, None, None, end.cause))

    def _end_all(self, key: Key, cause: str, start: FramePosition, but: frozenset[str] = frozenset()) -> None:
        """End a subscription's copies of all markets except `but`."""
        for market in [market for market, copies in self._copies.items() if key in copies and market not in but]:
            self._end(market, key, cause, start)

    def _end(self, market: str, key: Key, cause: str, start: FramePosition, at: int | None = None) -> None:
        """End a copy after frame `start` or from exchange time `at`. A market's last copy ends at an earlier pending end instead."""
        copies = self._copies[market]
        last = copies.pop(key).last
        if last is not None:
            self._unapplied[market, key] = max(last, self._unapplied.get((market, key), last))
        ended = BookEnd(market, key, cause, start, key, at)
        pending = self._pending.get(market)
        if pending is not None and pending.start.ordinal <= start.ordinal and not copies:
            ended = BookEnd(market, key, pending.cause, pending.start, pending.source, pending.at)
        self._ended.append(ended)
        if copies:
            self._pending.setdefault(market, _PendingEnd(start, key, at, read_exchange_time(self._body)))
            return
        self._pending.pop(market, None)
        self._open[market] = Outage(market, ended.cause, *key, ended.start, None)

    # --- the report ------------------------------------------------------------------------------------------------------

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

    def report(self, recording: str, torn: Iterable[TornSegment] = ()) -> GapReport:
        """Finish and return the gap report. recording: name in the report. torn: segments with an incomplete last line."""
        self.finish()
        numbers = tuple(self.numbers[key] for key in sorted(self.numbers))
        outages = sorted([*self.outages, *self._open.values()], key=lambda outage: (outage.start.ordinal, outage.market))
        return GapReport(recording, self.partial, self.frames, self.connections, numbers, tuple(self.gaps()), tuple(outages), tuple(torn))


def validate_frames(frames: Iterable[Frame], *, partial: bool = False) -> BookValidator:
    """Return a validator that has processed these frames. partial: some markets of the subscriptions are missing."""
    validator = BookValidator(partial=partial)
    for frame in frames:
        validator.take(frame, parse_message(frame.data))
    return validator
