"""From an episode to its tape, under both tie rules."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.replay.episode.content import BookColumns, Content, Trades
from bellwether.replay.episode.folder import load
from bellwether.replay.episode.model import Market, Metadata, Phase, Settlement
from bellwether.replay.rules import fee_terms, rule_set, rules_for
from bellwether.replay.tape.build import build_tape, load_tape, match_prints
from bellwether.replay.tape.layout import HALT, INVALID, KINDS, LEVEL, SETTLE, VALID, Tape, freeze, pack, unpack
from bellwether.replay.units import DOLLAR, MILL, NO, SECOND, YES
from tests.unit.replay.episode.folders import Native

Event = tuple[int, ...]


def content(
    rows: list[tuple[int, int, list[int]]],
    prints: list[Event] = [],  # noqa: B006
    *,
    markets: tuple[Market, ...] = (Market("A"), Market("B")),
    settlements: tuple[Settlement, ...] | None = None,
    end: int = 10**12,
) -> Content:
    """Build content. rows: ts, ticker, words. prints: ts, ticker, passive side, price in tenths of a cent, lots."""
    ts, ticker, words = ([row[index] for row in rows] for index in range(3))
    book = BookColumns(
        ts,  # type: ignore[arg-type]
        list(range(len(rows))),  # type: ignore[arg-type]
        ticker,  # type: ignore[arg-type]
        np.cumsum([len(part) for part in words]),
        [word for part in words for word in part],  # type: ignore[arg-type]
    )
    columns = [np.array([one[index] for one in prints], np.int64) for index in range(5)]
    price = np.where(columns[2] == YES, MILL * columns[3], DOLLAR - MILL * columns[3])
    trades = Trades(columns[0], pa.array(np.arange(len(prints))), columns[1], 1 - columns[2], price, columns[4])
    known = settlements or tuple(Settlement(market.ticker) for market in markets)
    return Content(Metadata("E", 0, end, markets), known, book, trades, {})


def events(tape: Tape) -> list[tuple[Any, ...]]:
    """Return (ts, kind, ticker, side, price in tenths of a cent, value) of each event, with the kind by name."""
    kinds, tickers, sides, numbers, values = unpack(tape.event)
    firsts = np.cumsum([0, *(len(levels) for levels in tape.levels[:-1])])
    prices = np.where(numbers > 0, tape.prices[firsts[tickers] + numbers] // MILL, 0)
    columns = [column.tolist() for column in (kinds, tickers, sides, prices, values)]
    return [(ts, KINDS[kind], *rest) for ts, kind, *rest in zip(tape.ts.tolist(), *columns, strict=True)]


def level(side: int, price: int, lots: int, ticker: int = 0) -> int:
    return pack(LEVEL, ticker, side, MILL * price, lots)


def aligned(*args: Any, **kwargs: Any) -> list[tuple[Any, ...]]:
    """Return the events of the aligned tape without the close at the recording's end."""
    return [event for event in events(build_tape(content(*args, **kwargs), "")) if event[:2] != (10**12, "close")]


class TestAligned:
    def test_a_print_stands_directly_before_the_cut_that_it_made(self) -> None:
        rows = [(0, 0, [level(YES, 450, 100), level(NO, 500, 10)]), (5, 0, [level(YES, 450, 60)]), (6, 0, [level(NO, 500, 20)])]
        assert aligned(rows, [(7, 0, YES, 450, 40)]) == [
            (0, "level", 0, YES, 450, 100),
            (0, "level", 0, NO, 500, 10),
            (5, "print", 0, YES, 450, 40),
            (5, "traded", 0, YES, 450, 60),
            (6, "level", 0, NO, 500, 20),
        ]

    def test_a_cut_that_is_larger_than_its_prints_is_split(self) -> None:
        rows = [(0, 0, [level(YES, 450, 100)]), (5, 0, [level(YES, 450, 10)])]
        assert aligned(rows, [(5, 0, YES, 450, 40), (5, 0, YES, 450, 20)])[1:] == [
            (5, "print", 0, YES, 450, 40),
            (5, "print", 0, YES, 450, 20),
            (5, "traded", 0, YES, 450, 40),
            (5, "level", 0, YES, 450, 10),
        ]

    def test_what_a_print_leaves_of_a_smaller_cut_stays_where_it_was(self) -> None:
        rows = [(0, 0, [level(YES, 450, 30)]), (5, 0, [level(YES, 450, 0)])]
        assert aligned(rows, [(6, 0, YES, 450, 40)])[1:] == [
            (5, "print", 0, YES, 450, 30),
            (5, "traded", 0, YES, 450, 0),
            (6, "print", 0, YES, 450, 10),
        ]


