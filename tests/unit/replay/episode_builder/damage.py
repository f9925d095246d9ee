"""Randomly damaged recordings, and a comparison of their episodes' books with the true books.

A true book is a plain dictionary built from the undamaged frames, without code of the product.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np

from bellwether.recordings.recording import RecordingRequest
from bellwether.replay.episode.content import Content
from bellwether.replay.episode_builder.build import build
from bellwether.replay.tape.layout import KINDS, unpack
from bellwether.venues.kalshi.stream.frame import Frame

Levels = dict[tuple[str, int], int]


# --- the truth -----------------------------------------------------------------------------------------------------------


def centicents(text: str) -> int:
    return int(Decimal(text) * 10_000)


def lots(text: str) -> int:
    return int(Decimal(text) * 100)


def nanoseconds(text: str) -> int:
    """Parse a time such as 2026-05-15T11:30:47.000488Z."""
    since = datetime.fromisoformat(text.replace("Z", "+00:00")) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * 1000


def levels_of(body: dict[str, Any]) -> Levels:
    """Return the levels of a snapshot's body: lots by side and $0.0001."""
    sides = {side: body.get(f"{side}_dollars_fp") or body.get(f"{side}_dollars") or [] for side in ("yes", "no")}
    return {(side, centicents(price)): lots(str(size)) for side, held in sides.items() for price, size in held}


@dataclass
class PlainBook:
    """Book of one market as plain dictionaries: its opening, each change with its time, and the time after which nothing is known."""

    opening: Levels = field(default_factory=dict)
    changes: list[tuple[int, str, int, int]] = field(default_factory=list)
    over: int | None = None
    book: Levels = field(default_factory=dict)
    _next: int = 0

    def at(self, time: int) -> Levels:
        """Return the book after all changes up to a time. Times must ascend between calls."""
        while self._next < len(self.changes) and self.changes[self._next][0] <= time:
            _, side, price, by = self.changes[self._next]
            self.opening[side, price] = self.opening.get((side, price), 0) + by
            if not self.opening[side, price]:
                del self.opening[side, price]
            self._next += 1
        return self.opening


def truth(frames: Iterable[Frame], *, partial: bool = False) -> dict[str, PlainBook]:
    """Return the books of undamaged frames. A change has the latest time of its subscription, or else of its market."""
    books: dict[str, PlainBook] = {}
    clocks: dict[Any, int] = {}
    for frame in frames:
        message = json.loads(frame.data)
        if message["type"] not in ("orderbook_snapshot", "orderbook_delta"):
            continue
        body = message["msg"]
        market = body["market_ticker"]
        key = (frame.connection, message["sid"], market if partial else None)
        if message["type"] == "orderbook_snapshot":
            levels = levels_of(body)
            if market not in books:
                books[market] = PlainBook(dict(levels), book=levels)
            elif levels != books[market].book:
                assert not levels, "a snapshot of an undamaged recording agrees with its book, or empties it"
                books[market].over = clocks.get(key, 0)
            continue
        clocks[key] = max(clocks.get(key, 0), nanoseconds(body["ts"]))
        side, price = body["side"], centicents(body["price_dollars"])
        by = lots(str(body["delta_fp"]))
        plain = books[market]
        plain.changes.append((clocks[key], side, price, by))
        plain.book[side, price] = plain.book.get((side, price), 0) + by
        if not plain.book[side, price]:
            del plain.book[side, price]
    return books


# --- recordings ----------------------------------------------------------------------------------------------------------


def renumbered(frames: Iterable[Frame]) -> list[Frame]:
    """Return the frames with ordinals in this order, and times of receipt that never decrease."""
    result: list[Frame] = []
    latest: int | None = None
    for ordinal, frame in enumerate(frames):
        at = frame.received_at
        latest = at if latest is None else latest if at is None else max(latest, at)
        result.append(Frame(None if at is None else latest, frame.connection, ordinal, frame.data))
    return result


