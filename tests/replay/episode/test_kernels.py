"""The compiled passes say what plain Python says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.replay.arrow import array_of, first_null, texts_of, values_of
from bellwether.replay.episode import kernels
from bellwether.replay.episode.columns import Columns
from bellwether.replay.episode.levels import Levels, _of_json, _parsed
from bellwether.replay.tape.layout import INVALID, LEVEL, VALID, fixed, unpack

PRICES = st.sampled_from([1, 2, 500, 998, 999])
LEVEL_ROWS = st.tuples(st.just(kernels.SET), st.integers(0, 1), PRICES, st.integers(0, 3))
MARKS = st.sampled_from([(kernels.START, 0, 0, 0), (kernels.LOST, 0, 0, 0)])
#: Messages: (ticker, rows); a message names a level once, and begins with its mark.
MESSAGES = st.lists(
    st.tuples(st.integers(0, 1), st.lists(MARKS, max_size=1), st.lists(LEVEL_ROWS, max_size=4, unique_by=lambda row: row[1:3])).map(
        lambda message: (message[0], [*message[1], *message[2]])
    ),
    max_size=12,
)


def plainly(messages: list[tuple[int, list[tuple[int, int, int, int]]]]) -> list[list[tuple[int, int, int, int, int]]]:
    """Changes of each message as (kind, ticker, side, price, value)."""
    books: dict[int, dict[tuple[int, int], int]] = {0: {}, 1: {}}
    lost: set[int] = set()
    found = []
    for ticker, rows in messages:
        kinds = [row[0] for row in rows]
        before, stated = books[ticker], {(side, price): lots for kind, side, price, lots in rows if kind == kernels.SET}
        after = stated if kernels.START in kinds else {**before, **stated}
        changed = sorted(level for level in {*before, *after} if before.get(level, 0) != after.get(level, 0))
        words = [(LEVEL, ticker, *level, after.get(level, 0)) for level in changed]
        if kernels.LOST in kinds and ticker not in lost:
            lost.add(ticker)
            words = [(INVALID, ticker, 0, 0, 0), *words]
        if kernels.START in kinds and ticker in lost:
            lost.remove(ticker)
            words = [*words, (VALID, ticker, 0, 0, 0)]
        books[ticker] = after
        found.append(words)
    return found


def split(end: np.ndarray, words: np.ndarray) -> list[list[tuple[int, ...]]]:
    """Unpacked words of each row."""
    whole = list(zip(*(column.tolist() for column in unpack(words)), strict=True))
    return [whole[start:stop] for start, stop in zip([0, *end.tolist()], end.tolist(), strict=False)]


@settings(max_examples=100, deadline=None)
@given(MESSAGES.map(lambda messages: [message for message in messages if message[1]]))
def test_messages_become_changes(messages: list[tuple[int, list[tuple[int, int, int, int]]]]) -> None:
    rows = [(number, ticker, *row) for number, (ticker, parts) in enumerate(messages) for row in parts]
    sequence, ticker, kind, side, price, lots = (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 6
    codes = (fixed(values, np.int32) for values in (ticker, kind, side))
    numbers = (fixed([0] * len(rows)), fixed(sequence))
    first, end, words, error, _ = kernels.messages(*numbers, *codes, fixed(price), fixed(lots), 2)  # type: ignore[call-arg]
    assert error == kernels.FINE
    assert split(end, words) == plainly(messages)
    assert [sequence[row] for row in first] == list(range(len(messages)))


SNAPSHOTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        *(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2)), max_size=6, unique_by=lambda level: level[0]) for _ in range(2)),
    ),
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(SNAPSHOTS, st.integers(1, 5))
def test_snapshots_become_changes_however_they_are_batched(rows: list[tuple[int, Any, Any]], batch: int) -> None:
    from bellwether.replay.episode.books import _Differ
    from bellwether.replay.episode.metadata import Market

    differ = _Differ([Market("A"), Market("B")])
    level = pa.list_(pa.struct([("price_cents", pa.int64()), ("size", pa.int64())]))
    found = []
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        sides = {
            name: pa.array([[{"price_cents": price, "size": size} for price, size in row[index]] for row in part], level)
            for name, index in (("yes_bids", 1), ("no_bids", 2))
        }
        ends, words = differ.take(Columns(pa.table(sides), "x", start), fixed([row[0] for row in part], np.int32))
        found += split(ends, words)
    messages = [
        (
            ticker,
            [
                (kernels.START, 0, 0, 0),
                *((kernels.SET, side, 10 * price, 100 * size) for side, levels in enumerate(sides) for price, size in levels if size),
            ],
        )
        for ticker, *sides in rows
    ]
    assert found == plainly(messages)


NUMBERS = st.one_of(st.integers(-5, 120), st.sampled_from([0.0, 0.01, 0.29, 0.455, 0.57, 0.999, 1.0, 45.0, 99.0]))
SIZES = st.one_of(st.integers(-3, 10**9), st.sampled_from([0.0, 1.0, 0.25, 12.34, 1e3]))
JSON_LEVELS = st.lists(
    st.tuples(st.sampled_from(["price", "price_cents"]), NUMBERS, SIZES, st.booleans()).map(
        lambda level: dict(
            [(level[0], int(level[1]) if level[0] == "price_cents" else level[1]), ("size", level[2])][:: 1 if level[3] else -1]
        )
    ),
    max_size=5,
)


def columns_of(texts: list[str]) -> tuple[Columns, pa.Array]:
    table = pa.table({"yes_bids": pa.array(texts, pa.string())})
    return Columns(table, "x"), table.column("yes_bids").combine_chunks()


def same(first: Levels, second: Levels) -> bool:
    return all((getattr(first, name) == getattr(second, name)).all() for name in ("offsets", "prices", "sizes"))


@settings(max_examples=100, deadline=None)
@given(st.lists(JSON_LEVELS, max_size=4), st.sampled_from([None, 0, 2]), st.sampled_from([",", ", ", " ,\n\t"]))
def test_json_is_read_as_a_parser_reads_it(rows: list[list[dict[str, Any]]], indent: int | None, comma: str) -> None:
    texts = [json.dumps(levels, indent=indent, separators=(comma, " : ")) for levels in rows]
    columns, array = columns_of(texts)
    levels = _of_json(columns, "yes_bids", array)
    assert same(levels, _parsed(columns, "yes_bids", texts))
    expected = [
        (10 * (round(100 * price) if isinstance(price, float) and price < 1 else int(price)), round(100 * level["size"]))
        for level in (level for levels in rows for level in levels)
        for price in [next(value for name, value in level.items() if name != "size")]
    ]
    assert list(zip(levels.prices.tolist(), levels.sizes.tolist(), strict=True)) == expected


def test_unusual_json_is_read_too() -> None:
    texts = ['[{"size": 1e1, "price_cents": 45, "note": [1, {"a": "]"}]}]', "[]", ' [{"pric\\u0065": 0.05,"size":3}]']
    columns, array = columns_of(texts)
    levels = _of_json(columns, "yes_bids", array)
    assert (levels.offsets.tolist(), levels.prices.tolist(), levels.sizes.tolist()) == ([0, 1, 1, 2], [450, 50], [1000, 300])


def test_slices_of_arrow_arrays_are_read_where_they_are() -> None:
    array = pa.array([1, 2, 3, 4], pa.int32()).slice(1, 2)
    assert values_of(array).tolist() == [2, 3]
    assert values_of(pa.array([], pa.float64())).dtype == np.float64
    assert array_of(np.array([1, 2])[::-1]).to_pylist() == [2, 1]
    assert (first_null(pa.array([1, None])), first_null(pa.array([1]))) == (1, -1)


def changes(rows: list[tuple[int, list[list[tuple[int, int]]]]], unit: int = 10) -> tuple[list[list[tuple[int, ...]]], tuple[int, ...]]:
    """Changes of each row of full snapshots, (ticker, sides of (price, size)), and (error, row, side, position)."""
    sides = [[row[1][side] for row in rows] for side in range(2)]
    offsets = tuple(fixed(np.cumsum([0, *map(len, side)])) for side in sides)
    flat = [np.array([level for levels in side for level in levels], np.int64).reshape(-1, 2) for side in sides]
    grid = np.ones((2, 1001), bool)
    grid[:, [0, 1000]] = False
    state = (
        np.zeros((2, 2, 1001), np.int64),
        np.full((2, 2, 1001), -1, np.int64),
        np.zeros((2, 2, 2002), np.int16),
        np.zeros((2, 2, 1001), np.int64),
    )
    columns = tuple(tuple(fixed(side[:, column]) for side in flat) for column in range(2))
    ticker = fixed([row[0] for row in rows], np.int32)
    tail = (unit, 100, grid, *state, np.zeros((2, 2), np.int64))
    end, words, *wrong = kernels.snapshots(0, ticker, offsets, *columns, *tail)  # type: ignore[call-arg]
    return split(end, words), tuple(wrong)


SNAPSHOT_SIDE = st.lists(st.tuples(st.sampled_from([1, 50, 99]), st.integers(0, 2)), max_size=3, unique_by=lambda level: level[0])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.lists(SNAPSHOT_SIDE, min_size=2, max_size=2)), max_size=12))
def test_snapshots_are_their_differences(rows: list[tuple[int, list[list[tuple[int, int]]]]]) -> None:
    books: dict[int, dict[tuple[int, int], int]] = {0: {}, 1: {}}
    expected = []
    for ticker, sides in rows:
        before = books[ticker]
        after = {(side, price * 10): size * 100 for side, levels in enumerate(sides) for price, size in levels if size}
        changed = sorted(level for level in {*before, *after} if before.get(level, 0) != after.get(level, 0))
        expected.append([(LEVEL, ticker, *level, after.get(level, 0)) for level in changed])
        books[ticker] = after
    found, wrong = changes(rows)
    assert found == expected
    assert wrong[0] == kernels.FINE


@pytest.mark.parametrize(
    ("unit", "level", "error"),
    [
        (10, (45, -1), kernels.NEGATIVE),
        (10, (45, -(2**63)), kernels.NEGATIVE),
        (10, (45, 2**62 + 7), kernels.TOO_LARGE),
        (10, (45, 21_474_837), kernels.TOO_LARGE),
        # Ten times this is 450 in 64 bits.
        (10, (45 - 2**63, 7), kernels.OFF_GRID),
        (10, (-45, 7), kernels.OFF_GRID),
        (1, (1001, 7), kernels.OFF_GRID),
    ],
)
def test_a_wrong_level_is_found_where_the_row_before_was_fine(unit: int, level: tuple[int, int], error: int) -> None:
    fine = (1, [[], [(50, 7), (45, 7)]])
    _, wrong = changes([fine, fine, (1, [[], [(50, 7), level]])], unit)
    assert wrong == (error, 2, 1, 5)


@settings(deadline=None)
@given(st.lists(st.text("ab", max_size=3), max_size=12))
def test_the_first_text_that_is_there_again_is_found(texts: list[str]) -> None:
    again = [row for row, text in enumerate(texts) if text and text in texts[:row]]
    expected = (again[0], texts.index(texts[again[0]])) if again else (-1, -1)
    offsets, text = texts_of(pa.array(["before", *texts], pa.string()).slice(1))
    assert kernels.repeated(fixed(offsets), fixed(text, np.uint8)) == expected
