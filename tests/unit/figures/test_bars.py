"""Bars of named numbers, and differences of pairs as a matrix."""

from __future__ import annotations

import polars as pl

from bellwether.figures.bars import bars, count_bars
from bellwether.figures.canvas import MOST_LINES
from bellwether.figures.intervals import difference_matrix
from tests.figures.chart_contents import chart_png, chart_rows, chart_texts


def test_values_are_counted_with_the_missing_ones() -> None:
    chart = count_bars(pl.Series("category", ["b", "a", None, "a"]), "Questions")
    assert [(row["name"], row["value"]) for row in chart_rows(chart)] == [("a", 2), ("b", 1), ("missing", 1)]


def test_bars_beyond_the_last_are_counted() -> None:
    chart = bars({f"table {number}": 10**6 - number for number in range(MOST_LINES + 3)}, "Rows", log=True)
    assert len(chart_rows(chart)) == MOST_LINES
    assert {"and 3 more", "1,000,000"} <= set(chart_texts(chart))


def test_a_table_without_rows_says_so() -> None:
    assert "no rows" in chart_texts(bars({}, "Rows"))


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
    found = {(row["name"], row["other"]): (row["value"], row["mark"]) for row in chart_rows(chart)}
    assert found == {("a", "b"): (-0.1, 1), ("b", "a"): (0.1, 1), ("a", "c"): (0.02, 0), ("c", "a"): (-0.02, 0)}
    chart_png(chart)
    assert "no pair has a difference" in chart_texts(difference_matrix(pairs.tail(1), ["b", "c"], "Differences"))
