"""A market's book on one subscription, and how it follows the book that is shown, which may be another subscription's.

Every subscription sends the same changes in the same order, but one may be a moment behind another, or end without a word.
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

#: Two subscriptions tell the same within this time, and an action of the exchange is over; ns.
AT_ONCE = SECOND
#: Changes of a book that are remembered.
_REMEMBERED = 256


class Change(NamedTuple):
    """A level's change: the frame's place and ordinal, side, price, the new size in lots and the one before, and what the exchange says of it.

    clock: the time of its subscription then, ns. told: time, side, price and difference, which are the same on every subscription.
    """

    place: int
    ordinal: int
    side: int
    price: CentiCents
    lots: Lots
    before: Lots
    clock: int
    told: tuple[int | None, int, int, int]


class Following:
    """Relation of a subscription to the displayed book.

    behind: changes of the displayed book that it has not sent yet. ahead: those that it sent first. catching_up: the clock since when the two do not
    agree at all, ns; None once they did. has_moved: the book that is shown changed meanwhile. is_still: it does not follow the book.
    """

    __slots__ = ("_has_matched", "ahead", "behind", "catching_up", "has_moved", "is_still")

    def __init__(self, behind: list[Change] | None = None, *, catching_up: int | None = None) -> None:
        self.behind, self.ahead = deque(behind or ()), deque[Change]()
        self.catching_up = catching_up
        self.has_moved = self.is_still = self._has_matched = False

    def take(self, change: Change, *, of_shown: bool) -> bool:
        """Take in a change of the book that is shown, or of this one; False when the two contradict each other."""
        self.has_moved |= of_shown
        mine, theirs = (self.behind, self.ahead) if of_shown else (self.ahead, self.behind)
        place = next((place for place, one in enumerate(theirs) if one.told == change.told), None)
        if place is None:
            mine.append(change)
            return not (theirs and self._has_matched)
        # Until the first common change, the snapshot of this one may contain changes that the other one still sends.
        may_skip = not self._has_matched
        if (place and (of_shown or not may_skip)) or (mine and not (of_shown and may_skip)):
            return False
        for _ in range(place + 1):
            theirs.popleft()
        mine.clear()
        self._has_matched = True
        return True

    def is_due(self, now: int) -> bool:
        """Return whether the two differ for longer than one is behind the other."""
        since = self.catching_up
        if since is None:
            since = min((held[0].clock for held in (self.behind, self.ahead) if held), default=now)
        return now - since > AT_ONCE


class SubscribedBook:
    """A valid book on one subscription.

    is_proven: the numbers show that no change of it was lost. following: how it follows the book that is shown, where it is another. has_ended: it is
    no longer valid, but has sent changes that the displayed book still lacks.
    """

    __slots__ = ("following", "has_ended", "is_proven", "key", "recent", "sides")

    def __init__(self, key: Key, levels: Levels, *, is_proven: bool) -> None:
        self.key, self.is_proven = key, is_proven
        self.sides = BookSide(levels[0]), BookSide(levels[1])
        self.recent: deque[Change] = deque(maxlen=_REMEMBERED)
        self.following = Following()
        self.has_ended = False

    @property
    def is_empty(self) -> bool:
        """Return whether both sides are empty."""
        return not self.sides[0].levels and not self.sides[1].levels

    @property
    def is_crossed(self) -> bool:
        """Return whether the best bids of both sides make a dollar or more: the book is locked or crossed, which no book of the venue can be."""
        yes, no = self.sides[0].best, self.sides[1].best
        return yes + no >= DOLLAR and yes > 0 and no > 0

    @property
    def crossing(self) -> str:
        """Return the name of such a book."""
        return "crossed book" if self.sides[0].best + self.sides[1].best > DOLLAR else "locked book"

    def differences(self, other: SubscribedBook) -> set[tuple[int, int]]:
        """The levels, side and price, of other sizes in both."""
        return {
            (side, price)
            for side, (mine, theirs) in enumerate(zip(self.sides, other.sides, strict=True))
            for price, _ in mine.levels.items() ^ theirs.levels.items()
        }

    def equals(self, other: SubscribedBook) -> bool:
        """Return whether all levels are the same."""
        return self.sides[0].levels == other.sides[0].levels and self.sides[1].levels == other.sides[1].levels

    def since(self, other: SubscribedBook, clock: int) -> list[Change] | None:
        """The changes since the book equalled the other one, at a moment of the last second before `clock`; None when it did not."""
        left, found = self.differences(other), deque[Change]()
        for change in reversed(self.recent):
            if not left or clock - change.clock > AT_ONCE:
                break
            found.appendleft(change)
            level = change.side, change.price
            if change.before == other.sides[change.side].levels.get(change.price, 0):
                left.discard(level)
            else:
                left.add(level)
        return None if left else list(found)


@dataclass(slots=True)
class Market:
    """One market so far.

    lines: its valid books by subscription. leader: the one that is shown; None from the loss of the book to the next snapshot. agreed: place of the last
    snapshot that began the book or agreed with it. crossed: place and ordinal of the last frame, where it left the book crossed or locked. is_hidden: an
    instant ended so. wiped: place of the snapshot that emptied it. shown: place of its first book. unapplied: places of frames that were not applied.
    """

    code: int
    lifecycle: Lifecycle
    lines: dict[Key, SubscribedBook] = field(default_factory=dict)
    leader: SubscribedBook | None = None
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
        """The valid books on other subscriptions than the one that is shown which follow it, as far as is known."""
        return [line for line in self.lines.values() if line is not self.leader and not line.following.is_still]
