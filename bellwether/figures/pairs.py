"""Figures of pairs: matrices of differences, and differences with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from bellwether.figures.canvas import Rows, distinct, layered
from bellwether.figures.intervals import listed


def matrix(value: str, count: int, *, middle: float | None = None) -> alt.LayerChart:
    """Cells by name and other, as `cells` orders them; `mark` 1 is a dot. value: what is shown; count: of names; middle: where two colours meet."""
    # Names are in no list of an order: Vega-Lite would write them into an expression.
    scale = alt.Scale(scheme="blues") if middle is None else alt.Scale(scheme="blueorange", domainMid=middle)
    tips = [alt.Tooltip("name:N"), alt.Tooltip("other:N"), alt.Tooltip("value:Q", title=value, format=".4f"), alt.Tooltip("note:N")]
    own = alt.Chart().encode(
        x=alt.X("other:N", sort=alt.EncodingSortField("column", op="min"), title=None, axis=alt.Axis(labelAngle=-60)),
        y=alt.Y("name:N", sort=alt.EncodingSortField("row", op="min"), title=None),
        tooltip=tips,
    )
    squares = own.mark_rect().encode(color=alt.Color("value:Q", title=value, scale=scale, legend=alt.Legend(orient="top")))
    dots = own.transform_filter(alt.FieldEqualPredicate(field="mark", equal=1)).mark_point(filled=True, size=14, color="#14191e", opacity=1)
    return layered(squares, dots).properties(height=max(36, 18 * count))


def cells(rows: Rows, names: Sequence[str], others: Sequence[str]) -> Rows:
    """Rows of a matrix with their places. rows: name, other, value, note, and mark."""
    down, across = ({name: place for place, name in enumerate(dict.fromkeys(order))} for order in (names, others))
    return [{**row, "row": down.get(row["name"], len(down)), "column": across.get(row["other"], len(across))} for row in rows]


def differences(pairs: pl.DataFrame, axis: str, *, texts: Mapping[int, str] | None = None) -> alt.LayerChart:
    """Difference of every pair that was compared, with its interval; below 0 the first is better.

    Args:
        pairs: forecaster, other, difference, lower, upper.
        axis: Title of the differences.
        texts: Text at the right of a row, by its number.
    """
    known = pairs.filter(pl.col("difference").is_not_null())
    short = distinct([*known["forecaster"], *known["other"]], 24)
    rows = [
        {"name": f"{short[one]} – {short[other]}", "value": value, "lower": lower, "upper": upper, "shown": (texts or {}).get(place, "")}
        for place, (one, other, value, lower, upper) in enumerate(
            known.select("forecaster", "other", "difference", "lower", "upper").iter_rows()
        )
    ]
    options: dict[str, Any] = {"texts": ["shown"]} if texts else {}
    return listed(rows, axis, reference=0.0, **options)
