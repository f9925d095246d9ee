"""A plain replay of a recording's books with a check after each frame, to compare episodes with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bellwether.recordings.books import BookSide, MalformedFrame, has_yes_prices, scale_decimal
from bellwether.recordings.exchange_times import read_exchange_time
from bellwether.recordings.gaps import BookValidator, Effect, GapReport
from bellwether.recordings.recording import Recording
from bellwether.venues.kalshi.stream.frame import Frame, parse_message, read_body

DOLLAR = 1_000_000
CENT = DOLLAR // 100


def parse_price(text: Any) -> int:
    """Convert dollars as text to millionths of a dollar."""
    return scale_decimal(text, 6)


def parse_size(text: Any) -> int:
    """Convert contracts to hundredths of a contract."""
    return scale_decimal(text, 2)


def _levels(body: dict[str, Any], side: str) -> dict[int, int]:
    """Return the sizes of one side of a snapshot by price, in the newest of its forms."""
    form = next((form for form in ("_dollars_fp", "_dollars", "") if body.get(side + form) is not None), None)
    if form is None:
        return {}
    return {parse_price(price) if form else CENT * scale_decimal(price, 0): parse_size(size) for price, size in body[side + form]}


class RecordedBook:
    """Book of one market: the bids of both sides, each in prices of its own side."""

    def __init__(self, yes: dict[int, int], no: dict[int, int]) -> None:
        self.yes, self.no = BookSide(yes), BookSide(no)

    @classmethod
    def of(cls, body: dict[str, Any], *, yes_prices: bool = False) -> RecordedBook:
        """Build a book from a snapshot's body. yes_prices: NO levels are in prices of YES. Raises `MalformedFrame`."""
        try:
            no = _levels(body, "no")
            return cls(_levels(body, "yes"), {DOLLAR - price: size for price, size in no.items()} if yes_prices else no)
        except (TypeError, ValueError) as error:
            raise MalformedFrame(f"levels are not pairs of price and size ({error})") from None

    def apply(self, body: dict[str, Any], *, yes_prices: bool = False) -> int:
        """Apply a delta's body and return the new size of its level. Raises `MalformedFrame`."""
        if body.get("side") not in ("yes", "no"):
            raise MalformedFrame(f"side is {body.get('side')!r}")
        price = parse_price(body["price_dollars"]) if "price_dollars" in body else CENT * scale_decimal(body.get("price"), 0)
        price = DOLLAR - price if yes_prices and body["side"] == "no" else price
        size = parse_size(body["delta_fp"] if "delta_fp" in body else body.get("delta"))
        return (self.yes if body["side"] == "yes" else self.no).change(price, size)


def is_empty(book: RecordedBook) -> bool:
    """Return whether both sides are empty."""
    return not book.yes.levels and not book.no.levels


def spread_of(book: RecordedBook) -> int | None:
    """Return a dollar less the best bids of both sides: negative if crossed, 0 if locked, None if a side is empty."""
    return DOLLAR - book.yes.best - book.no.best if book.yes.best and book.no.best else None


def differences(one: RecordedBook, other: RecordedBook) -> int:
    """Return the number of levels of both sides that differ."""
    pairs = ((one.yes.levels, other.yes.levels), (one.no.levels, other.no.levels))
    return sum(len(dict(mine.items() ^ theirs.items())) for mine, theirs in pairs)


