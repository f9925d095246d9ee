"""Copies of a market's book, one per subscription, and their comparison with the *displayed* copy, from which the episode is built.

All subscriptions send the same changes in the same order, but one may lag slightly behind another, or end without notice. A *place* is the
number of a frame in the order of arrival.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from bellwether.recordings.books import BookSide
from bellwether.recordings.exchange_times import SECOND
from bellwether.recordings.sequence_numbers import Key
from bellwether.replay.episode_builder.lifecycle import Lifecycle
from bellwether.replay.episode_builder.messages import Levels
from bellwether.replay.units import DOLLAR
from bellwether.units import CentiCents, Lots

#: Maximum lag between two subscriptions, and maximum duration of an action of the exchange; ns.
AT_ONCE = SECOND
#: Number of recent changes stored per copy.
_REMEMBERED = 256


class Change(NamedTuple):
    """Change of a level: place and ordinal of the frame, side, price, new and old size.

    clock: latest exchange time of the subscription, ns. content: time, side, price and difference of size, equal on every subscription.
    """

    place: int
    ordinal: int
    side: int
    price: CentiCents
    lots: Lots
    old_lots: Lots
    clock: int
    content: tuple[int | None, int, int, int]


class Comparison:
    """Comparison of one subscription's copy with the displayed copy.

    behind: changes of the displayed copy that this one lacks. ahead: changes that this one received first. differs_since: clock since when
    the two differ completely, ns; None once they have agreed. display_changed: the displayed copy has changed since then. is_stopped: the
    two are no longer compared.
    """

    __slots__ = ("_has_matched", "ahead", "behind", "differs_since", "display_changed", "is_stopped")

    def __init__(self, behind: list[Change] | None = None, *, differs_since: int | None = None) -> None:
        self.behind, self.ahead = deque(behind or ()), deque[Change]()
        self.differs_since = differs_since
        self.display_changed = self.is_stopped = self._has_matched = False

    def take(self, change: Change, *, of_displayed: bool) -> bool:
        """Process a change of the displayed copy (`of_displayed`) or of the compared one. Returns False if the copies are contradictory."""
        self.display_changed |= of_displayed
        mine, theirs = (self.behind, self.ahead) if of_displayed else (self.ahead, self.behind)
        place = next((place for place, other in enumerate(theirs) if other.content == change.content), None)
        if place is None:
            mine.append(change)
            return not (theirs and self._has_matched)
        # Until the first common change, this book's snapshot may contain changes that the other subscription has yet to send.
        may_skip = not self._has_matched
        if (place and (of_displayed or not may_skip)) or (mine and not (of_displayed and may_skip)):
            return False
        for _ in range(place + 1):
            theirs.popleft()
        mine.clear()
        self._has_matched = True
        return True

    def is_overdue(self, now: int) -> bool:
        """Return True if the copies have differed for longer than the maximum lag between subscriptions. now: latest exchange time, ns."""
        since = self.differs_since
        if since is None:
            since = min((changes[0].clock for changes in (self.behind, self.ahead) if changes), default=now)
        return now - since > AT_ONCE


class SubscribedBook:
    """Copy of a book on one subscription.

    is_proven: the sequence numbers show no lost change. comparison: with the displayed copy, if that is another. has_ended: no longer
    valid, but with changes that the displayed copy still lacks.
    """

    __slots__ = ("comparison", "has_ended", "is_proven", "key", "recent", "sides")

    def __init__(self, key: Key, levels: Levels, *, is_proven: bool) -> None:
        self.key, self.is_proven = key, is_proven
        self.sides = BookSide(levels[0]), BookSide(levels[1])
        self.recent: deque[Change] = deque(maxlen=_REMEMBERED)
        self.comparison = Comparison()
        self.has_ended = False

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

    def differences(self, other: SubscribedBook) -> set[tuple[int, int]]:
        """Return the levels (side, price) at which the sizes of this copy and of `other` differ."""
        return {
            (side, price)
            for side, (mine, theirs) in enumerate(zip(self.sides, other.sides, strict=True))
            for price, _ in mine.levels.items() ^ theirs.levels.items()
        }

    def equals(self, other: SubscribedBook) -> bool:
        """Return True if this copy and `other` have the same levels."""
        return self.sides[0].levels == other.sides[0].levels and self.sides[1].levels == other.sides[1].levels

    def since(self, other: SubscribedBook, clock: int) -> list[Change] | None:
        """Return the changes since this copy was equal to `other`, at most a second before `clock`; None if it was not equal then."""
        different, changes = self.differences(other), deque[Change]()
        for change in reversed(self.recent):
            if not different or clock - change.clock > AT_ONCE:
                break
            changes.appendleft(change)
            level = change.side, change.price
            if change.old_lots == other.sides[change.side].levels.get(change.price, 0):
                different.discard(level)
            else:
                different.add(level)
        return None if different else list(changes)


@dataclass(slots=True)
class TrackedMarket:
    """State of one market and the copies of its book while a recording is read.

    copies: valid copies by subscription. displayed: the displayed copy; None from the loss of the book to the next snapshot. agreed: place
    of the last snapshot that began the book or agreed with it. crossed: place and ordinal of the last frame if it left the book crossed or
    locked. is_hidden: an instant ended crossed. wiped: place of the snapshot that emptied the book. shown: place of the first book.
    unapplied: places of frames that were not applied.
    """

    code: int
    lifecycle: Lifecycle
    copies: dict[Key, SubscribedBook] = field(default_factory=dict)
    displayed: SubscribedBook | None = None
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

    def others(self) -> list[SubscribedBook]:
        """Return the copies that are currently compared with the displayed copy."""
        return [copy for copy in self.copies.values() if copy is not self.displayed and not copy.comparison.is_stopped]