class TestLifecycle:
    BOOK = ((0, 0, [level(YES, 450, 100), level(NO, 450, 70)]),)

    def market(self, *phases: tuple[int, str], **times: int) -> tuple[Market, ...]:
        return (Market("A", lifecycle=tuple(Phase(at, event) for at, event in phases), **times),)  # type: ignore[arg-type]

    def life(self, **kwargs: Any) -> list[Event]:
        found = events(build_tape(content(list(self.BOOK), **kwargs), ""))
        return [event[:2] for event in found if event[1] not in ("level", "traded", "print")]

    def test_halts_opens_close_and_settlement_come_last_in_their_instant(self) -> None:
        markets = self.market((5, "halt"), (7, "open"), (9, "close"))
        rows = [*self.BOOK, (5, 0, [level(YES, 450, 90)]), (9, 0, [level(YES, 450, 80)])]
        settled = (Settlement("A", "YES", 1_000_000, 12),)
        found = events(build_tape(content(rows, [(9, 0, NO, 450, 5)], markets=markets, settlements=settled), ""))
        assert [event[:2] for event in found[2:]] == [
            (5, "level"),
            (5, "halt"),
            (7, "open"),
            (9, "level"),
            (9, "print"),
            (9, "close"),
            (12, "settle"),
        ]
        assert found[-1] == (12, "settle", 0, 0, 0, 1_000_000)

    def test_nothing_of_a_market_follows_its_close(self) -> None:
        rows = [
            *self.BOOK,
            (9, 1, [level(YES, 450, 5, 1)]),
            (10, 0, [level(YES, 450, 0), level(NO, 450, 0)]),
            (11, 1, [level(YES, 450, 6, 1)]),
        ]
        markets = (Market("A", close_time=9), Market("B"))
        found = events(build_tape(content(rows, [(10, 0, YES, 450, 40)], markets=markets), ""))
        assert [event[:3] for event in found] == [
            (0, "level", 0),
            (0, "level", 0),
            (9, "level", 1),
            (9, "close", 0),
            (11, "level", 1),
            (10**12, "close", 1),
        ]

    def test_a_book_that_is_wiped_at_the_close_stays_as_it_was(self) -> None:
        wiped = [*self.BOOK, (9, 0, [level(YES, 450, 0)]), (9, 0, [level(NO, 450, 0)])]
        assert [e[1] for e in events(build_tape(content(wiped, markets=self.market((9, "close"))), ""))] == ["level", "level", "close"]
        cut = [*self.BOOK, (9, 0, [level(YES, 450, 0)])]
        assert [e[1] for e in events(build_tape(content(cut, markets=self.market((9, "close"))), ""))] == [
            "level",
            "level",
            "level",
            "close",
        ]

    @pytest.mark.parametrize(
        ("times", "settled", "end", "expected"),
        [
            ({"close_time": 50}, ("NO", 0, 90), 20, [(20, "close"), (90, "settle")]),
            ({"close_time": 50}, ("VOID", None, 20), 10**12, [(20, "void")]),
            ({}, ("YES", 1_000_000, None), 20, [(20, "close")]),
            ({"open_time": 6}, ("YES", 1_000_000, None), 20, [(0, "halt"), (6, "open"), (20, "close")]),
            ({"lifecycle": (Phase(6, "open"),)}, ("YES", 1_000_000, None), 20, [(0, "halt"), (6, "open"), (20, "close")]),
            ({"open_time": 50}, ("YES", 1_000_000, None), 20, [(0, "halt"), (20, "close")]),
            ({"lifecycle": (Phase(50, "open"),)}, ("YES", 1_000_000, None), 20, [(0, "halt"), (20, "close")]),
        ],
        ids=["recording ends first", "void closes", "never settles", "opens", "phase opens", "opens too late", "phase opens too late"],
    )
    def test_times_of_a_market(self, times: dict[str, Any], settled: Any, end: int, expected: list[Event]) -> None:
        assert self.life(markets=(Market("A", **times),), settlements=(Settlement("A", *settled),), end=end) == expected


WORDS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from([400, 401]), st.integers(0, 6)), max_size=3, unique_by=lambda word: word[:2])
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), WORDS), max_size=15)
PRINTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 1), st.sampled_from([400, 401]), st.integers(1, 5)), max_size=12
)
TIMES = st.none() | st.integers(1, 25)


@st.composite
def contents(draw: st.DrawFn) -> Content:
    def timed(steps: list[Any]) -> list[Any]:
        times = np.cumsum([step[0] for step in steps]).tolist()
        return [(at, *step[1:]) for at, step in zip(times, steps, strict=True)]

    shown: dict[Event, int] = {}
    rows = []
    for at, ticker, words in timed(draw(ROWS)):
        changed = [word for word in sorted(words) if shown.get((ticker, *word[:2]), 0) != word[2]]
        shown |= {(ticker, *word[:2]): word[2] for word in changed}
        rows.append((at, ticker, [level(side, price, lots, ticker) for side, price, lots in changed]))
    markets = tuple(Market(ticker, close_time=draw(TIMES)) for ticker in "AB")
    settled = tuple(Settlement(ticker, "YES", 1_000_000, draw(TIMES)) for ticker in "AB")
    return content(rows, timed(draw(PRINTS)), markets=markets, settlements=settled, end=draw(st.integers(1, 30)))


