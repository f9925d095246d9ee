"""Books of a recording's markets: their changes as rows, and the gaps in which they are invalid.

Rows are written as if every book were valid. Rows within gaps are removed when all gaps are known, since some gaps begin before the
evidence for them: a later snapshot that differs, a book that stays locked.
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
from bellwether.replay.episode_builder.messages import Levels, Reader, UnusableFrame, rest_books
from bellwether.replay.episode_builder.subscriptions import AT_ONCE, Change, Following, Market, SubscribedBook
from bellwether.replay.episode_builder.times import Times
from bellwether.venues.kalshi.stream.frame import Frame

_NONE = -1
_EVER = 2**62
#: Cause of a gap where the subscriptions of a book differ.
_DIFFER = "subscriptions differ"
#: Subscription of polled books, which have no changes.
_POLLED: Key = (0, 0)


class Books:
    """Books of all markets, built from their frames and the frames' effects on subscriptions.

    tickers: of the markets to build; others are ignored. watch: validator whose sequence numbers show losses.
    """

    def __init__(self, tickers: Collection[str], times: Times, reader: Reader, watch: BookValidator) -> None:
        self.markets = {ticker: Market(code, Lifecycle(ticker)) for code, ticker in enumerate(sorted(tickers))}
        self._tickers = list(self.markets)
        self.rows = Rows(BOOK)
        self.lost: list[BookLoss] = []
        self.counts: Counter[str] = Counter()
        #: Error of the first unreadable frame of a book.
        self.unusable: UnusableFrame | None = None
        self._times, self._reader, self._watch = times, reader, watch
        self._open: dict[int, list[BookLoss]] = {}

    def take(self, frame: Frame, body: dict[str, Any], understood: FrameEffect) -> None:
        """Process a frame of a book."""
        effect, ticker, key, is_late = understood
        market = self.markets.get(ticker)
        if market is None:
            return
        if effect in (Effect.REPEATED, Effect.SUPERSEDED):
            self.counts[effect.value] += 1
            return
        at, stream = read_exchange_time(body), self._stream(key, ticker)
        # A late frame is out of its subscription's order, and does not affect its times.
        out_of_order = effect is Effect.UNAPPLIED and is_late
        place = self._times.hear(at, frame.received_at, beside=out_of_order, stream=stream, ordinal=frame.ordinal)
        self._settle_what_is_due(market)
        if effect is Effect.UNAPPLIED or (effect is Effect.CHANGED and key not in market.lines):
            self._not_applied(market, place)
            if effect is Effect.CHANGED and market.leader is not None:
                self._give_up(market, place, _DIFFER)
            return
        try:
            if effect is Effect.CHANGED:
                side, price, by = self._reader.change(frame, body)
                before: Any = market.lines[key].sides[side].levels.get(price, 0)
                change = Change(place, frame.ordinal, side, price, before + by, before, self._times.clock(place), (at, side, price, by))
                self._change(frame, market, key, change)
            else:
                self._snapshot(frame, market, key, self._reader.levels(frame, body), place)
        except UnusableFrame as error:
            self.counts["malformed"] += 1
            self.unusable = self.unusable or error
            self._not_applied(market, place)
            self._give_up(market, place, error.what)

    def take_polled(self, frame: Frame, found: dict[str, Any], body: dict[str, Any]) -> None:
        """Process a polled page of books."""
        fetched = found.get("fetched_at")
        place: int | None = None
        for ticker, held in rest_books(body):
            market = self.markets.get(ticker)
            if market is None:
                continue
            if market.leader is not None and market.connection not in (0, frame.connection):
                self._give_up(market, self._times.last(None, frame.ordinal) or 0, "break")
            market.connection = frame.connection
            if place is None:
                place = self._times.hear(parse_time(fetched) if type(fetched) is str else None, frame.received_at, ordinal=frame.ordinal)
            try:
                levels = self._reader.levels(frame, held)
            except UnusableFrame as error:
                self.counts["malformed"] += 1
                self.unusable = self.unusable or error
                self._give_up(market, place, error.what)
                continue
            self._hide_if_left_crossed(market, place)
            before, market.leader = market.leader, SubscribedBook(_POLLED, levels, is_proven=True)
            market.lines = {_POLLED: market.leader}
            self._write_snapshot(frame, market, before, place)

    def end(self, ended: BookEnd) -> None:
        """Process the end of a subscription to a book."""
        market = self.markets.get(ended.market)
        if market is None or ended.key not in market.lines:
            return
        self._settle_what_is_due(market)
        line = market.lines.pop(ended.key, None)
        if line is None:
            return
        if line is not market.leader:
            if line.following.catching_up is not None and not line.following.is_still:
                self._give_up(market, market.agreed, _DIFFER)
            elif line.following.ahead:
                # The displayed book must send them too, soon.
                line.has_ended = True
                market.lines[line.key] = line
            return
        others = [one for one in market.others() if not one.has_ended]
        follows = next((one for one in others if one.following.catching_up is None and not one.following.behind), None)
        if follows is not None:
            self._take_over(market, follows)
            return
        stream = self._stream(ended.source, ended.market)
        if ended.at is not None:
            self._lose(market, self._times.hear(ended.at, None, beside=True), ended.cause, by_time=True)
        else:
            self._lose(market, self._times.last(stream, ended.start.ordinal) or 0, ended.cause)
        market.lines = {other.key: other for other in others}

    def _stream(self, key: Key, ticker: str) -> Hashable:
        """Return the ordered stream: a subscription, or its part for one market."""
        return (key, ticker) if self._watch.partial else key

    def finish(self) -> None:
        """Process the end of the recording; books that are lost then stay lost."""
        for market in self.markets.values():
            self._hide_if_left_crossed(market, None)
            self._settle_what_is_due(market)
            if market.leader is not None and any(one.following.catching_up is not None or one.following.ahead for one in market.others()):
                # Either the other subscription is late, or this one has ended.
                self._give_up(market, self._times.last_place, _DIFFER)
        for held in self._open.values():
            self.lost += held
        self._open = {}
        self.lost.sort(key=lambda lost: (lost.since, lost.code))

    # --- whole books -----------------------------------------------------------------------------------------------------

    def _snapshot(self, frame: Frame, market: Market, key: Key, levels: Levels, place: int) -> None:
        self._hide_if_left_crossed(market, place)
        line = SubscribedBook(key, levels, is_proven=not self._watch.partial and key in self._watch.numbers)
        known, market.lines[key] = market.lines.get(key), line
        leader = market.leader
        if leader is None:
            self._lead(market, line)
            market.agreed = place
            self._write_snapshot(frame, market, None, place)
        elif known is leader:
            self._renew(frame, market, line, place)
        elif line.is_empty and not leader.is_empty:
            market.lines = {key: line}
            self._lead(market, line)
            self._write_snapshot(frame, market, leader, place)
        else:
            self._put_beside(market, leader, line, place)

    def _renew(self, frame: Frame, market: Market, line: SubscribedBook, place: int) -> None:
        """Process a snapshot of the displayed book: it agrees, empties the book, or shows a loss since the previous snapshot."""
        before = market.leader
        assert before is not None
        market.leader = line
        different = 0 if line.is_empty else len(before.differences(line))
        if different:
            self.counts["snapshots_that_differ"] += 1
            self._lose(market, market.agreed, _differs(frame.ordinal, different))
            market.lines = {line.key: line}
            self._lead(market, line)
            before = None
        elif not line.is_empty or before.is_empty:
            self.counts["snapshots_that_agree"] += 1
        market.agreed = place
        self._write_snapshot(frame, market, before, place)

    def _lead(self, market: Market, line: SubscribedBook) -> None:
        """Display the book of this subscription."""
        market.leader, line.following = line, Following()

    def _write_snapshot(self, frame: Frame, market: Market, before: SubscribedBook | None, place: int) -> None:
        """Write the displayed book: its differences from the previous one, or all of it."""
        line = market.leader
        assert line is not None
        self._note_wipe(market, place)
        if before is None or market.is_hidden:
            self._show(market, place, frame.ordinal)
        else:
            for side, price in sorted(before.differences(line), key=lambda level: (level[0], -level[1])):
                lots = line.sides[side].levels.get(price, 0)
                self.rows.add((place, frame.ordinal, market.code, LEVEL, side, price, lots))
        self._note_crossing(market, place, frame.ordinal)

    def _show(self, market: Market, place: int, ordinal: int) -> None:
        """Write a book that is valid from here on."""
        assert market.leader is not None
        market.is_hidden = False
        market.shown = place if market.shown is None else market.shown
        self.lost += [replace(lost, until=place) for lost in self._open.pop(market.code, ())]
        self.rows.add((place, ordinal, market.code, SNAPSHOT_START, _NONE, _NONE, _NONE))
        for side, held in enumerate(market.leader.sides):
            for price in sorted(held.levels, reverse=True):
                self.rows.add((place, ordinal, market.code, LEVEL, side, price, held.levels[price]))

    def _note_wipe(self, market: Market, place: int) -> None:
        assert market.leader is not None
        if not market.leader.is_empty:
            market.was_filled, market.wiped = True, None
        elif market.was_filled and market.wiped is None:
            market.wiped = place

    # --- changes ---------------------------------------------------------------------------------------------------------

    def _change(self, frame: Frame, market: Market, key: Key, change: Change) -> None:
        line = market.lines[key]
        if line is market.leader:
            self._hide_if_left_crossed(market, change.place)
            if market.leader is None:
                self._not_applied(market, change.place)
                return
        line.sides[change.side].change(change.price, change.lots - change.before)
        line.recent.append(change)
        if change.lots < 0:
            self.counts["below_zero"] += 1
            self._not_applied(market, change.place)
            since = change.place if line.is_proven else market.agreed
            self._give_up(market, since, f"level below zero at frame {frame.ordinal}")
            return
        if market.leader is None:
            self._lead(market, line)
            market.agreed = change.place
            for other in market.others():
                other.following = Following(catching_up=change.clock)
            self._show(market, change.place, frame.ordinal)
            self._note_crossing(market, change.place, frame.ordinal)
        elif line is market.leader:
            self._write(market, change)
        if len(market.lines) > 1:
            self._compare(market, line, change)

    def _write(self, market: Market, change: Change) -> None:
        """Write a change of the displayed book."""
        assert market.leader is not None
        place, ordinal, side, price, lots = change[:5]
        if lots:
            market.was_filled, market.wiped = True, None
        if not market.is_hidden:
            self.rows.add((place, ordinal, market.code, LEVEL, side, price, lots))
        elif not market.leader.is_crossed:
            self._show(market, place, ordinal)
        self._note_crossing(market, place, ordinal)

    def _note_crossing(self, market: Market, place: int, ordinal: int) -> None:
        assert market.leader is not None
        if not market.leader.is_crossed:
            market.crossed = None
        elif not market.is_hidden:
            market.crossed = (place, ordinal)

    def _hide_if_left_crossed(self, market: Market, place: int | None) -> None:
        """Hide a book that is crossed or locked at the end of an instant, since changes are missing then; one action's changes come one by
        one.

        If the sequence numbers show no loss, the book is valid again when it uncrosses. Otherwise a book crossed for longer than an action
        takes has lost changes at an unknown time.
        """
        line, crossed = market.leader, market.crossed
        if line is None or crossed is None or (place is not None and self._times.are_one_instant(crossed[0], place)):
            return
        if not market.is_hidden:
            self.counts["crossed"] += 1
            market.is_hidden = True
            self._open_stretch(market, crossed[0], line.crossing)
        now = self._times.latest if place is None else self._times.clock(place)
        if not line.is_proven and now - self._times.clock(crossed[0]) > AT_ONCE:
            self._give_up(market, market.agreed, f"{line.crossing} from frame {crossed[1]} on")

    # --- a book on several subscriptions -----------------------------------------------------------------------------------

    def _put_beside(self, market: Market, leader: SubscribedBook, line: SubscribedBook, place: int) -> None:
        """Process a snapshot of another subscription, which may be slightly ahead or behind: it checks the book and may replace it."""
        clock = self._times.clock(place)
        behind = leader.since(line, clock)
        if behind is None:
            line.following = Following(catching_up=clock)
            return
        line.following = Following(behind)
        self.counts["snapshots_that_agree"] += 1
        market.agreed = place

    def _compare(self, market: Market, moved: SubscribedBook, change: Change) -> None:
        """Compare subscriptions, which send the same changes at slightly different times."""
        leader = market.leader
        assert leader is not None
        if moved.following.is_still:
            moved.following = Following(catching_up=change.clock)
        for other in market.others() if moved is leader else [moved]:
            follows = other.following.take(change, of_shown=moved is leader)
            if other.following.catching_up is not None:
                if leader.equals(other):
                    self.counts["snapshots_that_agree"] += 1
                    market.agreed, other.following = change.place, Following()
            elif not follows:
                since = min(held[0].place for held in (other.following.ahead, other.following.behind) if held)
                self._give_up(market, since, _DIFFER)
                return

    def _settle_what_is_due(self, market: Market) -> None:
        """Resolve subscriptions that have differed for longer than the maximum lag; the one without changes no longer follows the book."""
        for other in sorted(market.others(), key=lambda one: one.has_ended) if len(market.lines) > 1 else ():
            if market.leader is not None and other.following.is_due(self._times.latest):
                self._settle(market, market.leader, other)

    def _settle(self, market: Market, leader: SubscribedBook, other: SubscribedBook) -> None:
        following = other.following
        if following.catching_up is not None and leader.equals(other):
            other.following = Following()
        elif following.catching_up is not None:
            self.counts["snapshots_that_differ"] += 1
            if leader.is_proven and not following.has_moved:
                # It ended without notice and without its last changes.
                self._lose(market, self._times.last(self._stream(leader.key, self._tickers[market.code]), _EVER) or 0, _DIFFER)
                market.lines = {other.key: other}
            else:
                self._give_up(market, market.agreed, _DIFFER)
        elif following.ahead and (following.behind or other.has_ended):
            held = [*following.ahead, *following.behind]
            self._give_up(market, min(change.place for change in held), _DIFFER)
        elif following.ahead:
            self._take_over(market, other)
        else:
            following.is_still = True

    def _take_over(self, market: Market, line: SubscribedBook) -> None:
        """Display the book of another subscription, which has sent all changes of the previous one."""
        before, said = market.leader, line.following.ahead
        thirds = [one for one in market.others() if one is not line]
        self._lead(market, line)
        if before is not None:
            before.following.is_still = True
        for change in said:
            self._write(market, change)
            for one in thirds:
                one.following.is_still |= not one.following.take(change, of_shown=True)

    # --- losses ----------------------------------------------------------------------------------------------------------

    def _not_applied(self, market: Market, place: int) -> None:
        self.counts["unapplied"] += 1
        market.unapplied.append(place)

    def _give_up(self, market: Market, since: int, cause: str) -> None:
        """Invalidate all subscriptions until their next snapshots."""
        self._lose(market, since, cause)
        market.lines = {}

    def _lose(self, market: Market, since: int, cause: str, *, by_time: bool = False) -> None:
        """Invalidate the displayed book after the frame at `since`."""
        if market.leader is None and market.shown is None:
            return
        for other in market.others():
            if other.following.catching_up is not None:
                self._open_stretch(market, market.agreed, _DIFFER)
            elif other.following.ahead:
                self._open_stretch(market, other.following.ahead[0].place, _DIFFER)
        self._open_stretch(market, since, cause, by_time=by_time)
        market.leader, market.crossed, market.is_hidden = None, None, False

    def _open_stretch(self, market: Market, since: int, cause: str, *, by_time: bool = False) -> None:
        if not by_time:
            # A lost frame after an undated one may be older than the time assumed for the undated one.
            since = self._times.dated(since)
        self._open.setdefault(market.code, []).append(BookLoss(market.code, since, _NONE, cause, by_time))


def _differs(ordinal: int, levels: int) -> str:
    return f"snapshot at frame {ordinal} differs in {levels} level{'' if levels == 1 else 's'}"
