"""Pairwise comparisons by a metric: a matrix of differences, and a table of pairs with p-values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from bellwether.figures.intervals import difference_cells
from bellwether.pages import charts, columns
from bellwether.pages.model import Cell, Chart, Head
from bellwether.pages.values import interval, number, p_value, text


def matrix(title: str, tested: pl.DataFrame, name: str, ranked: Sequence[str]) -> list[Chart]:
    """Build the chart of all differences, row minus column, as a list; empty if no difference is known.

    tested: rows of comparisons. name: column with the first member of a pair. ranked: names in the order of rows and columns.
    """
    cells = difference_cells(tested, name)
    return [charts.matrix(title, "difference", cells, ranked, ranked, middle=0)] if cells else []


def heads(name: str, first: str, count: str) -> list[Head]:
    """Build the column heads of a table of pairs. name: table of the warehouse. first: column with a pair's first member. count: title of the
    number of values.
    """
    return [
        *columns.heads(name, first, "other"),
        columns.estimate_head(name, "difference"),
        *columns.heads(name, "p", "p_holm", ("n", count)),
    ]


def line(row: Mapping[str, Any], name: str, path: Callable[[str], str]) -> list[Cell]:
    """Build the table row of a pair under the column heads of `heads`.

    row: the comparison. name: column with the first member. path: returns the page of a member.
    """
    return [
        text(row[name], path(row[name])),
        text(row["other"], path(row["other"])),
        interval(row["difference"], row["lower"], row["upper"], 3, row["reason"]),
        p_value(row["p"]),
        p_value(row["p_holm"]),
        number(row["n"]),
    ]
