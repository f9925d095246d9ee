"""Books of a recording's markets: rows of their changes, and the gaps in which they are invalid.

A market's book is that of its primary subscription (`recordings.gaps`). Rows are written as if it were always valid. Rows within gaps are
removed when all gaps are known, because some gaps begin before the evidence for them, such as a later snapshot that differs or a book that
stays locked. A *place* is the number of a frame in the order of arrival (`times.Times`), a *loss* a gap given by places.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bellwether.recordings.books import BookSide, FrameReader, Levels, UnusableFrame, read_polled_books
from bellwether.recordings.exchange_times import parse_time, read_exchange_time
from bellwether.recordings.gaps import AT_ONCE, Effect, FrameEffect, Key, Outage
from bellwether.replay.episode_builder.lifecycle import Lifecycle
from bellwether.replay.episode_builder.times import Times
from bellwether.replay.tape.layout import INVALID, LEVEL, VALID
from bellwether.replay.units import DOLLAR
from bellwether.units import CentiCents, Lots
from bellwether.venues.kalshi.stream.frame import Frame

#: Columns of book rows: place of the frame, its ordinal, ticker code, kind (of `tape.layout`: a level, or valid from a snapshot on), side
#: (0 yes, 1 no), price and lots; -1 where a row has none.
BOOK = ("place", "ordinal", "ticker", "kind", "side", "price", "lots")
#: Columns of trades: side is the taker's, price the price of YES.
TRADES = ("place", "ordinal", "ticker", "side", "price", "lots")
_END = np.iinfo(np.int64).max
_NONE = -1


class Rows:
    """Rows of integers, eight bytes per value."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._values = array("q")
        self.add = self._values.extend

    def __len__(self) -> int:
        return len(self._values) // len(self._columns)

    def columns(self) -> dict[str, np.ndarray]:
        """Return the values by column, int64[rows] each. No rows can be added while the arrays are in use."""
        table = np.frombuffer(self._values, np.int64).reshape(-1, len(self._columns))
        return {name: table[:, place] for place, name in enumerate(self._columns)}


@dataclass(frozen=True, slots=True)
class BookLoss:
    """Loss of a market's book: market code, places of the frames between which the book is invalid (until -1: to the end), and cause."""

    code: int
    since: int
    until: int
    cause: str


@dataclass(frozen=True, slots=True)
class BookGap:
    """Gap of a market's book, with the times and the places between which the book is invalid.

    code: of the market. start, end: ns UTC (`_END`: end of the recording). since, until: places of the frames between which the book is
    invalid.
    """

    code: int
    start: int
    end: int
    since: int
    until: int
    causes: tuple[str, ...]

    @property
    def end_at(self) -> int | None:
        """End of the gap in ns UTC; None if it lasts to the end of the recording."""
        return None if self.end == _END else self.end


def cut_gaps(
    columns: Mapping[str, np.ndarray], times: np.ndarray, lost: Iterable[BookLoss], frames: int
) -> tuple[dict[str, np.ndarray], tuple[BookGap, ...]]:
    """Sort book rows by time, remove those within gaps, and add a row of kind INVALID at each gap's start.

    Returns the columns, with the times as `ts` (int64[rows], ns UTC, non-decreasing), and the gaps. times: of each place. frames: number of
    frames.
    """
    order = np.argsort(columns["place"], kind="stable")
    rows = {name: values[order] for name, values in columns.items()}
    rows["ts"] = times[rows["place"]]
    for code in np.unique(rows["ticker"]):
        own = np.flatnonzero(rows["ticker"] == code)
        rows["ts"][own] = np.maximum.accumulate(rows["ts"][own])
    gaps = _merge_gaps([_resolve_gap(loss, rows, times) for loss in lost])
    valid = np.ones(len(order), np.bool_)
    for gap in gaps:
        valid &= ~((rows["ticker"] == gap.code) & (rows["place"] > gap.since) & (rows["place"] < gap.until))
    marks = {
        "place": [gap.since for gap in gaps],
        "ordinal": [frames] * len(gaps),
        "ticker": [gap.code for gap in gaps],
        "kind": [INVALID] * len(gaps),
        "ts": [gap.start for gap in gaps],
    }
    joined = {
        name: np.concatenate([values[valid], np.array(marks.get(name, [_NONE] * len(gaps)), np.int64)]) for name, values in rows.items()
    }
    # A mark follows the rows of its own frame.
    places = np.lexsort((joined["kind"] == INVALID, joined["place"], joined["ts"]))
    return {name: values[places] for name, values in joined.items()}, tuple(gaps)