@dataclass(slots=True)
class BookCheck:
    """Results of the replay of a recording.

    Attributes:
        counts: number of frames or findings by kind:

            - snapshots, deltas: applied frames;
            - unapplied: frames without a valid book to apply to;
            - repeated, superseded: frames with nothing new, because they came before or a later snapshot includes them;
            - negative: deltas that made a level negative;
            - crossed: instants of the exchange that ended with best bids of a dollar or more in total;
            - passing, locked: messages after which the best bids exceeded or equalled a dollar, which can happen between the deltas of one instant;
            - agreed, mismatched: later snapshots of a valid book, compared with it;
            - wiped: snapshots that emptied a valid book, as for a closing market;
            - malformed: frames without a price, size or side.
        first: description of the first finding of each kind.
        books: the valid book of each market.
    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    books: dict[str, RecordedBook] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        return self.counts[name]

    @property
    def is_sound(self) -> bool:
        """True if no level is negative, no book is left crossed or locked, no snapshot differs and no frame is malformed."""
        return not any(self.counts[name] for name in ("negative", "crossed", "mismatched", "malformed"))

    def note(self, name: str, frame: Frame, text: str) -> None:
        """Count a finding, and keep the first description of its kind."""
        self.counts[name] += 1
        self.first.setdefault(name, f"frame {frame.ordinal}: {text}")


class BookReplay:
    """Apply a recording's frames to books while they are valid, and check the books after each frame.

    The book of a market is that of its primary subscription.
    """

    def __init__(self, *, partial: bool = False, yes_prices: bool = False) -> None:
        self.watch = BookValidator(partial=partial)
        self._yes_prices = yes_prices
        self.check = BookCheck()
        self._crossed: dict[str, tuple[int | None, Frame]] = {}

    def apply(self, frame: Frame) -> str | None:
        """Apply a frame. Returns the market whose valid book it changed, or None."""
        message = parse_message(frame.data)
        understood = self.watch.take(frame, message)
        for ended in self.watch.pop_ended():
            self.check.books.pop(ended.market, None)
        if understood is None:
            return None
        effect, market, _, _ = understood
        if effect in (Effect.REPEATED, Effect.SUPERSEDED):
            self.check.counts[effect.value] += 1
            return None
        if effect is Effect.UNAPPLIED or (effect is Effect.CHANGED and market not in self.check.books):
            self.check.counts["unapplied"] += 1
            return None
        body = read_body(message)
        at = read_exchange_time(body)
        self._judge(market, at)
        try:
            if effect is Effect.CHANGED:
                self._delta(frame, market, self.check.books[market], body)
            else:
                self._snapshot(frame, market, body)
        except MalformedFrame as error:
            self.check.note("malformed", frame, f"{market}: {error}")
            self.check.books.pop(market, None)
            return None
        self._compare_sides(frame, market, at)
        return market

    def finish(self) -> BookCheck:
        """End the replay and return its results."""
        for market in list(self._crossed):
            self._judge(market, None)
        return self.check

    def _judge(self, market: str, at: int | None) -> None:
        """Count a book that stayed crossed or locked at the end of an instant other than `at`."""
        since, frame = self._crossed.pop(market, (None, None))
        if frame is not None and (at is None or at != since):
            self.check.note("crossed", frame, f"{market}: the best bids make a dollar or more")

    def _snapshot(self, frame: Frame, market: str, body: dict[str, Any]) -> None:
        book = RecordedBook.of(body, yes_prices=self._yes_prices)
        self.check.counts["snapshots"] += 1
        if any(size < 0 for side in (book.yes, book.no) for size in side.levels.values()):
            self.check.note("negative", frame, f"{market}: a snapshot with a level below zero")
        known = self.check.books.get(market)
        if known is not None:
            self._compare(frame, market, known, book)
        self.check.books[market] = book

    def _compare(self, frame: Frame, market: str, known: RecordedBook, book: RecordedBook) -> None:
        if is_empty(book) and not is_empty(known):
            self.check.counts["wiped"] += 1
        elif levels := differences(known, book):
            self.check.note("mismatched", frame, f"{market}: {levels} levels differ from the book that deltas had made")
        else:
            self.check.counts["agreed"] += 1

    def _delta(self, frame: Frame, market: str, book: RecordedBook, body: dict[str, Any]) -> None:
        size = book.apply(body, yes_prices=self._yes_prices)
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
    """Replay a recording. Returns the check of its books and its gaps."""
    about = recording.about
    yes_prices = has_yes_prices(recording.frames(), flag=about.use_yes_price)
    replay = BookReplay(partial=about.partial, yes_prices=yes_prices)
    for frame in recording.frames():
        replay.apply(frame)
    return replay.finish(), replay.watch.report(recording.name)
