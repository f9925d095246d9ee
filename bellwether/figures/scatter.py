"""Scatter chart of a score against another number, such as the cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from bellwether.figures.canvas import GREY, Palette, colour, layer_charts, number, points, time


def scatter(
    x: str,
    y: str,
    names: Palette,
    *,
    domain: tuple[float, float],
    log: bool = False,
    timed: bool = False,
    ticks: Sequence[float] = (),
) -> alt.LayerChart:
    """Build a chart without data: named points, and a dashed line through the lowest y so far from left to right.

    The page adds the rows: name, x, y, label with align, dx and dy (its place beside the point), and frontier (y of a point on the dashed
    line, else null). ticks: values with a grid line (default: by Vega). domain: range of y, at whose ends other values are drawn.
    """
    axis = alt.Axis(values=list(ticks)) if ticks else alt.Axis()
    along = time("x", x) if timed else alt.X("x:Q", title=x, scale=alt.Scale(type="log") if log else alt.Scale(zero=False), axis=axis)
    tips = [alt.Tooltip("name:N"), alt.Tooltip("x:T" if timed else "x:Q", title=x), alt.Tooltip("y:Q", title=y, format=".4f")]
    limits: dict[str, Any] = {"domain": list(domain), "clamp": True, "nice": False}
    own = alt.Chart().encode(x=along, y=number("y", title=y, **limits), tooltip=tips)
    dots = own.mark_point(filled=True, size=90, opacity=1).encode(color=colour(names), **points(names))
    front = (
        alt.Chart()
        .transform_filter(alt.FieldValidPredicate(field="frontier", valid=True))
        .encode(x=along, y=number("frontier", title=y, **limits))
    )
    line = front.mark_line(interpolate="step-after", strokeDash=[4, 3], strokeWidth=1.5, color=GREY)
    place: dict[str, Any] = {name: alt.expr(f"datum.{name}") for name in ("align", "dx", "dy")}
    labels = own.mark_text(baseline="middle", fontSize=10, **place).encode(text="label:N")
    return layer_charts(line, dots, labels).properties(height=300)
