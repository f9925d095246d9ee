"""Prints and the cuts they made, against a plain matcher."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.replay.tape import kernels
from bellwether.replay.tape.layout import INVALID, LEVEL, VALID, fixed, pack
from bellwether.replay.units import SECOND


@dataclass
class Feed:
    """Book rows (each a list of words) and prints, with their times."""

    rows: list[tuple[int, int, list[int]]]
    prints: list[tuple[int, int, int, int, int]]

    def match(self) -> tuple[list[tuple[int, int, int]], list[int]]:
        row_ts, ticker, words = ([row[index] for row in self.rows] for index in range(3))
        columns = [[one[index] for one in self.prints] for index in range(5)]
        word, number, lots, left = kernels.match(
            fixed(row_ts),
            fixed(ticker, np.int32),
            fixed(np.cumsum([len(part) for part in words])),
            fixed([one for part in words for one in part]),
            fixed(columns[0]),
            fixed(columns[1], np.int32),
            fixed(columns[2]),
            fixed(columns[3]),
            fixed(columns[4]),
            2,
        )
        return list(zip(word.tolist(), number.tolist(), lots.tolist(), strict=True)), left.tolist()


@dataclass
class Cut:
    word: int
    key: tuple[int, int, int]
    ts: int
    message: int
    left: int


@dataclass
class Plain:
    """The same, with lists that are searched from end to end."""

    sizes: dict[tuple[int, int, int], int] = field(default_factory=dict)
    invalid: set[int] = field(default_factory=set)
    messages: dict[int, int] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    waiting: list[Cut] = field(default_factory=list)
    pieces: list[tuple[int, int, int]] = field(default_factory=list)

    def match(self, feed: Feed) -> tuple[list[tuple[int, int, int]], list[int]]:
        steps = [(row[0], 0, number, row) for number, row in enumerate(feed.rows)]
        steps += [(one[0], 1, number, one) for number, one in enumerate(feed.prints)]  # type: ignore[misc]
        word, prints = 0, []
        for ts, kind, number, step in sorted(steps, key=lambda step: step[:3]):
            self.messages[step[1]] = self.messages.get(step[1], 0) + 1
            if kind == 0:
                for event in step[2]:  # type: ignore[union-attr]
                    self.change(word, event, ts)
                    word += 1
            else:
                key, lots = step[1:4], step[4]  # type: ignore[misc]
                prints.append(self.print(Cut(number, key, ts, self.messages[step[1]], lots)))
        return self.pieces, [one.left for one in prints]

    def near(self, first: Cut, second: Cut) -> bool:
        return first.key == second.key and abs(first.message - second.message) <= 40 and abs(first.ts - second.ts) <= 2 * SECOND

    def take(self, cut: Cut, one: Cut) -> None:
        lots = min(cut.left, one.left)
        if lots:
            self.pieces.append((cut.word, one.word, lots))
        cut.left -= lots
        one.left -= lots

    def change(self, word: int, event: int, ts: int) -> None:
        kind, side, price, ticker, size = event & 0xF, event >> 4 & 1, event >> 5 & 0x3FF, event >> 15 & 0x3FFF, event >> 29
        if kind != LEVEL:
            (self.invalid.add if kind == INVALID else self.invalid.discard)(ticker)
            return
        key = (ticker, side, price)
        lost, self.sizes[key] = self.sizes.get(key, 0) - size, size
        if lost > 0 and ticker not in self.invalid:
            cut = Cut(word, key, ts, self.messages[ticker], lost)
            for one in self.waiting:
                if self.near(cut, one):
                    self.take(cut, one)
            self.cuts.append(cut)

    def print(self, one: Cut) -> Cut:
        near = [cut for cut in reversed(self.cuts) if self.near(cut, one)]
        exact = next((cut for cut in near if cut.left == one.left), None)
        for cut in near if exact is None else [exact]:
            self.take(cut, one)
        self.waiting.append(one)
        return one


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("row"), st.integers(0, 1), st.lists(st.tuples(st.integers(0, 1), st.integers(1, 2), st.integers(0, 6)), max_size=3)
        ),
        st.tuples(st.just("print"), st.integers(0, 1), st.integers(0, 1), st.integers(1, 2), st.integers(1, 5)),
        st.tuples(st.sampled_from(["lost", "found"]), st.integers(0, 1)),
        st.tuples(st.just("quiet"), st.integers(1, 60)),
        st.tuples(st.just("pause"), st.sampled_from([0, 1, SECOND, 2 * SECOND, 2 * SECOND + 1])),
    ),
    max_size=40,
)


def feed_of(steps: list[tuple]) -> Feed:  # type: ignore[type-arg]
    feed, now = Feed([], []), 0
    for kind, *rest in steps:
        if kind == "row":
            feed.rows.append((now, rest[0], [pack(LEVEL, rest[0], *level) for level in rest[1]]))
        elif kind == "print":
            feed.prints.append((now, *rest))
        elif kind == "pause":
            now += rest[0]
        elif kind == "quiet":
            feed.rows.extend((now, 0, []) for _ in range(rest[0]))
        else:
            feed.rows.append((now, rest[0], [pack(INVALID if kind == "lost" else VALID, rest[0], 0, 0, 0)]))
    return feed


@settings(max_examples=150, deadline=None)
@given(STEPS.map(feed_of))
def test_prints_are_matched_as_a_plain_matcher_does(feed: Feed) -> None:
    assert feed.match() == Plain().match(feed)


def matched(*steps: tuple) -> tuple[list[tuple[int, int, int]], list[int]]:  # type: ignore[type-arg]
    return feed_of([("row", 0, [(0, 1, 100)]), *steps]).match()


def row(size: int) -> tuple:  # type: ignore[type-arg]
    return ("row", 0, [(0, 1, size)])


def printed(lots: int) -> tuple:  # type: ignore[type-arg]
    return ("print", 0, 0, 1, lots)


def test_the_nearest_cut_comes_first() -> None:
    assert matched(row(60), ("pause", 1), row(30), ("pause", 1), printed(50)) == ([(2, 0, 30), (1, 0, 20)], [0])


def test_a_cut_of_just_its_size_comes_before_a_nearer_one() -> None:
    assert matched(row(60), ("pause", 1), row(30), ("pause", 1), printed(40)) == ([(1, 0, 40)], [0])


def test_too_late_is_too_late() -> None:
    assert matched(row(60), ("pause", 2 * SECOND), printed(40))[1] == [0]
    assert matched(row(60), ("pause", 2 * SECOND + 1), printed(40)) == ([], [40])


def test_too_many_messages_between_are_too_many() -> None:
    assert matched(row(60), ("quiet", 39), ("pause", 1), printed(40))[1] == [0]
    assert matched(row(60), ("quiet", 40), ("pause", 1), printed(40)) == ([], [40])
