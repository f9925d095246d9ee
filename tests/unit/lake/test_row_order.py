"""Order and uniqueness of random rows, compared with their plain definitions."""

from __future__ import annotations

import itertools
from pathlib import PurePosixPath

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.errors import SchemaError
from bellwether.lake import partitions
from bellwether.lake import row_order as arranging
from bellwether.lake.row_order import Keys, is_increasing, sort_rows
from bellwether.tables import Column, Table
from tests.lake.frames import FORECASTS

PLAIN = Table(
    name="test/plain",
    row="One row.",
    columns=(Column("a", pl.String(), "first"), Column("b", pl.Int64(), "second"), Column("c", pl.Int64(), "no key", nullable=True)),
    key=("a", "b"),
)
SORTED_BY_MORE = Table(name="test/more", row="One row.", columns=PLAIN.columns, key=("a", "b"), sort=("c",))
ROWS = st.lists(
    st.tuples(st.sampled_from(["", "a", "aa", "b", "é", "a name longer than twelve bytes"]), st.integers(-2, 2), st.integers(0, 3)),
    max_size=12,
)


def frame_of(rows: list[tuple[str, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=PLAIN.schema, orient="row")


@given(ROWS)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_rows_are_increasing_when_each_is_greater_than_the_one_before(rows: list[tuple[str, int, int]]) -> None:
    keys = [(name.encode(), number) for name, number, _ in rows]
    assert is_increasing(frame_of(rows), ["a", "b"]) == all(one < other for one, other in itertools.pairwise(keys))


@given(ROWS)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_pieces_give_the_same_answer_as_the_whole(rows: list[tuple[str, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        expected = is_increasing(frame_of(rows), ["a", "b"])
        patched.setattr(arranging, "_PIECE", 1)
        patched.setattr(pl, "thread_pool_size", lambda: 3)
        assert is_increasing(frame_of(rows), ["a", "b"]) == expected


@pytest.mark.parametrize("declared", [PLAIN, SORTED_BY_MORE], ids=["by key", "by another column"])
@given(ROWS)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_rows_are_sorted_or_refused_for_their_duplicate(declared: Table, rows: list[tuple[str, int, int]]) -> None:
    keys = [row[:2] for row in rows]
    if len(set(keys)) < len(keys):
        with pytest.raises(SchemaError, match="is not unique; first duplicate"):
            sort_rows(declared, frame_of(rows))
    else:
        by = (lambda row: (row[0].encode(), row[1])) if declared is PLAIN else (lambda row: (row[2], row[0].encode(), row[1]))
        assert sort_rows(declared, frame_of(rows)).rows() == sorted(rows, key=by)


@given(ROWS, st.integers(0, 12))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_keys_of_chunks_are_unique_as_a_whole_or_refused(rows: list[tuple[str, int, int]], cut: int) -> None:
    frame = frame_of(rows)
    keys = Keys(PLAIN)
    keys.add(frame.head(cut))
    keys.add(frame.slice(cut))
    if frame.select("a", "b").is_duplicated().any():
        with pytest.raises(SchemaError, match="is not unique; first duplicate"):
            keys.require_unique(frame.lazy())
    else:
        keys.require_unique(frame.lazy())


@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), min_size=2, max_size=2, unique=True))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_different_partitions_have_different_folders_inside_their_table(pairs: list[tuple[str, str]]) -> None:
    one, other = (PurePosixPath(partitions.partition_folder(FORECASTS, pair)) for pair in pairs)
    assert one != other
    for folder in (one, other):
        assert folder.parts[:2] == ("benchmark", "forecasts")
        assert len(folder.parts) == 4
        assert not any(part.startswith(".") or set(part) & set("/\\?*[]: \0") for part in folder.parts)
