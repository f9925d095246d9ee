"""Books of a market by subscription, and their relation to the displayed book, which may be of another subscription.

All subscriptions send the same changes in the same order, but one may lag slightly behind another, or end without notice.
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
#: Number of recent changes kept per book.
_REMEMBERED = 256


class Change(NamedTuple):
    """Change of a level: the frame's place and ordinal, side, price, the new size in lots and the previous one.

    clock: time of its subscription then, ns. told: time, side, price and difference, which are equal on every subscription.
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

    behind: changes of the displayed book that it has not sent yet. ahead: changes that it sent first. catching_up: clock since when the two
    books differ completely, ns; None once they have agreed. has_moved: the displayed book has changed meanwhile. is_still: it does not
    follow the displayed book.
    """

    __slots__ = ("_has_matched", "ahead", "behind", "catching_up", "has_moved", "is_still")

    def __init__(self, behind: list[Change] | None = None, *, catching_up: int | None = None) -> None:
        self.behind, self.ahead = deque(behind or ()), deque[Change]()
        self.catching_up = catching_up
        self.has_moved = self.is_still = self._has_matched = False

    def take(self, change: Change, *, of_shown: bool) -> bool:
        """Process a change of the displayed book, or of this one. Return False if the two contradict each other."""
        self.has_moved |= of_shown
        mine, theirs = (self.behind, self.ahead) if of_shown else (self.ahead, self.behind)
        place = next((place for place, one in enumerate(theirs) if one.told == change.told), None)
        if place is None:
            mine.append(change)
            return not (theirs and self._has_matched)
        # Until the first common change, this book's snapshot may contain changes that the other subscription has yet to send.
        may_skip = not self._has_matched
        if (place and (of_shown or not may_skip)) or (mine and not (of_shown and may_skip)):
            return False
        for _ in range(place + 1):
            theirs.popleft()
        mine.clear()
        self._has_matched = True
        return True

    def is_due(self, now: int) -> bool:
        """Return whether the two have differed for longer than the maximum lag."""
        since = self.catching_up
        if since is None:
            since = min((held[0].clock for held in (self.behind, self.ahead) if held), default=now)
        return now - since > AT_ONCE


class SubscribedBook:
    """Valid book on one subscription.

    is_proven: the sequence numbers show no lost change. following: relation to the displayed book, if that is another. has_ended: no longer
    valid, but it has sent changes that the displayed book still lacks.
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
        """Return whether the best bids of both sides add up to a dollar or more: the book is locked or crossed, which is invalid."""
        yes, no = self.sides[0].best, self.sides[1].best
        return yes + no >= DOLLAR and yes > 0 and no > 0

    @property
    def crossing(self) -> str:
        """Name of the crossing: crossed or locked book."""
        return "crossed book" if self.sides[0].best + self.sides[1].best > DOLLAR else "locked book"

    def differences(self, other: SubscribedBook) -> set[tuple[int, int]]:
        """Return the levels (side, price) with different sizes in the two books."""
        return {
            (side, price)
            for side, (mine, theirs) in enumerate(zip(self.sides, other.sides, strict=True))
            for price, _ in mine.levels.items() ^ theirs.levels.items()
        }

    def equals(self, other: SubscribedBook) -> bool:
        """Return whether all levels are the same."""
        return self.sides[0].levels == other.sides[0].levels and self.sides[1].levels == other.sides[1].levels

    def since(self, other: SubscribedBook, clock: int) -> list[Change] | None:
        """Return the changes since the book equalled the other one within the last second before `clock`; None if it did not."""
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
    """State of one market.

    lines: valid books by subscription. leader: the displayed one; None from the loss of the book to the next snapshot. agreed: place of the
    last snapshot that began the book or agreed with it. crossed: place and ordinal of the last frame if it left the book crossed or locked.
    is_hidden: an instant ended crossed. wiped: place of the snapshot that emptied the book. shown: place of its first book. unapplied:
    places of frames that were not applied.
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
        """Return the valid books on other subscriptions that may follow the displayed one."""
        return [line for line in self.lines.values() if line is not self.leader and not line.following.is_still]
