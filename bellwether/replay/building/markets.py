"""A market while its recording is read: its book on each subscription, and what is known of its life."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from bellwether.recordings.books import Side
from bellwether.recordings.instants import SECOND
from bellwether.recordings.numbers import Key
from bellwether.replay.building.lives import Life
from bellwether.replay.building.messages import Levels
from bellwether.replay.units import DOLLAR

#: Two subscriptions tell the same within this time, and an action of the exchange is over; ns.
AT_ONCE = SECOND
#: Changes of a book that are remembered.
_REMEMBERED = 256


class Change(NamedTuple):
    """A level's change: the frame's place and ordinal, side, price in mills, and the new size in lots."""

    place: int
    ordinal: int
    side: int
    mills: int
    lots: int


class Line:
    """A valid book on one subscription.

    is_proven: the numbers show that no change of it was lost. recent: (clock ns, side, mills, lots before) of its last changes.
    """

    __slots__ = ("is_proven", "key", "recent", "sides")

    def __init__(self, key: Key, levels: Levels, *, is_proven: bool) -> None:
        self.key, self.is_proven = key, is_proven
        self.sides = Side(levels[0]), Side(levels[1])
        self.recent: deque[tuple[int, int, int, int]] = deque(maxlen=_REMEMBERED)

    def change(self, clock: int, side: int, mills: int, by: int) -> int:
        """Change a level and return its new size."""
        held = self.sides[side]
        self.recent.append((clock, side, mills, held.levels.get(mills, 0)))
        return held.change(mills, by)

    @property
    def is_empty(self) -> bool:
        """Whether nobody bids on either side."""
        return not self.sides[0].levels and not self.sides[1].levels

    @property
    def is_crossed(self) -> bool:
        """Whether the best bids of both sides make a dollar or more: the book is locked or crossed, which no book of the venue can be."""
        yes, no = self.sides[0].best, self.sides[1].best
        return yes + no >= DOLLAR and yes > 0 and no > 0

    @property
    def crossing(self) -> str:
        """What such a book is called."""
        return "crossed book" if self.sides[0].best + self.sides[1].best > DOLLAR else "locked book"

    def differences(self, other: Line) -> set[tuple[int, int]]:
        """The levels, side and mills, of other sizes in both."""
        return {
            (side, mills)
            for side, (mine, theirs) in enumerate(zip(self.sides, other.sides, strict=True))
            for mills, _ in mine.levels.items() ^ theirs.levels.items()
        }

    def equals(self, other: Line) -> bool:
        """Whether all levels are the same."""
        return self.sides[0].levels == other.sides[0].levels and self.sides[1].levels == other.sides[1].levels

    def was(self, other: Line, clock: int) -> bool:
        """Whether the book equals the other one, or did at a moment of the last second before `clock`."""
        left = self.differences(other)
        for at, side, mills, lots in reversed(self.recent):
            if not left or clock - at > AT_ONCE:
                break
            if lots == other.sides[side].levels.get(mills, 0):
                left.discard((side, mills))
            else:
                left.add((side, mills))
        return not left


@dataclass(slots=True)
class Differing:
    """Two subscriptions show different books. place, clock: since when. moved: those that changed since. began_equal: they agreed before."""

    place: int
    clock: int
    moved: set[Key]
    began_equal: bool


@dataclass(slots=True)
class Market:
    """One market so far.

    lines: its valid books by subscription. leader: the one that is shown; None from the loss of the book to the next snapshot. agreed: place of the last
    snapshot that began the book or agreed with it. crossed: place and ordinal of the last frame, where it left the book crossed or locked. is_hidden: an
    instant ended so. wiped: place of the snapshot that emptied it. shown: place of its first book. unapplied: places of frames that were not applied.
    """

    code: int
    life: Life
    lines: dict[Key, Line] = field(default_factory=dict)
    leader: Line | None = None
    agreed: int = 0
    crossed: tuple[int, int] | None = None
    is_hidden: bool = False
    differing: Differing | None = None
    pending: list[Change] = field(default_factory=list)
    was_filled: bool = False
    wiped: int | None = None
    shown: int | None = None
    unapplied: array[int] = field(default_factory=lambda: array("q"))
    last_trade: int | None = None
    last_price: int | None = None
    connection: int = 0

    def beside(self) -> Line | None:
        """A valid book on another subscription than the one that is shown."""
        return next((line for line in self.lines.values() if line is not self.leader), None)


@dataclass(frozen=True, slots=True)
class Lost:
    """A book could not be trusted: market code, places of the frames behind and before which (until -1: to the end), and why.

    by_time: `since` names a time alone; frames that were heard before it count too where they are later.
    """

    code: int
    since: int
    until: int
    cause: str
    by_time: bool = False
