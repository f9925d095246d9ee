"""A plain replay of a recording's books, checked after each frame: the second computation to compare builds of episodes with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bellwether.recordings.book_validation import BookValidator, Effect
from bellwether.recordings.books import DOLLAR, MalformedFrame, RecordedBook, convert_no_prices, has_yes_prices
from bellwether.recordings.exchange_times import read_exchange_time
from bellwether.recordings.gap_report import GapReport
from bellwether.recordings.recording import Recording
from bellwether.recordings.sequence_numbers import Key
from bellwether.venues.kalshi.stream.frame import Frame, parse_message, read_body


def is_empty(book: RecordedBook) -> bool:
    """Return whether both sides are empty."""
    return not book.yes.levels and not book.no.levels


def spread_of(book: RecordedBook) -> int | None:
    """A dollar less the best bids of both sides together: below 0 crossed, 0 locked; None while a side is empty."""
    return DOLLAR - book.yes.best - book.no.best if book.yes.best and book.no.best else None


def differences(one: RecordedBook, other: RecordedBook) -> int:
    """Number of levels of either side that are not the same."""
    pairs = ((one.yes.levels, other.yes.levels), (one.no.levels, other.no.levels))
    return sum(len(dict(mine.items() ^ theirs.items())) for mine, theirs in pairs)


@dataclass(slots=True)
class BookCheck:
    """What replaying a recording showed.

    snapshots, deltas: frames that were applied. unapplied: those that no valid book could take. repeated, superseded: those that say nothing new: they
    came before, or a later snapshot holds them. negative: deltas that left a level below zero. crossed: instants of the exchange that left the best
    bids of both sides worth a dollar or more. passing, locked: messages after which they were worth more than a dollar, or exactly one; one action of
    the exchange makes several deltas, so this passes. agreed, mismatched: later snapshots of a valid book, compared with it; wiped: those that emptied
    it, as a closing market's does. malformed: frames that say no price, size or side. first: the first finding of each kind in words.
    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    books: dict[str, RecordedBook] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        return self.counts[name]

    @property
    def is_sound(self) -> bool:
        """No negative level, no book crossed or locked, no mismatch and no malformed frame."""
        return not any(self.counts[name] for name in ("negative", "crossed", "mismatched", "malformed"))

    def note(self, name: str, frame: Frame, text: str) -> None:
        """Count a finding and keep the first in words."""
        self.counts[name] += 1
        self.first.setdefault(name, f"frame {frame.ordinal}: {text}")


class BookReplay:
    """Applies a recording's frames to books, as long as they are valid, and checks them after each.

    Where two subscriptions follow a market, each has a book of its own; `check.books` has that of the later snapshot.
    """

    def __init__(self, *, partial: bool = False, yes_prices: bool = False) -> None:
        self.watch = BookValidator(partial=partial)
        self._yes_prices = yes_prices
        self.check = BookCheck()
        self._lines: dict[str, dict[Key, RecordedBook]] = {}
        self._crossed: dict[str, tuple[int | None, Frame]] = {}

    def apply(self, frame: Frame) -> str | None:
        """Take in a frame; the market whose valid book it changed, if any."""
        found = parse_message(frame.data)
        understood = self.watch.take(frame, found)
        for ended in self.watch.pop_ended():
            self._drop(ended.market, ended.key)
        if understood is None:
            return None
        effect, market, key, _ = understood
        if effect in (Effect.REPEATED, Effect.SUPERSEDED):
            self.check.counts[effect.value] += 1
            return None
        if effect is Effect.UNAPPLIED or (effect is Effect.CHANGED and key not in self._lines.get(market, ())):
            self.check.counts["unapplied"] += 1
            return None
        body = convert_no_prices(read_body(found)) if self._yes_prices else read_body(found)
        at = read_exchange_time(body)
        self._judge(market, at)
        try:
            if effect is Effect.CHANGED:
                self._delta(frame, market, self._lines[market][key], body)
            else:
                self._snapshot(frame, market, key, body)
        except MalformedFrame as error:
            self.check.note("malformed", frame, f"{market}: {error}")
            self._drop(market, key)
            return None
        self._compare_sides(frame, market, at)
        return market

    def finish(self) -> BookCheck:
        """What the replay showed, when no more frames come."""
        self.watch.finish()
        for ended in self.watch.pop_ended():
            self._drop(ended.market, ended.key)
        for market in list(self._crossed):
            self._judge(market, None)
        return self.check

    def _drop(self, market: str, key: Key) -> None:
        lines = self._lines.get(market, {})
        lines.pop(key, None)
        if lines:
            self.check.books[market] = next(reversed(lines.values()))
        else:
            self.check.books.pop(market, None)

    def _judge(self, market: str, at: int | None) -> None:
        """A book that was crossed or locked at another instant than `at` was left so."""
        since, frame = self._crossed.pop(market, (None, None))
        if frame is not None and (at is None or at != since):
            self.check.note("crossed", frame, f"{market}: the best bids make a dollar or more")

    def _snapshot(self, frame: Frame, market: str, key: Key, body: dict[str, Any]) -> None:
        book, lines = RecordedBook.of(body), self._lines.setdefault(market, {})
        self.check.counts["snapshots"] += 1
        if any(size < 0 for side in (book.yes, book.no) for size in side.levels.values()):
            self.check.note("negative", frame, f"{market}: a snapshot with a level below zero")
        known = lines.pop(key, self.check.books.get(market))
        if known is not None:
            self._compare(frame, market, known, book)
        self.check.books[market] = lines[key] = book

    def _compare(self, frame: Frame, market: str, known: RecordedBook, book: RecordedBook) -> None:
        if is_empty(book) and not is_empty(known):
            self.check.counts["wiped"] += 1
        elif levels := differences(known, book):
            self.check.note("mismatched", frame, f"{market}: {levels} levels differ from the book that deltas had made")
        else:
            self.check.counts["agreed"] += 1

    def _delta(self, frame: Frame, market: str, book: RecordedBook, body: dict[str, Any]) -> None:
        size = book.apply(body)
        self.check.counts["deltas"] += 1
        if size < 0:
            self.check.note("negative", frame, f"{market}: a level of {size} hundredths of a contract")

    def _compare_sides(self, frame: Frame, market: str, at: int | None) -> None:
        spread = spread_of(self.check.books[market])
        if spread is None or spread > 0:
            return
        self.check.note("passing" if spread else "locked", frame, f"{market}: the best bids make {DOLLAR - spread} millionths of a dollar")
        self._crossed[market] = (at, frame)


def check_books(recording: Recording) -> tuple[BookCheck, GapReport]:
    """Replay a whole recording: what its books showed, and what is missing in it."""
    replay = BookReplay(partial=recording.about.partial, yes_prices=has_yes_prices(recording.frames(), flag=recording.about.use_yes_price))
    for frame in recording.frames():
        replay.apply(frame)
    return replay.finish(), replay.watch.report(recording.name, recording.torn)
