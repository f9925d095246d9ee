"""Books of a recording's markets: rows of their changes, and the gaps in which they are invalid.

A market's book is that of its primary subscription (`recordings.gaps`). Some gaps begin before the evidence for them, such as a later snapshot
that differs or a book that stays locked; the rows since then are removed. A *place* is the number of a frame in the order of arrival
(`times.Times`).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bellwether.recordings.books import BookSide, FrameReader, Levels, UnusableFrame, read_polled_books
from bellwether.recordings.exchange_times import SECOND, parse_time, read_exchange_time
from bellwether.recordings.gaps import Effect, FrameEffect, Gap, Key
from bellwether.replay.episode_builder.lifecycle import Lifecycle
from bellwether.replay.episode_builder.times import Times
from bellwether.replay.tape.layout import INVALID, LEVEL, VALID
from bellwether.replay.units import DOLLAR
from bellwether.units import CentiCents, Lots
from bellwether.venues.kalshi.stream.frame import Frame

#: Columns of book rows: place of the frame, its ordinal, kind (of `tape.layout`: a level, or valid from a snapshot on), side (0 yes, 1 no),
#: price and lots; -1 where a row has none.
BOOK = ("place", "ordinal", "kind", "side", "price", "lots")
#: Columns of trades: side is the taker's, price the price of YES.
TRADES = ("place", "ordinal", "ticker", "side", "price", "lots")
_NONE = -1
#: Maximum duration of an action of the exchange, ns.
_ACTION = SECOND
#: Cause of a gap: changes of a book arrived before its first snapshot.
_NO_SNAPSHOT = "no snapshot"


class Rows:
    """Rows of integers, eight bytes per value. The first column is the place, which never decreases."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._values = array("q")
        self.add = self._values.extend

    def __len__(self) -> int:
        return len(self._values) // len(self._columns)

    def remove_after(self, place: int) -> None:
        """Remove the rows of later places."""
        width = len(self._columns)
        while len(self) and self._values[-width] > place:
            del self._values[-width:]

    def columns(self) -> dict[str, np.ndarray]:
        """Return the values by column, int64[rows] each. No rows can be added while the arrays are in use."""
        table = np.frombuffer(self._values, np.int64).reshape(-1, len(self._columns))
        return {name: table[:, place] for place, name in enumerate(self._columns)}


@dataclass(slots=True)
class BookGap:
    """Gap of a market's book, which is invalid after the frame at place `since` up to the one at place `until` (None: to the end).

    start, end: its times in ns UTC, set by `resolve_rows`.
    """

    since: int
    until: int | None
    causes: tuple[str, ...]
    start: int = 0
    end: int | None = None

    def contains(self, place: int) -> bool:
        """Return True if the book is invalid at a place."""
        return self.since <= place and (self.until is None or place < self.until)


class Book:
    """Both sides of a market's book."""

    __slots__ = ("sides",)

    def __init__(self, levels: Levels) -> None:
        self.sides = BookSide(levels[0]), BookSide(levels[1])

    @property
    def is_empty(self) -> bool:
        """True if both sides are empty."""
        return not self.sides[0].levels and not self.sides[1].levels

    @property
    def is_crossed(self) -> bool:
        """True if the book is crossed or locked, and thus invalid: the best bids of both sides add up to a dollar or more."""
        yes, no = self.sides[0].best, self.sides[1].best
        return yes + no >= DOLLAR and yes > 0 and no > 0

    @property
    def crossing(self) -> str:
        """Name of the fault of a crossed or locked book, as text for errors."""
        return "crossed book" if self.sides[0].best + self.sides[1].best > DOLLAR else "locked book"

    def differences(self, other: Book) -> set[tuple[int, int]]:
        """Return the levels (side, price) at which the sizes of this book and of `other` differ."""
        return {
            (side, price)
            for side, (mine, theirs) in enumerate(zip(self.sides, other.sides, strict=True))
            for price, _ in mine.levels.items() ^ theirs.levels.items()
        }


