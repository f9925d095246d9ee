"""Bar charts of named numbers, such as the rows of each table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from bellwether.figures.canvas import BLUE, INK, MOST_LINES, add_title, distinct_labels, empty_figure, fill_chart, layer_charts


def bars(values: Mapping[str, float], title: str, *, log: bool = False) -> Any:
    """Draw one bar with its number per name, in the order of the names. Beyond the fortieth, names are only counted below the title.

    log: use a logarithmic scale that includes zero.
    """
    if not values:
        return empty_figure(title, "no rows")
    names = list(values)[:MOST_LINES]
    short = distinct_labels(names)
    rows = [{"name": short[name], "value": values[name], "text": f"{values[name]:,}"} for name in names]
    own = alt.Chart().encode(
        y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelOverlap=False, ticks=False, domain=False)),
        x=alt.X("value:Q", axis=None, scale=alt.Scale(type="symlog") if log else alt.Undefined),
    )
    numbers = own.mark_text(align="left", dx=4, fontSize=10, color=INK).encode(text="text:N")
    chart = layer_charts(own.mark_bar(color=BLUE), numbers).properties(width=300, height=alt.Step(13))
    more = f"and {len(values) - len(names)} more" if len(values) > len(names) else ""
    return add_title(fill_chart(chart, rows), title, more)


def count_bars(values: pl.Series, title: str) -> Any:
    """Draw how often each value occurs, the most frequent first. values: a column of text."""
    counts = values.fill_null("missing").value_counts(name="rows").sort(["rows", values.name], descending=[True, False])
    return bars(dict(counts.iter_rows()), title)
