"""Charts of values with intervals, a line per name, and matrices of differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from bellwether.figures.canvas import Palette, Rows, colour, layer_charts, number, points, rule_at
from bellwether.formatting import p_value

#: Maximum rows of a matrix whose columns are all labelled.
_MOST_LABELS = 30


def intervals(axis: str, names: Palette, *, reference: float | None = None, domain: tuple[float, float] | None = None) -> alt.LayerChart:
    """Build a chart without data: values with intervals, one line per name in the order of the rows.

    The rows are filled in later: name, value, lower, upper. axis: title of the values. reference: value of a dotted line. domain: range of the
    axis, which cuts longer intervals (default: all are visible).
    """
    tips = [alt.Tooltip("name:N"), *(alt.Tooltip(f"{one}:Q", format=".4f") for one in ("value", "lower", "upper"))]
    own = alt.Chart().encode(y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=300)), color=colour(names), tooltip=tips)
    ends = own.transform_calculate(lower=_end_or_value("lower"), upper=_end_or_value("upper"))
    limits: dict[str, Any] = {} if domain is None else {"domain": list(domain), "nice": False}
    bars = ends.mark_rule(strokeWidth=2, clip=domain is not None).encode(x=number("lower", alt.X, title=axis, **limits), x2="upper:Q")
    dots = own.mark_point(filled=True, size=70, opacity=1).encode(x=number("value", alt.X, title=axis, **limits), **points(names))
    dotted = [] if reference is None else [rule_at(reference, "x")]
    return layer_charts(*dotted, _axis_padding(axis), bars, dots)


def _end_or_value(end: str) -> str:
    """Return a Vega expression for an interval's end, or for the value if the end is missing. Without any ends, Vega would label the axis wrongly."""
    return f"isValid(datum.{end}) ? datum.{end} : datum.value"


def _axis_padding(axis: str) -> alt.Chart:
    """Return an invisible layer that widens the axis by a tenth on both sides if there is only one value."""
    room = "datum.least == datum.most ? abs(datum.most) / 10 || 0.1 : 0"
    return (
        alt.Chart()
        .transform_aggregate(least="min(value)", most="max(value)")
        .transform_calculate(left=f"datum.least - ({room})", right=f"datum.most + ({room})")
        .mark_rule(opacity=0)
        .encode(x=number("left", alt.X, title=axis), x2="right:Q")
    )


def matrix(value: str, count: int, *, middle: float | None = None, domain: tuple[float, float] | None = None) -> alt.LayerChart:
    """Build a chart without data: a matrix with a row per name and a column per other, in the order set by `cells`.

    The rows are filled in later: those of `cells`; `mark` 1 draws a dot. value: title of the values. count: number of names. middle: value between
    the two colours. domain: range of the colours, whose ends other values get.
    """
    # No sort lists of names: Vega-Lite would put them into an expression.
    limits: dict[str, Any] = {} if domain is None else {"domain": list(domain), "clamp": True}
    scale = alt.Scale(scheme="blues", **limits) if middle is None else alt.Scale(scheme="blueorange", domainMid=middle, **limits)
    tips = [alt.Tooltip("name:N"), alt.Tooltip("other:N"), alt.Tooltip("value:Q", title=value, format=".4f"), alt.Tooltip("note:N")]
    own = alt.Chart().encode(
        x=alt.X(
            "other:N",
            sort=alt.EncodingSortField("column", op="min"),
            title=None,
            axis=alt.Axis(labelAngle=-60, labelOverlap=count > _MOST_LABELS),
        ),
        y=alt.Y("name:N", sort=alt.EncodingSortField("row", op="min"), title=None),
        tooltip=tips,
    )
    squares = own.mark_rect().encode(color=alt.Color("value:Q", title=value, scale=scale, legend=alt.Legend(orient="top")))
    dots = own.transform_filter(alt.FieldEqualPredicate(field="mark", equal=1)).mark_point(filled=True, size=14, color="#14191e", opacity=1)
    return layer_charts(squares, dots).properties(height=max(36, 18 * count))


def cells(rows: Rows, names: Sequence[str], others: Sequence[str]) -> Rows:
    """Add to each cell of a matrix the positions of its row and column. rows: name, other, value, note, mark. names, others: order of rows and
    columns.
    """
    down, across = ({name: place for place, name in enumerate(dict.fromkeys(order))} for order in (names, others))
    return [{**row, "row": down.get(row["name"], len(down)), "column": across.get(row["other"], len(across))} for row in rows]


def difference_cells(pairs: pl.DataFrame, name: str) -> Rows:
    """Build the cells of a matrix of differences, row minus column. A dot marks p below 0.05 after Holm's correction.

    pairs: rows of benchmark/comparisons or arena/rankings. name: column of a pair's first member.
    """
    rows: Rows = []
    for pair in pairs.filter(pl.col("difference").is_finite()).iter_rows(named=True):
        value, p = pair["difference"], pair["p_holm"]
        has_p = p is not None and math.isfinite(p)
        shared = {"note": f"p {p_value(p)} after Holm" if has_p else (pair["reason"] or ""), "mark": int(has_p and p < 0.05)}
        rows.append({"name": pair[name], "other": pair["other"], "value": value, **shared})
        rows.append({"name": pair["other"], "other": pair[name], "value": -value, **shared})
    return rows