@dataclass(slots=True)
class TrackedMarket:
    """State of one market while a recording is read.

    rows, gaps: of its book. book: None from the loss of the book to the next snapshot. agreed: place of the last snapshot that began the book
    or agreed with it. crossed: place and ordinal of the last frame if it left the book crossed or locked. is_hidden: an instant ended crossed.
    wiped: place of the snapshot that emptied the book. shown: place of the first book. unapplied: places of frames that were not applied.
    """

    code: int
    lifecycle: Lifecycle
    rows: Rows = field(default_factory=lambda: Rows(BOOK))
    gaps: list[BookGap] = field(default_factory=list)
    book: Book | None = None
    agreed: int = 0
    crossed: tuple[int, int] | None = None
    is_hidden: bool = False
    was_filled: bool = False
    wiped: int | None = None
    shown: int | None = None
    unapplied: array[int] = field(default_factory=lambda: array("q"))
    last_trade: int | None = None
    last_price: CentiCents | None = None
    connection: int = 0

    @property
    def open_gap(self) -> BookGap | None:
        """Gap that has not ended; None without one."""
        return self.gaps[-1] if self.gaps and self.gaps[-1].until is None else None

    def begin_gap(self, since: int, cause: str) -> None:
        """Begin a gap after the frame at place `since`, which joins gaps that end later, and remove the rows in it."""
        causes: tuple[str, ...] = (cause,)
        while self.gaps and (self.gaps[-1].until is None or self.gaps[-1].until >= since):
            last = self.gaps.pop()
            causes = (*causes, *last.causes) if since < last.since else (*last.causes, *causes)
            since = min(since, last.since)
        self.rows.remove_after(since)
        self.gaps.append(BookGap(since, None, tuple(dict.fromkeys(causes))))

    def resolve_rows(self, times: np.ndarray, frames: int) -> dict[str, np.ndarray]:
        """Return the rows by column, with a row of kind INVALID after those up to each gap's `since`, and their times; set the gaps' times.

        The column `ts` is int64[rows], ns UTC, non-decreasing. times: of each place. frames: number of frames.
        """
        columns = self.rows.columns()
        since = np.array([gap.since for gap in self.gaps], np.int64)
        marks = np.searchsorted(columns["place"], since, side="right")
        values: dict[str, Any] = {"place": since, "ordinal": frames, "kind": INVALID}
        rows = {name: np.insert(column, marks, values.get(name, _NONE)) for name, column in columns.items()}
        rows["ts"] = np.maximum.accumulate(times[rows["place"]])
        for gap, mark in zip(self.gaps, (marks + np.arange(len(marks))).tolist(), strict=True):
            gap.start, gap.end = int(rows["ts"][mark]), None if gap.until is None else int(rows["ts"][mark + 1])
        return rows