#: Ways to request books again: on the same subscription; on a new connection; on one that replaces the old one; on an additional one.
WAYS = ("again", "reconnect", "take over", "both")


class _Venue:
    """Sends the messages of a recording with new sequence numbers, and all books on request."""

    def __init__(self, way: str) -> None:
        self.made: list[Frame] = []
        self._way = way
        self._numbers: Counter[tuple[int, int]] = Counter()
        self._books: dict[str, Levels] = {}
        self._ids: dict[str, str] = {}
        self._connection = 1
        self._sids: list[int] = []
        self._last = 100

    def say(self, at: int | None, message: dict[str, Any]) -> bool:
        """Send a message. Returns True if it belongs to a book."""
        is_book = message["type"] in ("orderbook_snapshot", "orderbook_delta")
        if not is_book:
            self._put(at, message)
            return False
        self._sids = self._sids or [message["sid"]]
        self._take(message)
        for sid in self._sids:
            self._put(at, {**message, "sid": sid})
        return True

    def ask(self, at: int | None) -> None:
        """Send all books."""
        self._last += 1
        if self._way == "reconnect":
            self._connection += 1
        sid = self._sids[0] if self._way in ("again", "reconnect") else self._last
        self._sids = {"take over": [sid], "both": [*self._sids, sid][-2:]}.get(self._way, self._sids)
        for ticker, book in self._books.items():
            sides = {
                f"{name}_dollars_fp": [
                    [f"{price / 10_000:.4f}", f"{size / 100:.2f}"] for (side, price), size in sorted(book.items()) if side == name
                ]
                for name in ("yes", "no")
            }
            held = {name: levels for name, levels in sides.items() if levels}
            snapshot = {"market_ticker": ticker, "market_id": self._ids[ticker], **held}
            self._put(at, {"type": "orderbook_snapshot", "sid": sid, "seq": 0, "msg": snapshot})

    def _put(self, at: int | None, message: dict[str, Any]) -> None:
        if "sid" in message and "seq" in message:
            self._numbers[self._connection, message["sid"]] += 1
            message = {**message, "seq": self._numbers[self._connection, message["sid"]]}
        self.made.append(Frame(at, self._connection, len(self.made), json.dumps(message, separators=(",", ":")).encode()))

    def _take(self, message: dict[str, Any]) -> None:
        body = message["msg"]
        market = body["market_ticker"]
        self._ids[market] = body.get("market_id", "")
        if message["type"] == "orderbook_snapshot":
            self._books[market] = levels_of(body)
            return
        book, level = self._books[market], (body["side"], centicents(body["price_dollars"]))
        book[level] = book.get(level, 0) + lots(str(body["delta_fp"]))
        if not book[level]:
            del book[level]


def with_snapshots(frames: Iterable[Frame], every: int, way: str = "again") -> list[Frame]:
    """Return the recording with snapshots of all books after every `every` book messages, in one of `WAYS`."""
    venue, count = _Venue(way), 0
    for frame in frames:
        if venue.say(frame.received_at, json.loads(frame.data)):
            count += 1
            if count % every == 0:
                venue.ask(frame.received_at)
    return venue.made


def _last_of_each(frames: list[Frame]) -> set[int]:
    """Return the indices of the last frame of each subscription, whose loss would leave no trace."""
    last: dict[Any, int] = {}
    for place, frame in enumerate(frames):
        message = json.loads(frame.data)
        last[frame.connection, message.get("sid"), None if "sid" in message else message["type"]] = place
    return set(last.values())


def drop(frames: list[Frame], rng: Random, place: int) -> None:
    del frames[place]


def drop_stretch(frames: list[Frame], rng: Random, place: int) -> None:
    del frames[place : place + rng.randint(2, 60)]


def repeat(frames: list[Frame], rng: Random, place: int) -> None:
    frames.insert(min(len(frames) - 1, place + rng.randint(1, 400)), frames[place])