def _resolve_gap(loss: BookLoss, rows: Mapping[str, np.ndarray], times: np.ndarray) -> BookGap:
    """Convert a loss to a gap with times, whose start is not before the market's preceding rows. times: of each place."""
    ts, of_market = rows["ts"], rows["ticker"] == loss.code
    start = max([int(times[loss.since]), *ts[of_market & (rows["place"] <= loss.since)][-1:].tolist()])
    if loss.until < 0:
        return BookGap(loss.code, start, _END, loss.since, _END, (loss.cause,))
    own = ts[of_market & (rows["place"] == loss.until)]
    end = max(start, int(own[0]) if len(own) else int(times[loss.until]))
    return BookGap(loss.code, start, end, loss.since, loss.until, (loss.cause,))


def _merge_gaps(gaps: list[BookGap]) -> list[BookGap]:
    """Merge the overlapping gaps of each market into one."""
    merged: list[BookGap] = []
    for gap in sorted(gaps, key=lambda gap: (gap.code, gap.start, gap.since, gap.until)):
        last = merged[-1] if merged else None
        if last is None or last.code != gap.code or gap.since > last.until:
            merged.append(gap)
            continue
        causes = tuple(dict.fromkeys((*last.causes, *gap.causes)))
        merged[-1] = replace(last, end=max(last.end, gap.end), until=max(last.until, gap.until), causes=causes)
    return merged


#: Cause of a gap: changes of a book arrived before its first snapshot.
_NO_SNAPSHOT = "no snapshot"
#: Subscription of polled books, which have no changes.
_POLLED: Key = (0, 0)


