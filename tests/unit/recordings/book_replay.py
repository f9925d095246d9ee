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


def differences(one: RecordedBook, other: RecordedBook) -> int:
    """Return the number of levels of both sides that differ."""
    pairs = ((one.yes.levels, other.yes.levels), (one.no.levels, other.no.levels))
    return sum(len(dict(mine.items() ^ theirs.items())) for mine, theirs in pairs)


@dataclass(slots=True)
class BookCheck:
    """Results of the replay of a recording.

    counts: of applied frames (snapshots, deltas), frames without a valid book to apply to (unapplied), later snapshots that agree with a valid
    book (agreed), and faults: levels below zero (negative), instants that end crossed or locked (crossed), snapshots that differ from a valid
    book (mismatched), and frames that cannot be read (malformed). books: the valid book of each market.
    """

    counts: Counter[str] = field(default_factory=Counter)
    books: dict[str, RecordedBook] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        return self.counts[name]

    @property
    def is_sound(self) -> bool:
        """True if the replay found no fault."""
        return not any(self.counts[name] for name in ("negative", "crossed", "mismatched", "malformed"))


class BookReplay:
    """Apply a recording's frames to books while they are valid, and check the books after each frame.

    The book of a market is that of its primary subscription.
    """

    def __init__(self, *, partial: bool = False, yes_prices: bool = False) -> None:
        self.watch = BookValidator(partial=partial)
        self._yes_prices = yes_prices
        self.check = BookCheck()
        #: Exchange time of the last frame of each market whose book is crossed or locked.
        self._crossed: dict[str, int | None] = {}

    def apply(self, frame: Frame) -> str | None:
        """Apply a frame. Returns the market whose valid book it changed, or None."""
        message = parse_message(frame.data)
        understood = self.watch.take(frame, message)
        for ended in self.watch.pop_ended():
            self.check.books.pop(*ended.markets, None)
        if understood is None or understood.effect in (Effect.REPEATED, Effect.SUPERSEDED):
            return None
        effect, market, _, _ = understood
        if effect is Effect.UNAPPLIED or (effect is Effect.CHANGED and market not in self.check.books):
            self.check.counts["unapplied"] += 1
            return None
        body = read_body(message)
        at = read_exchange_time(body)
        if market in self._crossed and self._crossed.pop(market) != at:
            self.check.counts["crossed"] += 1
        try:
            if effect is Effect.CHANGED:
                self.check.counts["deltas"] += 1
                self.check.counts["negative"] += self.check.books[market].apply(body, yes_prices=self._yes_prices) < 0
            else:
                self._snapshot(market, body)
        except MalformedFrame:
            self.check.counts["malformed"] += 1
            self.check.books.pop(market, None)
            return None
        book = self.check.books[market]
        if book.yes.best and book.no.best and book.yes.best + book.no.best >= DOLLAR:
            self._crossed[market] = at
        return market

    def finish(self) -> BookCheck:
        """End the replay and return its results."""
        self.check.counts["crossed"] += len(self._crossed)
        return self.check

    def _snapshot(self, market: str, body: dict[str, Any]) -> None:
        book = RecordedBook.of(body, yes_prices=self._yes_prices)
        self.check.counts["snapshots"] += 1
        self.check.counts["negative"] += sum(size < 0 for side in (book.yes, book.no) for size in side.levels.values())
        known = self.check.books.get(market)
        # An empty snapshot wipes the book of a closing market.
        if known is not None and (is_empty(known) or not is_empty(book)):
            self.check.counts["mismatched" if differences(known, book) else "agreed"] += 1
        self.check.books[market] = book


def check_books(recording: Recording) -> tuple[BookCheck, GapReport]:
    """Replay a recording. Returns the check of its books and its gaps."""
    about = recording.about
    yes_prices = has_yes_prices(recording.frames(), flag=about.use_yes_price)
    replay = BookReplay(partial=about.partial, yes_prices=yes_prices)
    for frame in recording.frames():
        replay.apply(frame)
    return replay.finish(), replay.watch.report(recording.name)
