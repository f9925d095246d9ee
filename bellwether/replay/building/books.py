"""Follows the books of a recording's markets: their changes as rows, and the stretches in which they could not be trusted.

Rows are written as if every book were valid; what lies within a stretch is cut out when all of them are known, since some begin before what shows
them: a later snapshot that differs, a book that stays locked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from bellwether.recordings.instants import exchange_time, instant
from bellwether.recordings.numbers import Key
from bellwether.recordings.watch import Effect, Ended, Heard, Watch
from bellwether.replay.building.columns import BOOK, LEVEL, SNAPSHOT_START, Rows
from bellwether.replay.building.lives import Life
from bellwether.replay.building.markets import AT_ONCE, Change, Differing, Line, Lost, Market
from bellwether.replay.building.messages import Levels, Reader, UnusableFrame, rest_books
from bellwether.replay.building.times import Times
from bellwether.venues.kalshi.stream.frame import Frame

_NONE = -1
#: The subscription of polled books, which are followed by no changes.
_POLLED: Key = (0, 0)


class Books:
    """Takes in the frames of books, each with what it means for its subscription.

    tickers: of the markets that matter; all others are not looked at. watch: whose numbers show what was lost.
    """

    def __init__(self, tickers: Collection[str], times: Times, reader: Reader, watch: Watch) -> None:
        self.markets = {ticker: Market(code, Life(ticker)) for code, ticker in enumerate(sorted(tickers))}
        self.rows = Rows(BOOK)
        self.lost: list[Lost] = []
        self.counts: Counter[str] = Counter()
        #: The first frame of a book that could not be read, in words.
        self.unusable: UnusableFrame | None = None
        self._times, self._reader, self._watch = times, reader, watch
        self._open: dict[int, list[Lost]] = {}

    def take(self, frame: Frame, body: dict[str, Any], heard: Heard) -> None:
        """Take in a frame of a book."""
        effect, ticker, key = heard
        market = self.markets.get(ticker)
        if market is None:
            return
        if effect in (Effect.REPEATED, Effect.SUPERSEDED):
            self.counts[effect.value] += 1
            return
        place = self._times.hear(exchange_time(body), frame.received_at, stream=key, ordinal=frame.ordinal)
        if effect is Effect.UNAPPLIED or (effect is Effect.CHANGED and key not in market.lines):
            self._not_applied(market, place)
            return
        try:
            if effect is Effect.CHANGED:
                self._change(frame, market, key, self._reader.change(frame, body), place)
            else:
                self._snapshot(frame, market, key, self._reader.levels(frame, body), place)
        except UnusableFrame as error:
            self.counts["malformed"] += 1
            self.unusable = self.unusable or error
            self._not_applied(market, place)
            self._give_up(market, place, error.what)

    def take_polled(self, frame: Frame, found: dict[str, Any], body: dict[str, Any]) -> None:
        """Take in a polled page of books."""
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
                place = self._times.hear(instant(fetched) if type(fetched) is str else None, frame.received_at, ordinal=frame.ordinal)
            try:
                levels = self._reader.levels(frame, held)
            except UnusableFrame as error:
                self.counts["malformed"] += 1
                self.unusable = self.unusable or error
                self._give_up(market, place, error.what)
                continue
            self._hide_if_left_crossed(market, place)
            before, market.leader = market.leader, Line(_POLLED, levels, is_proven=True)
            market.lines = {_POLLED: market.leader}
            self._write_snapshot(frame, market, before, place)

    def end(self, ended: Ended) -> None:
        """A subscription no longer follows a book."""
        market = self.markets.get(ended.market)
        line = None if market is None else market.lines.pop(ended.key, None)
        if market is None or line is None:
            return
        by_time = ended.at is not None
        since = self._times.hear(ended.at, None, beside=True) if by_time else self._times.last(ended.key, ended.start.ordinal) or 0
        if line is not market.leader:
            self._beside_ended(market)
        elif not self._follow_beside(market):
            self._lose(market, since, ended.cause, by_time=by_time)

    def finish(self) -> None:
        """No more frames come: books that are lost still, stay so."""
        for market in self.markets.values():
            self._hide_if_left_crossed(market, None)
            if market.differing is not None and market.leader is not None:
                self._settle(market, market.differing, is_over=True)
        for held in self._open.values():
            self.lost += held
        self._open = {}
        self.lost.sort(key=lambda lost: (lost.since, lost.code))

    # --- whole books -----------------------------------------------------------------------------------------------------

    def _snapshot(self, frame: Frame, market: Market, key: Key, levels: Levels, place: int) -> None:
        self._hide_if_left_crossed(market, place)
        line = Line(key, levels, is_proven=not self._watch.partial and key in self._watch.numbers)
        known, market.lines[key] = market.lines.get(key), line
        leader = market.leader
        if leader is None:
            self._lead(market, line)
            market.agreed = place
            self._write_snapshot(frame, market, None, place)
        elif known is leader:
            self._renew(frame, market, line, place)
        elif line.is_empty and not leader.is_empty:
            self._lead(market, line)
            self._write_snapshot(frame, market, leader, place)
        else:
            self._put_beside(market, leader, line, place)

    def _renew(self, frame: Frame, market: Market, line: Line, place: int) -> None:
        """A snapshot of the book that is shown: it agrees, or it empties the book, or something was lost since the last one."""
        before = market.leader
        assert before is not None
        market.leader = line
        different = 0 if line.is_empty else len(before.differences(line))
        if different:
            self.counts["snapshots_that_differ"] += 1
            self._lose(market, market.agreed, _differs(frame.ordinal, different))
            self._lead(market, line)
            before = None
        elif not line.is_empty or before.is_empty:
            self.counts["snapshots_that_agree"] += 1
        market.agreed = place
        self._write_snapshot(frame, market, before, place)

    def _lead(self, market: Market, line: Line) -> None:
        market.leader, market.lines = line, {line.key: line}
        market.differing, market.pending = None, []

    def _write_snapshot(self, frame: Frame, market: Market, before: Line | None, place: int) -> None:
        """The book that is shown now: the changes of the one before it, or all of it."""
        line = market.leader
        assert line is not None
        self._note_wipe(market, place)
        if before is None or market.is_hidden:
            self._show(market, place, frame.ordinal)
        else:
            for side, mills in sorted(before.differences(line), key=lambda level: (level[0], -level[1])):
                lots = line.sides[side].levels.get(mills, 0)
                self.rows.add((place, frame.ordinal, market.code, LEVEL, side, mills, lots))
        self._note_crossing(market, place, frame.ordinal)

    def _show(self, market: Market, place: int, ordinal: int) -> None:
        """Write a book that is to be trusted from here on."""
        assert market.leader is not None
        market.is_hidden = False
        market.shown = place if market.shown is None else market.shown
        self.lost += [replace(lost, until=place) for lost in self._open.pop(market.code, ())]
        self.rows.add((place, ordinal, market.code, SNAPSHOT_START, _NONE, _NONE, _NONE))
        for side, held in enumerate(market.leader.sides):
            for mills in sorted(held.levels, reverse=True):
                self.rows.add((place, ordinal, market.code, LEVEL, side, mills, held.levels[mills]))

    def _note_wipe(self, market: Market, place: int) -> None:
        assert market.leader is not None
        if not market.leader.is_empty:
            market.was_filled, market.wiped = True, None
        elif market.was_filled and market.wiped is None:
            market.wiped = place

    # --- changes ---------------------------------------------------------------------------------------------------------

    def _change(self, frame: Frame, market: Market, key: Key, told: tuple[int, int, int], place: int) -> None:
        line, (side, mills, by) = market.lines[key], told
        if line is market.leader:
            self._hide_if_left_crossed(market, place)
            if market.leader is None:
                self._not_applied(market, place)
                return
        lots = line.change(self._times.clock(place), side, mills, by)
        if lots < 0:
            self.counts["below_zero"] += 1
            self._not_applied(market, place)
            since = place if line.is_proven else market.agreed
            self._give_up(market, since, f"level below zero at frame {frame.ordinal}")
            return
        change = Change(place, frame.ordinal, side, mills, lots)
        if market.leader is None:
            self._lead(market, line)
            market.agreed = place
            self._show(market, place, frame.ordinal)
            self._note_crossing(market, place, frame.ordinal)
        elif line is market.leader:
            self._write(market, change)
        else:
            market.pending.append(change)
        if len(market.lines) > 1:
            self._compare(market, line, place)

    def _write(self, market: Market, change: Change) -> None:
        """A change of the book that is shown."""
        assert market.leader is not None
        place, ordinal, side, mills, lots = change
        if lots:
            market.was_filled, market.wiped = True, None
        if not market.is_hidden:
            self.rows.add((place, ordinal, market.code, LEVEL, side, mills, lots))
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
        """Changes of one action come one by one, but an instant that ends with a crossed or locked book shows that something is missing.

        Where the numbers show that nothing was lost, the book is right again when it is uncrossed. Elsewhere one that stands for longer than an action
        takes has lost changes, nobody can tell when.
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

    # --- a book on two subscriptions ---------------------------------------------------------------------------------------

    def _put_beside(self, market: Market, leader: Line, line: Line, place: int) -> None:
        """A snapshot on another subscription, which may be a step ahead or behind: it checks the book, and may take it over."""
        market.lines = {leader.key: leader, line.key: line}
        market.pending = []
        clock = self._times.clock(place)
        if leader.was(line, clock):
            self.counts["snapshots_that_agree"] += 1
            market.agreed = place
            market.differing = None if leader.equals(line) else Differing(place, clock, {leader.key}, began_equal=True)
        else:
            market.differing = Differing(place, clock, set(), began_equal=False)

    def _compare(self, market: Market, moved: Line, place: int) -> None:
        """Two subscriptions show the same but for what one has said and the other has not yet."""
        leader, other = market.leader, market.beside()
        assert leader is not None and other is not None
        clock, differing = self._times.clock(place), market.differing
        if leader.equals(other):
            if differing is not None and not differing.began_equal:
                self.counts["snapshots_that_agree"] += 1
            market.agreed, market.differing, market.pending = place, None, []
            return
        if differing is None:
            differing = market.differing = Differing(place, clock, set(), began_equal=True)
        differing.moved.add(moved.key)
        if clock - differing.clock > AT_ONCE:
            self._settle(market, differing)

    def _settle(self, market: Market, differing: Differing, *, is_over: bool = False) -> None:
        """Two subscriptions differ for longer than one is behind the other: the one that stands still does not follow the book.

        is_over: no more frames come.
        """
        leader, other = market.leader, market.beside()
        assert leader is not None and other is not None
        if not differing.began_equal:
            self.counts["snapshots_that_differ"] += 1
            self._give_up(market, market.agreed, "subscriptions differ")
        elif differing.moved == {leader.key}:
            self._lead(market, leader)
        elif differing.moved == {other.key} and not is_over:
            pending = market.pending
            self._lead(market, other)
            for change in pending:
                self._write(market, change)
        else:
            self._give_up(market, differing.place, "subscriptions differ")

    def _follow_beside(self, market: Market) -> bool:
        """The subscription of the book that is shown ended; whether another goes on with the same book."""
        leader, other = market.leader, market.beside()
        if leader is None or other is None or not leader.equals(other):
            return False
        self._lead(market, other)
        return True

    def _beside_ended(self, market: Market) -> None:
        differing, market.differing, market.pending = market.differing, None, []
        if differing is not None and not differing.began_equal:
            self._give_up(market, market.agreed, "subscriptions differ")

    # --- losses ----------------------------------------------------------------------------------------------------------

    def _not_applied(self, market: Market, place: int) -> None:
        self.counts["unapplied"] += 1
        market.unapplied.append(place)

    def _give_up(self, market: Market, since: int, cause: str) -> None:
        """No subscription is trusted any more until its next snapshot."""
        market.lines = {}
        self._lose(market, since, cause)

    def _lose(self, market: Market, since: int, cause: str, *, by_time: bool = False) -> None:
        """The book that is shown cannot be trusted behind the frame at `since`."""
        if market.leader is None and market.shown is None:
            return
        if market.differing is not None and not market.differing.began_equal:
            self._open_stretch(market, market.agreed, "subscriptions differ")
        elif market.differing is not None and market.differing.place < since:
            self._open_stretch(market, market.differing.place, "subscriptions differ")
        self._open_stretch(market, since, cause, by_time=by_time)
        market.leader, market.crossed, market.is_hidden = None, None, False
        market.differing, market.pending = None, []

    def _open_stretch(self, market: Market, since: int, cause: str, *, by_time: bool = False) -> None:
        self._open.setdefault(market.code, []).append(Lost(market.code, since, _NONE, cause, by_time))


def _differs(ordinal: int, levels: int) -> str:
    return f"snapshot at frame {ordinal} differs in {levels} level{'' if levels == 1 else 's'}"