class Books:
    """Builder of the rows of all markets' books, from book frames and their effects.

    tickers: of the markets to build; others are ignored. partial: sequence numbers do not show losses.
    """

    def __init__(self, tickers: Collection[str], times: Times, reader: FrameReader, *, partial: bool) -> None:
        self.markets = {ticker: TrackedMarket(code, Lifecycle(ticker)) for code, ticker in enumerate(sorted(tickers))}
        self.counts: Counter[str] = Counter()
        #: Error of the first unreadable frame of a book.
        self.unusable: UnusableFrame | None = None
        self._times, self._reader, self._partial = times, reader, partial

    @property
    def has_rows(self) -> bool:
        """True if any book has been readable."""
        return any(len(market.rows) for market in self.markets.values())

    def take(self, frame: Frame, body: dict[str, Any], frame_effect: FrameEffect) -> None:
        """Process a snapshot or delta. frame_effect: effect of the frame on its market's book, as determined by the sequence numbers."""
        effect, ticker, key, is_late = frame_effect
        market = self.markets.get(ticker)
        if market is None:
            return
        if effect in (Effect.REPEATED, Effect.SUPERSEDED):
            self.counts[effect.value] += 1
            return
        # A late frame is out of its subscription's order, and does not affect its times.
        out_of_order = effect is Effect.UNAPPLIED and is_late
        at, stream = read_exchange_time(body), self._stream(key, ticker)
        place = self._times.add(at, frame.received_at, aside=out_of_order, stream=stream, ordinal=frame.ordinal)
        if effect is Effect.UNAPPLIED or (effect is Effect.CHANGED and market.book is None):
            if market.shown is None:
                self._invalidate(market, place, _NO_SNAPSHOT)
            self._count_unapplied(market, place)
            return
        try:
            if effect is Effect.CHANGED:
                self._change(market, place, frame.ordinal, self._reader.read_change(frame, body))
            else:
                self._take_snapshot(frame, market, Book(self._reader.read_levels(frame, body)), place)
        except UnusableFrame as error:
            self._count_unapplied(market, place)
            self._take_unusable(market, place, error)

    def _take_unusable(self, market: TrackedMarket, place: int, error: UnusableFrame) -> None:
        """Invalidate a market's book because of an unreadable frame. place: of the frame."""
        self.counts["malformed"] += 1
        self.unusable = self.unusable or error
        self._invalidate(market, place, error.problem)

    def take_polled(self, frame: Frame, message: dict[str, Any], body: dict[str, Any]) -> None:
        """Process a page of polled books."""
        fetched = message.get("fetched_at")
        place: int | None = None
        for ticker, levels in read_polled_books(body):
            market = self.markets.get(ticker)
            if market is None:
                continue
            if market.book is not None and market.connection not in (0, frame.connection):
                self._invalidate(market, self._times.last(None, frame.ordinal) or 0, "break")
            market.connection = frame.connection
            if place is None:
                place = self._times.add(parse_time(fetched) if type(fetched) is str else None, frame.received_at, ordinal=frame.ordinal)
            try:
                book = Book(self._reader.read_polled_levels(frame, levels))
            except UnusableFrame as error:
                self._take_unusable(market, place, error)
                continue
            self._hide_if_crossed(market, place)
            previous, market.book = market.book, book
            self._write_snapshot(frame, market, previous, place)

    def end(self, gap: Gap) -> None:
        """Process the end of a market's book, which begins a gap."""
        [ticker] = gap.markets
        market = self.markets.get(ticker)
        if market is None or market.book is None:
            return
        assert gap.start is not None and gap.cause is not None
        stream = self._stream((gap.connection, gap.sid), ticker)
        self._invalidate(market, self._times.last(stream, gap.start.ordinal) or 0, gap.cause)

    def _stream(self, key: Key, ticker: str) -> Hashable:
        """Return the key of the frames that are in order: the subscription, in a partial recording with the market."""
        return (key, ticker) if self._partial else key

    def finish(self) -> None:
        """Process the end of the recording."""
        for market in self.markets.values():
            self._hide_if_crossed(market, None)

    # --- snapshots -------------------------------------------------------------------------------------------------------

    def _take_snapshot(self, frame: Frame, market: TrackedMarket, book: Book, place: int) -> None:
        """Process a snapshot, which begins the book, confirms it, empties it, or shows that changes were lost before."""
        self._hide_if_crossed(market, place)
        previous = market.book
        is_wiped = previous is not None and book.is_empty and not previous.is_empty
        if previous is not None and not is_wiped and (count := len(previous.differences(book))):
            self.counts["snapshots_that_differ"] += 1
            self._invalidate(
                market, market.agreed, f"snapshot at frame {frame.ordinal} differs in {count} level{'' if count == 1 else 's'}"
            )
            previous = None
        elif previous is not None and not is_wiped:
            self.counts["snapshots_that_agree"] += 1
        market.book, market.agreed = book, place
        self._write_snapshot(frame, market, previous, place)

    def _write_snapshot(self, frame: Frame, market: TrackedMarket, previous: Book | None, place: int) -> None:
        """Write rows for the book after a snapshot: differences from the previous book, or all levels without one."""
        book = market.book
        assert book is not None
        if not book.is_empty:
            market.was_filled, market.wiped = True, None
        elif market.was_filled and market.wiped is None:
            market.wiped = place
        if previous is None or market.is_hidden:
            self._write_book(market, place, frame.ordinal)
        else:
            for side, price in sorted(previous.differences(book), key=lambda level: (level[0], -level[1])):
                lots = book.sides[side].levels.get(price, 0)
                market.rows.add((place, frame.ordinal, LEVEL, side, price, lots))
        self._track_crossing(market, place, frame.ordinal)

    def _write_book(self, market: TrackedMarket, place: int, ordinal: int) -> None:
        """Write rows for all levels of the book, which ends the market's open gap."""
        assert market.book is not None
        market.is_hidden = False
        market.shown = place if market.shown is None else market.shown
        if market.open_gap is not None:
            market.open_gap.until = place
        market.rows.add((place, ordinal, VALID, _NONE, _NONE, _NONE))
        for side, bids in enumerate(market.book.sides):
            for price in sorted(bids.levels, reverse=True):
                market.rows.add((place, ordinal, LEVEL, side, price, bids.levels[price]))

    # --- changes ---------------------------------------------------------------------------------------------------------

    def _change(self, market: TrackedMarket, place: int, ordinal: int, change: tuple[int, CentiCents, Lots]) -> None:
        """Change a level of the book and write a row. A hidden book is written whole once it is no longer crossed."""
        side, price, by = change
        self._hide_if_crossed(market, place)
        book = market.book
        if book is None:
            self._count_unapplied(market, place)
            return
        lots = book.sides[side].change(price, by)
        if lots < 0:
            self.counts["below_zero"] += 1
            self._count_unapplied(market, place)
            self._invalidate(market, market.agreed if self._partial else place, f"level below zero at frame {ordinal}")
            return
        if lots:
            market.was_filled, market.wiped = True, None
        if not market.is_hidden:
            market.rows.add((place, ordinal, LEVEL, side, price, lots))
        elif not book.is_crossed:
            self._write_book(market, place, ordinal)
        self._track_crossing(market, place, ordinal)

    def _track_crossing(self, market: TrackedMarket, place: int, ordinal: int) -> None:
        """Record whether the book is crossed or locked after the frame at `place`."""
        assert market.book is not None
        if not market.book.is_crossed:
            market.crossed = None
        elif not market.is_hidden:
            market.crossed = (place, ordinal)

    def _hide_if_crossed(self, market: TrackedMarket, place: int | None) -> None:
        """Hide a book that was crossed or locked at the end of an instant, because changes are missing then. place: of the next frame.

        Within an instant, the changes of one action of the exchange arrive one by one. If the sequence numbers show no loss, the book is
        valid again when it uncrosses. Otherwise a book crossed for longer than an action takes has lost changes at an unknown time.
        """
        book, crossed = market.book, market.crossed
        if book is None or crossed is None or (place is not None and self._times.are_one_instant(crossed[0], place)):
            return
        if not market.is_hidden:
            self.counts["crossed"] += 1
            market.is_hidden = True
            self._begin_gap(market, crossed[0], book.crossing)
        end = self._times.latest if place is None else self._times.clock(place)
        if self._partial and end - self._times.clock(crossed[0]) > _ACTION:
            self._invalidate(market, market.agreed, f"{book.crossing} from frame {crossed[1]} on")

    # --- gaps ------------------------------------------------------------------------------------------------------------

    def _count_unapplied(self, market: TrackedMarket, place: int) -> None:
        """Record a frame that was not applied to the book of its market."""
        self.counts["unapplied"] += 1
        market.unapplied.append(place)

    def _invalidate(self, market: TrackedMarket, since: int, cause: str) -> None:
        """Lose a market's book after the frame at place `since`, until the next snapshot."""
        gap = market.open_gap
        if market.book is None and gap is not None and gap.since <= since:
            return
        self._begin_gap(market, since, cause)
        market.book, market.crossed, market.is_hidden = None, None, False

    def _begin_gap(self, market: TrackedMarket, since: int, cause: str) -> None:
        """Begin a gap of a market's book after the frame at place `since`."""
        # A lost frame after an undated one may be older than the time assumed for the undated one.
        market.begin_gap(self._times.last_dated_place(since), cause)