def books(found: list[tuple[Any, ...]]) -> dict[int, dict[Event, int]]:
    """Return the book at the end of each instant."""
    shown: dict[Event, int] = {}
    after = {}
    for ts, kind, *key, value in found:
        if kind in ("level", "traded"):
            shown[tuple(key)] = value
        after[ts] = {level: size for level, size in shown.items() if size}
    return after


@given(contents())
def test_an_aligned_tape_says_what_the_episode_says(episode: Content) -> None:
    found = events(build_tape(episode, ""))
    assert [event[0] for event in found] == sorted(event[0] for event in found)
    closes: dict[int, int] = {}
    shown: dict[Event, int] = {}
    due: tuple[Event, int] = ((), 0)
    loose: Counter[Event] = Counter()
    order = {name: number for number, name in enumerate(KINDS)}
    for at, (ts, kind, ticker, *key, value) in enumerate(found):
        level_of = (ticker, *key)
        if order[kind] >= HALT:
            closes.setdefault(ticker, ts)
            assert at + 1 == len(found) or found[at + 1][0] > ts or order[found[at + 1][1]] >= order[kind]
            continue
        assert ticker not in closes
        made = due[1] if due[0] == (ts, *level_of) else 0
        if kind == "traded":
            # Cuts that the preceding prints did not make were made by earlier prints.
            loose[level_of] -= shown[level_of] - value
            assert loose[level_of] >= 0
            assert shown[level_of] - value >= made
        loose[level_of] += value if kind == "print" else 0
        due = ((ts, *level_of), made + value) if kind == "print" else ((), 0)
        if kind in ("level", "traded"):
            shown[level_of] = value
    assert set(closes) == {0, 1}
    _books_agree(episode, found, closes)
    _prints_agree(episode, found, closes)


