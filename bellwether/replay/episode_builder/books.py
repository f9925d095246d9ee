"""Books of a recording's markets: rows of their changes, and the gaps in which they are invalid.

Each subscription has a copy of a market's book. One copy is *displayed*: its changes become rows. Rows are written as if the displayed copy
were always valid. Rows within gaps are removed when all gaps are known, because some gaps begin before the evidence for them, such as a
later snapshot that differs or a book that stays locked. A *place* is the number of a frame in the order of arrival (`times.Times`), a
*loss* a gap given by places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable
from dataclasses import replace
from typing import Any

from bellwether.recordings.book_validation import BookEnd, BookValidator, Effect, FrameEffect
from bellwether.recordings.exchange_times import parse_time, read_exchange_time
from bellwether.recordings.sequence_numbers import Key
from bellwether.replay.episode_builder.columns import BOOK, LEVEL, SNAPSHOT_START, Rows
from bellwether.replay.episode_builder.gaps import BookLoss
from bellwether.replay.episode_builder.lifecycle import Lifecycle
from bellwether.replay.episode_builder.messages import FrameReader, Levels, UnusableFrame, read_polled_books
from bellwether.replay.episode_builder.subscriptions import AT_ONCE, Change, Comparison, SubscribedBook, TrackedMarket
from bellwether.replay.episode_builder.times import Times
from bellwether.venues.kalshi.stream.frame import Frame

_NONE = -1
_EVER = 2**62
#: Cause of a gap: the copies of a book on several subscriptions differ.
_DIFFER = "subscriptions differ"
#: Cause of a gap: changes of a book arrived before its first snapshot.
_NO_SNAPSHOT = "no snapshot"
#: Subscription of polled books, which have no changes.
_POLLED: Key = (0, 0)


class Books:
    """Builder of the rows of all markets' books, from book frames and their effects on the copies.

    tickers: of the markets to build; others are ignored. validator: its sequence numbers show losses.
    """

    def __init__(self, tickers: Collection[str], times: Times, reader: FrameReader, validator: BookValidator) -> None:
        self.markets = {ticker: TrackedMarket(code, Lifecycle(ticker)) for code, ticker in enumerate(sorted(tickers))}
        self._tickers = list(self.markets)
        self.rows = Rows(BOOK)
        self.lost: list[BookLoss] = []
        self.counts: Counter[str] = Counter()
        #: Error of the first unreadable frame of a book.
        self.unusable: UnusableFrame | None = None
        self._times, self._reader, self._validator = times, reader, validator
        self._open: dict[int, list[BookLoss]] = {}

    def take(self, frame: Frame, body: dict[str, Any], frame_effect: FrameEffect) -> None:
        """Process a snapshot or delta. frame_effect: effect of the frame on a copy, as determined by the sequence numbers."""
        effect, ticker, key, is_late = frame_effect
        market = self.markets.get(ticker)
        if market is None:
            return
        if effect in (Effect.REPEATED, Effect.SUPERSEDED):
            self.counts[effect.value] += 1
            return
        at, stream = read_exchange_time(body), self._stream(key, ticker)
        # A late frame is out of its subscription's order, and does not affect its times.
        out_of_order = effect is Effect.UNAPPLIED and is_late
        place = self._times.add(at, frame.received_at, aside=out_of_order, stream=stream, ordinal=frame.ordinal)
        self._resolve_overdue(market)
        if effect is Effect.UNAPPLIED or (effect is Effect.CHANGED and key not in market.copies):
            if market.shown is None:
                self._invalidate_displayed(market, place, _NO_SNAPSHOT)
            self._count_unapplied(market, place)
            if effect is Effect.CHANGED and market.displayed is not None:
                self._invalidate_copies(market, place, _DIFFER)
            return
        try:
            if effect is Effect.CHANGED:
                side, price, by = self._reader.read_change(frame, body)
                old: Any = market.copies[key].sides[side].levels.get(price, 0)
                change = Change(place, frame.ordinal, side, price, old + by, old, self._times.clock(place), (at, side, price, by))
                self._change(frame, market, key, change)
            else:
                self._snapshot(frame, market, key, self._reader.read_levels(frame, body), place)
        except UnusableFrame as error:
            self._count_unapplied(market, place)
            self._take_unusable(market, place, error)

    def _take_unusable(self, market: TrackedMarket, place: int, error: UnusableFrame) -> None:
        """Invalidate all copies of a market's book because of an unreadable frame. place: of the frame."""
        self.counts["malformed"] += 1
        self.unusable = self.unusable or error
        self._invalidate_copies(market, place, error.problem)

    def take_polled(self, frame: Frame, message: dict[str, Any], body: dict[str, Any]) -> None:
        """Process a page of polled books."""
        fetched = message.get("fetched_at")
        place: int | None = None
        for ticker, book in read_polled_books(body):
            market = self.markets.get(ticker)
            if market is None:
                continue
            if market.displayed is not None and market.connection not in (0, frame.connection):
                self._invalidate_copies(market, self._times.last(None, frame.ordinal) or 0, "break")
            market.connection = frame.connection
            if place is None:
                place = self._times.add(parse_time(fetched) if type(fetched) is str else None, frame.received_at, ordinal=frame.ordinal)
            try:
                levels = self._reader.read_levels(frame, book)
            except UnusableFrame as error:
                self._take_unusable(market, place, error)
                continue
            self._hide_if_crossed(market, place)
            previous, market.displayed = market.displayed, SubscribedBook(_POLLED, levels, is_proven=True)
            market.copies = {_POLLED: market.displayed}
            self._write_snapshot(frame, market, previous, place)

    def end(self, ended: BookEnd) -> None:
        """Process the end of a copy. If the copy is displayed, an equal copy replaces it; without an equal one, the book is lost."""
        market = self.markets.get(ended.market)
        if market is None or ended.key not in market.copies:
            return
        self._resolve_overdue(market)
        copy = market.copies.pop(ended.key, None)
        if copy is None:
            return
        if copy is not market.displayed:
            if copy.comparison.differs_since is not None and not copy.comparison.is_stopped:
                self._invalidate_copies(market, market.agreed, _DIFFER)
            elif copy.comparison.ahead:
                # The displayed book must send them too, soon.
                copy.has_ended = True
                market.copies[copy.key] = copy
            return
        others = [other for other in market.others() if not other.has_ended]
        successor = next((other for other in others if other.comparison.differs_since is None and not other.comparison.behind), None)
        if successor is not None:
            self._take_over(market, successor)
            return
        stream = self._stream(ended.source, ended.market)
        if ended.at is not None:
            self._invalidate_displayed(market, self._times.add(ended.at, None, aside=True), ended.cause, by_time=True)
        else:
            self._invalidate_displayed(market, self._times.last(stream, ended.start.ordinal) or 0, ended.cause)
        market.copies = {other.key: other for other in others}

    def _stream(self, key: Key, ticker: str) -> Hashable:
        """Return the key of the frames that are in order: the subscription, in a partial recording with the market."""
        return (key, ticker) if self._validator.partial else key

    def finish(self) -> None:
        """Process the end of the recording. A book that is lost then is lost to the end."""
        for market in self.markets.values():
            self._hide_if_crossed(market, None)
            self._resolve_overdue(market)
            others = [other.comparison for other in market.others()]
            if market.displayed is not None and any(other.differs_since is not None or other.ahead for other in others):
                # Either the other subscription is late, or this one has ended.
                self._invalidate_copies(market, self._times.last_place, _DIFFER)
        for losses in self._open.values():
            self.lost += losses
        self._open = {}
        self.lost.sort(key=lambda loss: (loss.since, loss.code))

    # --- whole books -----------------------------------------------------------------------------------------------------

    def _snapshot(self, frame: Frame, market: TrackedMarket, key: Key, levels: Levels, place: int) -> None:
        """Process a snapshot, which begins the book, replaces the displayed copy, or is compared with the displayed copy."""
        self._hide_if_crossed(market, place)
        copy = SubscribedBook(key, levels, is_proven=not self._validator.partial and key in self._validator.numbers)
        previous, market.copies[key] = market.copies.get(key), copy
        displayed = market.displayed
        if displayed is None:
            self._display(market, copy)
            market.agreed = place
            self._write_snapshot(frame, market, None, place)
        elif previous is displayed:
            self._renew(frame, market, copy, place)
        elif copy.is_empty and not displayed.is_empty:
            market.copies = {key: copy}
            self._display(market, copy)
            self._write_snapshot(frame, market, displayed, place)
        else:
            self._compare_snapshot(market, displayed, copy, place)

    def _renew(self, frame: Frame, market: TrackedMarket, copy: SubscribedBook, place: int) -> None:
        """Process a snapshot on the displayed subscription, which confirms the copy, empties it, or shows that changes were lost before."""
        previous = market.displayed
        assert previous is not None
        market.displayed = copy
        count = 0 if copy.is_empty else len(previous.differences(copy))
        if count:
            self.counts["snapshots_that_differ"] += 1
            cause = f"snapshot at frame {frame.ordinal} differs in {count} level{'' if count == 1 else 's'}"
            self._invalidate_displayed(market, market.agreed, cause)
            market.copies = {copy.key: copy}
            self._display(market, copy)
            previous = None
        elif not copy.is_empty or previous.is_empty:
            self.counts["snapshots_that_agree"] += 1
        market.agreed = place
        self._write_snapshot(frame, market, previous, place)

    def _display(self, market: TrackedMarket, copy: SubscribedBook) -> None:
        """Make a copy the displayed one."""
        market.displayed, copy.comparison = copy, Comparison()

    def _write_snapshot(self, frame: Frame, market: TrackedMarket, previous: SubscribedBook | None, place: int) -> None:
        """Write rows for the displayed copy after a snapshot: differences from the previous copy, or all levels without one."""
        copy = market.displayed
        assert copy is not None
        if not copy.is_empty:
            market.was_filled, market.wiped = True, None
        elif market.was_filled and market.wiped is None:
            market.wiped = place
        if previous is None or market.is_hidden:
            self._write_book(market, place, frame.ordinal)
        else:
            for side, price in sorted(previous.differences(copy), key=lambda level: (level[0], -level[1])):
                lots = copy.sides[side].levels.get(price, 0)
                self.rows.add((place, frame.ordinal, market.code, LEVEL, side, price, lots))
        self._track_crossing(market, place, frame.ordinal)

    def _write_book(self, market: TrackedMarket, place: int, ordinal: int) -> None:
        """Write rows for all levels of the displayed copy, which ends the market's open losses."""
        assert market.displayed is not None
        market.is_hidden = False
        market.shown = place if market.shown is None else market.shown
        self.lost += [replace(loss, until=place) for loss in self._open.pop(market.code, ())]
        self.rows.add((place, ordinal, market.code, SNAPSHOT_START, _NONE, _NONE, _NONE))
        for side, bids in enumerate(market.displayed.sides):
            for price in sorted(bids.levels, reverse=True):
                self.rows.add((place, ordinal, market.code, LEVEL, side, price, bids.levels[price]))

    # --- changes ---------------------------------------------------------------------------------------------------------

    def _change(self, frame: Frame, market: TrackedMarket, key: Key, change: Change) -> None:
        """Apply a change to the copy of its subscription, write a row if that copy is displayed, and compare the copies."""
        copy = market.copies[key]
        if copy is market.displayed:
            self._hide_if_crossed(market, change.place)
            if market.displayed is None:
                self._count_unapplied(market, change.place)
                return
        copy.sides[change.side].change(change.price, change.lots - change.old_lots)
        copy.recent.append(change)
        if change.lots < 0:
            self.counts["below_zero"] += 1
            self._count_unapplied(market, change.place)
            since = change.place if copy.is_proven else market.agreed
            self._invalidate_copies(market, since, f"level below zero at frame {frame.ordinal}")
            return
        if market.displayed is None:
            self._display(market, copy)
            market.agreed = change.place
            for other in market.others():
                other.comparison = Comparison(differs_since=change.clock)
            self._write_book(market, change.place, frame.ordinal)
            self._track_crossing(market, change.place, frame.ordinal)
        elif copy is market.displayed:
            self._write_change(market, change)
        if len(market.copies) > 1:
            self._compare(market, copy, change)

    def _write_change(self, market: TrackedMarket, change: Change) -> None:
        """Write a row for a change of the displayed copy. A hidden book is written whole once it is no longer crossed."""
        assert market.displayed is not None
        place, ordinal, side, price, lots = change[:5]
        if lots:
            market.was_filled, market.wiped = True, None
        if not market.is_hidden:
            self.rows.add((place, ordinal, market.code, LEVEL, side, price, lots))
        elif not market.displayed.is_crossed:
            self._write_book(market, place, ordinal)
        self._track_crossing(market, place, ordinal)

    def _track_crossing(self, market: TrackedMarket, place: int, ordinal: int) -> None:
        """Record whether the displayed copy is crossed or locked after the frame at `place`."""
        assert market.displayed is not None
        if not market.displayed.is_crossed:
            market.crossed = None
        elif not market.is_hidden:
            market.crossed = (place, ordinal)

    def _hide_if_crossed(self, market: TrackedMarket, place: int | None) -> None:
        """Hide a book that was crossed or locked at the end of an instant, because changes are missing then. place: of the next frame.

        Within an instant, the changes of one action of the exchange arrive one by one. If the sequence numbers show no loss, the book is valid again when it uncrosses. Otherwise a book crossed for longer than an action
        takes has lost changes at an unknown time.
        """
        copy, crossed = market.displayed, market.crossed
        if copy is None or crossed is None or (place is not None and self._times.are_one_instant(crossed[0], place)):
            return
        if not market.is_hidden:
            self.counts["crossed"] += 1
            market.is_hidden = True
            self._begin_loss(market, crossed[0], copy.crossing)
        end = self._times.latest if place is None else self._times.clock(place)
        if not copy.is_proven and end - self._times.clock(crossed[0]) > AT_ONCE:
            self._invalidate_copies(market, market.agreed, f"{copy.crossing} from frame {crossed[1]} on")

    # --- a book on several subscriptions -----------------------------------------------------------------------------------

    def _compare_snapshot(self, market: TrackedMarket, displayed: SubscribedBook, copy: SubscribedBook, place: int) -> None:
        """Compare a snapshot on another subscription, which may be slightly ahead or behind, with the displayed copy."""
        clock = self._times.clock(place)
        behind = displayed.since(copy, clock)
        if behind is None:
            copy.comparison = Comparison(differs_since=clock)
            return
        copy.comparison = Comparison(behind)
        self.counts["snapshots_that_agree"] += 1
        market.agreed = place

    def _compare(self, market: TrackedMarket, changed: SubscribedBook, change: Change) -> None:
        """Compare the copies after a change of one of them, and invalidate all if they contradict each other.

        Subscriptions send the same changes at slightly different times.
        """
        displayed = market.displayed
        assert displayed is not None
        if changed.comparison.is_stopped:
            changed.comparison = Comparison(differs_since=change.clock)
        for other in market.others() if changed is displayed else [changed]:
            is_consistent = other.comparison.take(change, of_displayed=changed is displayed)
            if other.comparison.differs_since is not None:
                if displayed.equals(other):
                    self.counts["snapshots_that_agree"] += 1
                    market.agreed, other.comparison = change.place, Comparison()
            elif not is_consistent:
                since = min(changes[0].place for changes in (other.comparison.ahead, other.comparison.behind) if changes)
                self._invalidate_copies(market, since, _DIFFER)
                return

    def _resolve_overdue(self, market: TrackedMarket) -> None:
        """Decide about each copy that has differed from the displayed copy for longer than the maximum lag between subscriptions."""
        for other in sorted(market.others(), key=lambda copy: copy.has_ended) if len(market.copies) > 1 else ():
            if market.displayed is not None and other.comparison.is_overdue(self._times.latest):
                self._resolve(market, market.displayed, other)

    def _resolve(self, market: TrackedMarket, displayed: SubscribedBook, other: SubscribedBook) -> None:
        """Decide about a copy (`other`) that differs from the displayed one: invalidate both, display the other, or ignore the other."""
        comparison = other.comparison
        if comparison.differs_since is not None and displayed.equals(other):
            other.comparison = Comparison()
        elif comparison.differs_since is not None:
            self.counts["snapshots_that_differ"] += 1
            if displayed.is_proven and not comparison.display_changed:
                # It ended without notice and without its last changes.
                self._invalidate_displayed(
                    market, self._times.last(self._stream(displayed.key, self._tickers[market.code]), _EVER) or 0, _DIFFER
                )
                market.copies = {other.key: other}
            else:
                self._invalidate_copies(market, market.agreed, _DIFFER)
        elif comparison.ahead and (comparison.behind or other.has_ended):
            self._invalidate_copies(market, min(change.place for change in (*comparison.ahead, *comparison.behind)), _DIFFER)
        elif comparison.ahead:
            self._take_over(market, other)
        else:
            comparison.is_stopped = True

    def _take_over(self, market: TrackedMarket, copy: SubscribedBook) -> None:
        """Make `copy`, which is ahead of the displayed copy and lacks none of its changes, the displayed one."""
        previous, changes = market.displayed, copy.comparison.ahead
        others = [other.comparison for other in market.others() if other is not copy]
        self._display(market, copy)
        if previous is not None:
            previous.comparison.is_stopped = True
        for change in changes:
            self._write_change(market, change)
            for comparison in others:
                comparison.is_stopped |= not comparison.take(change, of_displayed=True)

    # --- losses ----------------------------------------------------------------------------------------------------------

    def _count_unapplied(self, market: TrackedMarket, place: int) -> None:
        """Record a frame that was not applied to the displayed book of its market."""
        self.counts["unapplied"] += 1
        market.unapplied.append(place)

    def _invalidate_copies(self, market: TrackedMarket, since: int, cause: str) -> None:
        """Invalidate all copies of a market's book until the next snapshot. since: place of the last valid frame."""
        self._invalidate_displayed(market, since, cause)
        market.copies = {}

    def _invalidate_displayed(self, market: TrackedMarket, since: int, cause: str, *, by_time: bool = False) -> None:
        """Stop displaying a market's book: it is lost after the frame at place `since`. by_time: only the time of that place is known."""
        if market.displayed is None and any(loss.since <= since for loss in self._open.get(market.code, ())):
            return
        for other in market.others():
            if other.comparison.differs_since is not None:
                self._begin_loss(market, market.agreed, _DIFFER)
            elif other.comparison.ahead:
                self._begin_loss(market, other.comparison.ahead[0].place, _DIFFER)
        self._begin_loss(market, since, cause, by_time=by_time)
        market.displayed, market.crossed, market.is_hidden = None, None, False

    def _begin_loss(self, market: TrackedMarket, since: int, cause: str, *, by_time: bool = False) -> None:
        """Begin a loss of a market's book after the frame at place `since`. by_time: only the time of that place is known."""
        if not by_time:
            # A lost frame after an undated one may be older than the time assumed for the undated one.
            since = self._times.last_dated_place(since)
        self._open.setdefault(market.code, []).append(BookLoss(market.code, since, _NONE, cause, by_time))
