"""A market while its recording is read: its book on each subscription, and what is known of its lifecycle."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from bellwether.recordings.numbers import Key
from bellwether.replay.building.lifecycle import Lifecycle
from bellwether.replay.building.lines import Line
from bellwether.units import Mills


@dataclass(slots=True)
class Market:
    """One market so far.

    lines: its valid books by subscription. leader: the one that is shown; None from the loss of the book to the next snapshot. agreed: place of the last
    snapshot that began the book or agreed with it. crossed: place and ordinal of the last frame, where it left the book crossed or locked. is_hidden: an
    instant ended so. wiped: place of the snapshot that emptied it. shown: place of its first book. unapplied: places of frames that were not applied.
    """

    code: int
    lifecycle: Lifecycle
    lines: dict[Key, Line] = field(default_factory=dict)
    leader: Line | None = None
    agreed: int = 0
    crossed: tuple[int, int] | None = None
    is_hidden: bool = False
    was_filled: bool = False
    wiped: int | None = None
    shown: int | None = None
    unapplied: array[int] = field(default_factory=lambda: array("q"))
    last_trade: int | None = None
    last_price: Mills | None = None
    connection: int = 0

    def others(self) -> list[Line]:
        """The valid books on other subscriptions than the one that is shown which follow it, as far as is known."""
        return [line for line in self.lines.values() if line is not self.leader and not line.following.is_still]


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
