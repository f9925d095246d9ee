"""Compiled passes give the results of plain Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bellwether.replay.episode import kernels
from bellwether.replay.episode.columns import FileColumns
from bellwether.replay.episode.levels import Levels, _parse_rows, _read_json_levels
from bellwether.replay.episode.metadata import Market
from bellwether.replay.episode.price_grid import USUAL
from bellwether.replay.episode.price_levels import PriceLevels
from bellwether.replay.tape.layout import INVALID, LEVEL, VALID, freeze, unpack

LEVELS = PriceLevels([Market("A", price_ranges=USUAL[-1])])
PRICES = st.sampled_from([1, 2, 5000, 9998, 9999])
LEVEL_ROWS = st.tuples(st.just(kernels.SET), st.integers(0, 1), PRICES, st.integers(0, 3))
MARKS = st.sampled_from([(kernels.START, 0, 0, 0), (kernels.LOST, 0, 0, 0)])
#: Messages: (ticker, rows). A message names a level once, and begins with its mark.
MESSAGES = st.lists(
    st.tuples(st.integers(0, 1), st.lists(MARKS, max_size=1), st.lists(LEVEL_ROWS, max_size=4, unique_by=lambda row: row[1:3])).map(
        lambda message: (message[0], [*message[1], *message[2]])
    ),
    max_size=12,
)


def plainly(messages: list[tuple[int, list[tuple[int, int, int, int]]]]) -> list[list[tuple[int, int, int, int, int]]]:
    """Return changes of each message as (kind, ticker, side, price, value)."""
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
    """Return the unpacked words of each row."""
    whole = list(zip(*(column.tolist() for column in unpack(words)), strict=True))
    return [whole[start:stop] for start, stop in zip([0, *end.tolist()], end.tolist(), strict=False)]


@given(MESSAGES.map(lambda messages: [message for message in messages if message[1]]))
def test_messages_become_changes(messages: list[tuple[int, list[tuple[int, int, int, int]]]]) -> None:
    rows = [(number, ticker, *row) for number, (ticker, parts) in enumerate(messages) for row in parts]
    sequence, ticker, kind, side, price, lots = (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 6
    codes = (freeze(values, np.int32) for values in (ticker, kind, side))
    numbers = (freeze([0] * len(rows)), freeze(sequence))
    first, end, words, error, _ = kernels.build_messages(
        *numbers, *codes, freeze(LEVELS.numbers(freeze(price))), freeze(lots), LEVELS.prices, kernels.new_state(2, len(LEVELS.prices)), 0
    )  # type: ignore[call-arg]
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


@given(SNAPSHOTS, st.integers(1, 5))
def test_snapshots_become_changes_however_they_are_batched(rows: list[tuple[int, Any, Any]], batch: int) -> None:
    from bellwether.replay.episode.books import _SnapshotDiffer

    differ = _SnapshotDiffer([Market("A"), Market("B")])
    level = pa.list_(pa.struct([("price_cents", pa.int64()), ("size", pa.int64())]))
    found = []
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        sides = {
            name: pa.array([[{"price_cents": price, "size": size} for price, size in row[index]] for row in part], level)
            for name, index in (("yes_bids", 1), ("no_bids", 2))
        }
        ends, words = differ.take(FileColumns(pa.table(sides), "x", start), freeze([row[0] for row in part], np.int32))
        found += split(ends, words)
    messages = [
        (
            ticker,
            [
                (kernels.START, 0, 0, 0),
                *((kernels.SET, side, 100 * price, 100 * size) for side, levels in enumerate(sides) for price, size in levels if size),
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


def columns_of(texts: list[str]) -> tuple[FileColumns, pa.Array]:
    table = pa.table({"yes_bids": pa.array(texts, pa.string())})
    return FileColumns(table, "x"), table.column("yes_bids").combine_chunks()


def scaled(levels: Levels) -> Levels:
    """The levels in $0.0001 and lots."""
    return Levels(levels.offsets, levels.prices * levels.price_unit, levels.sizes * levels.size_unit, 1, 1)


def same(first: Levels, second: Levels) -> bool:
    first, second = map(scaled, (first, second))
    return all((getattr(first, name) == getattr(second, name)).all() for name in ("offsets", "prices", "sizes"))


@given(st.lists(JSON_LEVELS, max_size=4), st.sampled_from([None, 0, 2]), st.sampled_from([",", ", ", " ,\n\t"]))
def test_json_is_read_as_a_parser_reads_it(rows: list[list[dict[str, Any]]], indent: int | None, comma: str) -> None:
    texts = [json.dumps(levels, indent=indent, separators=(comma, " : ")) for levels in rows]
    columns, array = columns_of(texts)
    levels = scaled(_read_json_levels(columns, "yes_bids", array))
    assert same(levels, _parse_rows(columns, "yes_bids", texts))
    expected = [
        (100 * (round(100 * price) if isinstance(price, float) and price < 1 else int(price)), round(100 * level["size"]))
        for level in (level for levels in rows for level in levels)
        for price in [next(value for name, value in level.items() if name != "size")]
    ]
    assert list(zip(levels.prices.tolist(), levels.sizes.tolist(), strict=True)) == expected