def _books_agree(episode: Content, found: list[tuple[Any, ...]], closes: dict[int, int]) -> None:
    book = episode.book
    rows = [unpack(word) for word in book.words.tolist()]
    times = np.repeat(book.ts, book.counts).tolist()
    plain = books([(ts, KINDS[row[0]], *row[1:3], row[3] // MILL, row[4]) for ts, row in zip(times, rows, strict=True)])
    mine = books(found)
    for ticker, close in closes.items():
        for ts in sorted(set(mine) & set(plain)):
            if ts < close:
                assert {k: v for k, v in mine[ts].items() if k[0] == ticker} == {k: v for k, v in plain[ts].items() if k[0] == ticker}


def _prints_agree(episode: Content, found: list[tuple[Any, ...]], closes: dict[int, int]) -> None:
    side, price = episode.trades.passive
    given: dict[Event, int] = {}
    for ts, *key, lots in zip(episode.trades.ts, episode.trades.ticker, side, price // MILL, episode.trades.lots, strict=True):
        if ts <= closes[int(key[0])]:
            given[tuple(map(int, key))] = given.get(tuple(map(int, key)), 0) + int(lots)
    printed: dict[Event, int] = {}
    for _, kind, *key, value in found:
        if kind == "print":
            printed[tuple(key)] = printed.get(tuple(key), 0) + value
    # Prints after the close are kept if they belong to earlier cuts.
    assert all(printed.get(key, 0) >= lots for key, lots in given.items())


class TestTapeOf:
    RULES = rules_for("kalshi", date(2026, 1, 20))

    def test_rules_choose_fees(self, tmp_path: Path) -> None:
        episode = load(Native().write(tmp_path))
        for rules in (self.RULES, rule_set("kalshi-2026-08-30")):
            tape = load_tape(episode, rules)
            assert (tape.event == build_tape(episode.content, episode.digest).event).all()
            assert (tape.fees == [fee_terms(rules, market.fee) for market in episode.metadata.markets]).all()

    def test_the_grid_is_the_markets(self, tmp_path: Path) -> None:
        native = Native()
        native.metadata["markets"][1]["price_ranges"] = [[0, 10_000, 100]]
        native.book = [row for row in native.book if row[5] != 955]
        tape = load_tape(load(native.write(tmp_path)), self.RULES)
        allowed = [
            (levels[np.flatnonzero(row[: len(levels)])] // MILL).tolist() for levels, row in zip(tape.levels, tape.grids, strict=True)
        ]
        assert allowed[0] == [*range(1, 100), *range(100, 900, 10), *range(900, 1000)]
        assert allowed[1] == list(range(10, 1000, 10))


def test_a_market_whose_first_book_is_empty_has_a_book() -> None:
    rows = [(1, 1, []), (2, 0, [level(YES, 450, 100)]), (3, 1, [level(NO, 500, 100, 1)]), (4, 1, [])]
    tape = build_tape(content(rows), "digest")
    levels = [event for event in events(tape) if event[1] == "level"]
    assert levels == [(1, "level", 1, YES, 10, 0), (2, "level", 0, YES, 450, 100), (3, "level", 1, NO, 500, 100)]


def test_settlements_of_one_instant_are_in_the_order_of_the_markets() -> None:
    settled = (Settlement("A", "YES", 1_000_000, 5), Settlement("B", "NO", 0, 5))
    tape = build_tape(content([(0, 0, [level(YES, 450, 30)])], settlements=settled), "")
    assert [unpack(word)[:2] for word in tape.event.tolist()][1:] == [(SETTLE, 0), (SETTLE, 1)]


# Packed events, and tapes made by hand


def test_fields_lie_where_the_layout_says() -> None:
    assert pack(2, 0, 0, 0, 0) == 2
    assert pack(0, 0, 1, 0, 0) == 1 << 4
    assert pack(0, 0, 0, 1, 0) == 1 << 5
    assert pack(0, 1, 0, 0, 0) == 1 << 19
    assert pack(0, 0, 0, 0, 1) == 1 << 32


def tape(**changes: object) -> Tape:
    return Tape(**{"ts": [1, 2], "event": [0, 1], "tickers": ("A", "B"), "start": 0, "end": 9, **changes})  # type: ignore[arg-type]


# Matching of prints with the cuts that they made


Step = tuple[Any, ...]
SOON: Step = ("pause", 1)


def matched(*steps: Step) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Return (change, print, lots) of each match, and the unmatched lots of each print.

    The first change shows 100 lots at a level. Steps are ("row", kind, lots) of that level or market, ("print", lots), ("quiet", messages) and
    ("pause", ns).
    """
    rows, prints, now = [(0, [pack(LEVEL, 0, 0, 1, 100)])], [], 0
    for kind, *rest in steps:
        if kind == "row":
            rows.append((now, [pack(rest[0], 0, 0, 1 if rest[0] == LEVEL else 0, rest[1])]))
        elif kind == "print":
            prints.append((now, rest[0]))
        elif kind == "pause":
            now += rest[0]
        else:
            rows += [(now, [])] * rest[0]
    zeros, ones = np.zeros(len(prints), np.int64), np.ones(len(prints), np.int64)
    word, number, lots, left, _ = match_prints(
        freeze([ts for ts, _ in rows]),
        freeze([0] * len(rows), np.int32),
        freeze(np.cumsum([len(words) for _, words in rows])),
        freeze([word for _, words in rows for word in words]),
        freeze([ts for ts, _ in prints]),
        freeze(zeros, np.int32),
        freeze(zeros),
        freeze(ones),
        freeze([size for _, size in prints]),
        2,
        102,
    )
    return list(zip(word.tolist(), number.tolist(), lots.tolist(), strict=True)), left.tolist()


def row(size: int, kind: int = LEVEL) -> Step:
    return "row", kind, size


def printed(lots: int) -> Step:
    return "print", lots


@pytest.mark.parametrize(
    ("steps", "matches", "left"),
    [
        ([row(60), SOON, printed(40)], [(1, 0, 40)], [0]),
        ([printed(40), SOON, row(60)], [(1, 0, 40)], [0]),
        ([row(60), SOON, row(30), SOON, printed(50)], [(2, 0, 30), (1, 0, 20)], [0]),
        ([row(60), SOON, row(30), SOON, printed(40)], [(1, 0, 40)], [0]),
        ([printed(30), printed(30), SOON, row(60)], [(1, 0, 30), (1, 1, 10)], [0, 20]),
        ([row(60), ("pause", 2 * SECOND), printed(40)], [(1, 0, 40)], [0]),
        ([row(60), ("pause", 2 * SECOND + 1), printed(40)], [], [40]),
        ([row(60), ("quiet", 39), SOON, printed(40)], [(1, 0, 40)], [0]),
        ([row(60), ("quiet", 40), SOON, printed(40)], [], [40]),
        ([row(0, INVALID), row(60), row(0, VALID), printed(40)], [], [40]),
    ],
    ids=[
        "the cut before it",
        "the cut behind it",
        "the nearest cut first",
        "a cut of just its size first",
        "the print that waits longest first",
        "late",
        "too late",
        "many messages between",
        "too many messages between",
        "no snapshot after a gap",
    ],
)
def test_a_print_belongs_to(steps: list[Step], matches: list[tuple[int, int, int]], left: list[int]) -> None:
    assert matched(*steps) == (matches, left)
