"""Bars of named numbers, and differences of pairs as a matrix."""

from __future__ import annotations

import polars as pl
from tests.figures.drawn import picture, rows, texts

from bellwether.figures.bars import bars, count_bars, filled_cells
from bellwether.figures.canvas import MOST_LINES, png
from bellwether.figures.intervals import difference_matrix


def test_a_column_with_missing_cells_has_its_share() -> None:
    chart = filled_cells(pl.DataFrame({"key": ["a", "b", "c"], "price": [None, None, 0.5], "never": [None] * 3}), "Cells")
    assert [(row["name"], row["text"]) for row in rows(chart)] == [("key", ""), ("price", "33.3%"), ("never", "0%")]
    picture(chart)


def test_values_are_counted_with_the_missing_ones() -> None:
    chart = count_bars(pl.Series("category", ["b", "a", None, "a"]), "Questions")
    assert [(row["name"], row["value"]) for row in rows(chart)] == [("a", 2), ("b", 1), ("missing", 1)]


def test_bars_beyond_the_last_are_counted() -> None:
    chart = bars({f"table {number}": 10**6 - number for number in range(MOST_LINES + 3)}, "Rows", log=True)
    assert len(rows(chart)) == MOST_LINES
    assert {"and 3 more", "1,000,000"} <= set(texts(chart))


def test_a_table_without_rows_says_so() -> None:
    assert "no rows" in texts(filled_cells(pl.DataFrame({"a": []}), "Cells"))


def test_a_lower_resolution_has_fewer_bytes() -> None:
    chart = bars({"a": 1, "b": 2}, "Rows")
    assert len(png(chart, scale=1.0)) < len(png(chart))


def test_a_difference_is_in_both_triangles_and_marked_if_it_is_significant() -> None:
    pairs = pl.DataFrame(
        {
            "forecaster": ["a", "a", "b"],
            "other": ["b", "c", "c"],
            "difference": [-0.1, 0.02, None],
            "p_holm": [0.001, 0.5, None],
            "reason": [None, None, "no common question"],
        }
    )
    chart = difference_matrix(pairs, ["a", "b", "c"], "Differences")
    found = {(row["name"], row["other"]): (row["value"], row["mark"]) for row in rows(chart)}
    assert found == {("a", "b"): (-0.1, 1), ("b", "a"): (0.1, 1), ("a", "c"): (0.02, 0), ("c", "a"): (-0.02, 0)}
    picture(chart)
    assert "no pair has a difference" in texts(difference_matrix(pairs.tail(1), ["b", "c"], "Differences"))