def delay(frames: list[Frame], rng: Random, place: int) -> None:
    frames.insert(min(len(frames) - 2, place + rng.randint(1, 200)), frames.pop(place))


def swap(frames: list[Frame], rng: Random, place: int) -> None:
    other = min(len(frames) - 2, place + 1)
    frames[place], frames[other] = frames[other], frames[place]


def tear(frames: list[Frame], rng: Random, place: int) -> None:
    frame = frames[place]
    frames[place] = frame._replace(data=frame.data[: rng.randint(1, len(frame.data) - 1)])


Damage = Callable[[list[Frame], Random, int], None]
ALL: tuple[Damage, ...] = (drop, drop_stretch, repeat, delay, swap, tear)


def damaged(frames: list[Frame], rng: Random, kinds: tuple[Damage, ...], times: int) -> list[Frame]:
    """Return the recording with this many damages. The last frame of each subscription keeps its place."""
    last = {id(frames[place]) for place in _last_of_each(frames)}
    result = list(frames)
    for _ in range(times):
        before = list(result)
        place = rng.randrange(len(result) - 2)
        if id(result[place]) in last or id(result[place + 1]) in last:
            continue
        rng.choice(kinds)(result, rng, place)
        held = [id(frame) for frame in result]
        if not last <= set(held) or [number for number in held if number in last] != [id(frame) for frame in before if id(frame) in last]:
            result = before
    return renumbered(result)


# --- looking -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Numbers of comparisons: with a right book, and with a book marked invalid."""

    right: int
    told: int
    #: Frames that were received and not applied, and that no gap contains.
    uncovered: int = 0


def compare_books(frames: list[Frame], about: RecordingRequest, plain: dict[str, PlainBook]) -> Comparison:
    """Build the episodes of damaged frames. Compare their books with the true books at every change of either, and check their rows."""
    comparisons = [Comparison(0, 0)]
    for draft in build("damaged", about, lambda: frames):
        rows: dict[str, list[tuple[Any, ...]]] = {}
        ts = np.repeat(draft.book.ts, draft.book.counts).tolist()
        for at, kind, code, side, price, size in zip(ts, *(column.tolist() for column in unpack(draft.book.words)), strict=True):
            rows.setdefault(draft.metadata.tickers[code], []).append((at, KINDS[kind], ("yes", "no")[side], price, size))
        comparisons += [_compared(ticker, rows[ticker], copy.deepcopy(plain[ticker]), draft) for ticker in rows]
        comparisons.append(Comparison(0, 0, draft.metadata.source["uncovered"]))
    return Comparison(*(sum(getattr(one, name) for one in comparisons) for name in ("right", "told", "uncovered")))


def _compared(ticker: str, rows: list[tuple[Any, ...]], plain: PlainBook, draft: Content) -> Comparison:
    times = sorted({row[0] for row in rows} | {change[0] for change in plain.changes if change[0] >= rows[0][0]})
    book: Levels = {}
    right = marked = place = 0
    is_valid = True
    for at in times:
        while place < len(rows) and rows[place][0] <= at:
            _, kind, side, price, size = rows[place]
            place += 1
            if kind != "level":
                is_valid = kind == "valid"
                continue
            book[side, price] = size
            if not size:
                del book[side, price]
        if (plain.over is not None and at >= plain.over) or at > draft.metadata.end:
            break
        wanted = plain.at(at)
        if not is_valid:
            marked += 1
        else:
            assert book == wanted, describe_error(at, ticker, book, wanted, draft)
            right += 1
    return Comparison(right, marked)


def describe_error(at: int, ticker: str, shown: Levels, wanted: Levels, draft: Content) -> str:
    """Describe an error."""
    differing = {
        level: (shown.get(level), wanted.get(level)) for level in shown.keys() | wanted.keys() if shown.get(level) != wanted.get(level)
    }
    gaps = [gap for gap in draft.metadata.gaps if gap.ticker == ticker]
    return f"{ticker} at {at}: shown and true are {differing}; gaps {gaps}"