class Book:
    """Both sides of a market's book on a subscription. is_proven: the sequence numbers show every lost change."""

    __slots__ = ("is_proven", "key", "sides")

    def __init__(self, key: Key, levels: Levels, *, is_proven: bool) -> None:
        self.key, self.is_proven = key, is_proven
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

    book: None from the loss of the book to the next snapshot. agreed: place of the last snapshot that began the book or agreed with it.
    crossed: place and ordinal of the last frame if it left the book crossed or locked. is_hidden: an instant ended crossed. wiped: place of
    the snapshot that emptied the book. shown: place of the first book. unapplied: places of frames that were not applied.
    """

    code: int
    lifecycle: Lifecycle
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


class Books:
    """Builder of the rows of all markets' books, from book frames and their effects.

    tickers: of the markets to build; others are ignored. partial: sequence numbers do not show losses.
    """

    def __init__(self, tickers: Collection[str], times: Times, reader: FrameReader, *, partial: bool) -> None:
        self.markets = {ticker: TrackedMarket(code, Lifecycle(ticker)) for code, ticker in enumerate(sorted(tickers))}
        self.rows = Rows(BOOK)
        self.lost: list[BookLoss] = []
        self.counts: Counter[str] = Counter()
        #: Error of the first unreadable frame of a book.
        self.unusable: UnusableFrame | None = None
        self._times, self._reader, self._partial = times, reader, partial
        self._open: dict[int, list[BookLoss]] = {}

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
                book = Book(key, self._reader.read_levels(frame, body), is_proven=not self._partial)
                self._take_snapshot(frame, market, book, place, ticker)
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
                book = Book(_POLLED, self._reader.read_levels(frame, levels), is_proven=True)
            except UnusableFrame as error:
                self._take_unusable(market, place, error)
                continue
            self._hide_if_crossed(market, place)
            previous, market.book = market.book, book
            self._write_snapshot(frame, market, previous, place)

    def end(self, outage: Outage) -> None:
        """Process the end of a market's book."""
        market = self.markets.get(outage.market)
        if market is None or market.book is None:
            return
        stream = self._stream((outage.connection, outage.sid), outage.market)
        self._invalidate(market, self._times.last(stream, outage.start.ordinal) or 0, outage.cause)

    def _stream(self, key: Key, ticker: str) -> Hashable:
        """Return the key of the frames that are in order: the subscription, in a partial recording with the market."""
        return (key, ticker) if self._partial else key

    def finish(self) -> None:
        """Process the end of the recording. A book that is lost then is lost to the end."""
        for market in self.markets.values():
            self._hide_if_crossed(market, None)
        for losses in self._open.values():
            self.lost += losses
        self._open = {}
        self.lost.sort(key=lambda loss: (loss.since, loss.code))

    # --- snapshots -------------------------------------------------------------------------------------------------------

    def _take_snapshot(self, frame: Frame, market: TrackedMarket, book: Book, place: int, ticker: str) -> None:
        """Process a snapshot, which begins the book, confirms it, empties it, or shows that changes were lost before.

        After the last frame of a subscription with numbers, the next one may send changes that this one lacks.
        """
        self._hide_if_crossed(market, place)
        previous = market.book
        is_wiped = previous is not None and book.is_empty and not previous.is_empty
        if previous is not None and not is_wiped and (count := len(previous.differences(book))):
            self.counts["snapshots_that_differ"] += 1
            since = market.agreed
            if previous.is_proven and previous.key != book.key:
                since = self._times.last(self._stream(previous.key, ticker), frame.ordinal) or 0
            self._invalidate(market, since, f"snapshot at frame {frame.ordinal} differs in {count} level{'' if count == 1 else 's'}")
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
                self.rows.add((place, frame.ordinal, market.code, LEVEL, side, price, lots))
        self._track_crossing(market, place, frame.ordinal)

    def _write_book(self, market: TrackedMarket, place: int, ordinal: int) -> None:
        """Write rows for all levels of the book, which ends the market's open losses."""
        assert market.book is not None
        market.is_hidden = False
        market.shown = place if market.shown is None else market.shown
        self.lost += [replace(loss, until=place) for loss in self._open.pop(market.code, ())]
        self.rows.add((place, ordinal, market.code, VALID, _NONE, _NONE, _NONE))
        for side, bids in enumerate(market.book.sides):
            for price in sorted(bids.levels, reverse=True):
                self.rows.add((place, ordinal, market.code, LEVEL, side, price, bids.levels[price]))

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
            self._invalidate(market, place if book.is_proven else market.agreed, f"level below zero at frame {ordinal}")
            return
        if lots:
            market.was_filled, market.wiped = True, None
        if not market.is_hidden:
            self.rows.add((place, ordinal, market.code, LEVEL, side, price, lots))
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
            self._begin_loss(market, crossed[0], book.crossing)
        end = self._times.latest if place is None else self._times.clock(place)
        if not book.is_proven and end - self._times.clock(crossed[0]) > AT_ONCE:
            self._invalidate(market, market.agreed, f"{book.crossing} from frame {crossed[1]} on")

    # --- losses ----------------------------------------------------------------------------------------------------------

    def _count_unapplied(self, market: TrackedMarket, place: int) -> None:
        """Record a frame that was not applied to the book of its market."""
        self.counts["unapplied"] += 1
        market.unapplied.append(place)

    def _invalidate(self, market: TrackedMarket, since: int, cause: str) -> None:
        """Lose a market's book after the frame at place `since`, until the next snapshot."""
        if market.book is None and any(loss.since <= since for loss in self._open.get(market.code, ())):
            return
        self._begin_loss(market, since, cause)
        market.book, market.crossed, market.is_hidden = None, None, False

    def _begin_loss(self, market: TrackedMarket, since: int, cause: str) -> None:
        """Begin a loss of a market's book after the frame at place `since`."""
        # A lost frame after an undated one may be older than the time assumed for the undated one.
        since = self._times.last_dated_place(since)
        self._open.setdefault(market.code, []).append(BookLoss(market.code, since, _NONE, cause))
