"""Charts of equity, drawdown and other curves over time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from bellwether.figures.canvas import GREY, PERCENT, SHARES, Palette, chart_rows, colour, dashes, fill_chart, layer_charts, number, time

#: Maximum of points of a curve; a longer curve is reduced to its extremes.
MOST_POINTS = 400


def extremes(*columns: np.ndarray, most: int) -> np.ndarray:
    """Return the ascending indices of about `most` points that keep the extremes of a curve. columns: its values.

    A short curve keeps all points. A longer one keeps both ends and the minimum and maximum of each column in equal stretches.
    """
    count = len(columns[0])
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, max(most // (2 * len(columns)), 2)).astype(int)
    indices = {0, count - 1}
    for start, stop in pairwise(edges.tolist()):
        for column in columns:
            part = column[start:stop]
            indices |= {int(start + part.argmin()), int(start + part.argmax())}
    return np.array(sorted(indices))


def add_drawdown(equity: pl.DataFrame, most: int = MOST_POINTS) -> pl.DataFrame:
    """Prepare one backtest's equity for a chart: sorted by time, with its drawdown, and at most about `most` points.

    equity: rows of replay/equity of one agent in one episode. Adds drawdown, the change from the running peak as a share. A long curve keeps
    the extremes of both.
    """
    rows = equity.sort("at").with_columns(pl.col(pl.Decimal).cast(pl.Float64))
    rows = rows.with_columns(drawdown=pl.col("equity") / pl.col("equity").cum_max() - 1)
    return rows[extremes(*(rows[name].to_numpy() for name in ("equity", "drawdown")), most=most)] if rows.height else rows


def lines(
    x: str,
    y: str,
    names: Palette,
    *,
    timed: bool = True,
    step: bool = False,
    dots: bool = True,
    points: bool = False,
    banded: bool = False,
    height: int = 300,
) -> alt.LayerChart:
    """Build a chart without data: curves over time (ISO text), or over a number if `timed` is False.

    The rows are filled in later: name, x, y; with `points`, also point (y of a large dot); with `banded`, also lower and upper.
    """
    along: Any = time("x", x) if timed else alt.X("x:Q", title=x, axis=alt.Axis(tickMinStep=1))
    tips = [
        alt.Tooltip("name:N"),
        _at(x) if timed else alt.Tooltip("x:Q", title=x),
        alt.Tooltip("y:Q", title=y, format=PERCENT if y in SHARES else ",.4~f"),
    ]
    own = alt.Chart().encode(x=along, color=colour(names))
    shape: dict[str, Any] = {"interpolate": "step-after"} if step else {}
    layers = [own.mark_line(strokeWidth=1.6, **shape).encode(y=number("y", title=y), tooltip=tips, **dashes(names))]
    if dots:
        layers.append(own.mark_point(filled=True, size=12, opacity=0.9).encode(y=number("y", title=y), tooltip=tips))
    if banded:
        tips += [alt.Tooltip(f"{end}:Q", format=",.4~f") for end in ("lower", "upper")]
        layers.insert(0, own.mark_area(opacity=0.13).encode(y=number("lower", title=y), y2="upper:Q"))
    if points:
        large = own.transform_filter(alt.FieldValidPredicate(field="point", valid=True))
        layers.append(
            large.mark_point(filled=True, size=90, opacity=1).encode(y=number("point", title=y), tooltip=[tips[0], tips[1], "point:Q"])
        )
    return layer_charts(*layers).properties(height=height)


def rules(data: str) -> list[alt.Chart]:
    """Return layers of labelled vertical lines on a time axis. data: name of the chart's data set with the fields x and text."""
    own = alt.Chart(alt.NamedData(name=data)).encode(x=time("x"), color=alt.value(GREY), tooltip=[alt.Tooltip("text:N"), _at("UTC")])
    written = own.mark_text(angle=270, align="right", baseline="top", dx=-4, dy=3, fontSize=10, limit=180)
    return [own.mark_rule(strokeDash=[4, 3]), written.encode(y=alt.value(0), text="text:N")]


def _at(title: str) -> alt.Tooltip:
    return alt.Tooltip("x:T", title=title, format="%Y-%m-%d %H:%M")


def equity_over_time(equity: pl.DataFrame, name: str) -> alt.LayerChart:
    """Draw the equity of one backtest in dollars. equity: rows of replay/equity of one agent in one episode."""
    points = add_drawdown(equity).select(x="at", y="equity", name=pl.lit(name))
    chart = lines("UTC", "equity ($)", (), step=True, dots=False)
    return fill_chart(chart.properties(width=620), chart_rows(points))
