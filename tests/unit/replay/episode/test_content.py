"""Messages become changes of levels, and the compiled pass over them gives the results of plain Python."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bellwether.replay.episode.checks import fold_book
from bellwether.replay.episode.content import BookBuilder, BookColumns, Trades, level_of
from bellwether.replay.tape.layout import INVALID, LEVEL, VALID, unpack
from bellwether.replay.units import DOLLAR, SECOND

Book = dict[tuple[int, int], int]
PRICES = st.sampled_from([1, 4000, 5000, 6000, 9999])
BOOKS = st.dictionaries(st.tuples(st.integers(0, 1), PRICES), st.integers(0, 3), max_size=4)
#: Messages: seconds since the previous one, market, levels, whether they are the whole book, and whether the book is invalid from then on.
MESSAGES = st.lists(
    st.tuples(st.sampled_from([0, 1, 3]), st.integers(0, 1), BOOKS, st.booleans(), st.sampled_from([None, True, False])), max_size=14
)
Messages = list[tuple[int, int, Book, bool, bool | None]]


def add(messages: Messages) -> BookColumns:
    builder, ts = BookBuilder(2), SECOND
    for number, (seconds, market, levels, is_whole, invalid) in enumerate(messages):
        ts += seconds * SECOND
        words = {level_of(side, price): lots for (side, price), lots in levels.items()}  # type: ignore[arg-type]
        builder.add(ts, number, market, words, is_whole=is_whole, invalid=invalid)  # type: ignore[arg-type]
    return builder.columns()


def plainly(messages: Messages) -> Iterator[tuple[list[tuple[int, ...]], Book, bool]]:
    """Yield each message's changes as (kind, market, side, price, value), its market's book after it, and whether that is invalid."""
    books: dict[int, Book] = {0: {}, 1: {}}
    lost = {0: False, 1: False}
    for _, market, levels, is_whole, invalid in messages:
        before, after = books[market], levels if is_whole else {**books[market], **levels}
        after = books[market] = {level: lots for level, lots in after.items() if lots}
        changed = sorted(level for level in {*before, *after} if before.get(level) != after.get(level))
        changes = [(LEVEL, market, *level, after.get(level, 0)) for level in changed]
        if invalid and not lost[market]:
            changes = [(INVALID, market, 0, 0, 0), *changes]
        if invalid is False and lost[market]:
            changes = [*changes, (VALID, market, 0, 0, 0)]
        lost[market] = lost[market] if invalid is None else invalid
        yield changes, after, lost[market]


@given(MESSAGES)
def test_messages_become_changes(messages: Messages) -> None:
    columns = add(messages)
    words = list(zip(*(part.tolist() for part in unpack(columns.words)), strict=True))
    found = [words[start:end] for start, end in zip([0, *columns.end.tolist()], columns.end.tolist(), strict=False)]
    assert found == [changes for changes, _, _ in plainly(messages)]
    again = BookColumns.of(columns.table())
    assert all((getattr(again, name) == getattr(columns, name)).all() for name in columns.__dataclass_fields__)


#: Trades: seconds since the previous one, market, side of the taker, and price of YES.
TRADES = st.lists(st.tuples(st.sampled_from([0, 1, 3]), st.integers(0, 1), st.integers(0, 1), PRICES), max_size=10)


@given(MESSAGES, TRADES)
def test_one_pass_finds_the_best_bids_and_the_levels_that_trades_hit(messages: Messages, trades: list[tuple[int, int, int, int]]) -> None:
    columns, plain = add(messages), list(plainly(messages))
    ts = np.cumsum([SECOND, *(SECOND * trade[0] for trade in trades)])[1:]
    market, taker, price = (np.array([trade[index] for trade in trades], np.int64) for index in (1, 2, 3))
    found = fold_book(columns, Trades(ts, pa.array([""] * len(ts)), market, taker, price, np.ones(len(ts))), 2)
    assert found.unchanged == -1
    rows = list(zip(columns.ts.tolist(), columns.ticker.tolist(), plain, strict=True))
    for row, (at, code, (_, book, is_lost)) in enumerate(rows):
        is_last = not any((later, other) == (at, code) for later, other, _ in rows[row + 1 :])
        best = [max((price for side, price in book if side == own), default=0) for own in (0, 1)]
        assert found.bids[row].tolist() == (best if is_last and not is_lost else [0, 0])
    for trade, (at, code, side, yes) in enumerate(zip(ts.tolist(), market.tolist(), (1 - taker).tolist(), price.tolist(), strict=True)):
        for column, own in enumerate((yes if side == 0 else DOLLAR - yes, DOLLAR - yes)):
            earlier = [(time, book) for time, other, (_, book, _) in rows if other == code and time <= at]
            emptied = [
                time
                for (time, after), (_, before) in zip(earlier[1:], earlier, strict=False)
                if (side, own) in before and (side, own) not in after
            ]
            is_hit = bool(earlier and (side, own) in earlier[-1][1]) or bool(emptied and emptied[-1] >= at - 2 * SECOND)
            assert bool(found.hits[trade, column]) == is_hit
