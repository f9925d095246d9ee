"""Colours and encodings of all charts, and their specifications."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import altair as alt
import polars as pl

Rows = list[dict[str, Any]]
#: Names with their colours, in order.
Palette = tuple[tuple[str, str], ...]

GREY = "#6b7782"

#: Sixteen distant colours with a contrast of at least 3 on the light and the dark page.
PALETTE = (
    "#3a7fc1", "#d9703f", "#4a9d74", "#9573c4", "#d8006c", "#909c00", "#846060", "#009018",
    "#b430a8", "#a89054", "#247884", "#d86c84", "#0c78f0", "#c08400", "#cc2430", "#547824",
)  # fmt: skip


def _shifted(colour: str, by: int) -> str:
    return f"{colour[:5]}{int(colour[5:], 16) + by:02x}"


#: Dashes of lines by the round of their colour: solid, dashed, dotted.
_DASHES = ([1, 0], [6, 3], [2, 2])
#: The palette in three rounds. Later rounds differ by one unit of blue, which selects a dashed or dotted line and another point.
STYLES = tuple(_shifted(one, by) for by in range(len(_DASHES)) for one in PALETTE)
_POINTS = ("circle", "square", "triangle-up")

#: Titles of axes in percent, and their format.
SHARES, PERCENT = frozenset({"return", "share"}), ",.3~%"
#: Labels of an axis of time: the hour, at midnight the day, at the first of a month the month.
_TIMES = "utcFormat(datum.value, {'seconds': '%H:%M:%S', 'minutes': '%H:%M', 'hours': '%H:%M', 'date': '%d %b', 'week': '%d %b', 'day': '%d %b', 'month': '%b %Y', 'quarter': '%b %Y', 'year': '%Y'})"


def palette(names: Iterable[str]) -> Palette:
    """Assign a colour to each distinct name, in order. After sixteen names the colours repeat."""
    return tuple((name, PALETTE[place % len(PALETTE)]) for place, name in enumerate(dict.fromkeys(names)))


def layer_charts(*charts: Any) -> alt.LayerChart:
    """Draw charts on top of each other, the first at the bottom."""
    return cast(alt.LayerChart, alt.layer(*charts))


def fill_chart(chart: Any, rows: Rows) -> Any:
    """Return a copy of a chart that contains `rows` as plain values. Altair's own validation would take seconds for thousands of rows."""
    copy = chart.copy(deep=False)
    copy.data = {"values": rows}
    return copy


@lru_cache(maxsize=1024)
def spec(build: Callable[..., Any], *arguments: Any, **options: Any) -> Mapping[str, Any]:
    """Return the Vega-Lite specification of a chart without data. It is cached, because the charts of a site have few forms. build: creates the
    chart.
    """
    chart = build(*arguments, **options).copy(deep=False)
    chart.data = {"name": "rows"}  # without any, Altair gives every layer an empty set of its own
    form = chart.to_dict(validate=False)
    return {name: part for name, part in form.items() if name not in ("$schema", "config", "data")}


def chart_rows(frame: pl.DataFrame) -> Rows:
    """Convert a frame to rows of a chart: decimals become floats, NaN and infinity null, and instants ISO text in UTC."""
    columns = []
    for name, dtype in frame.schema.items():
        if dtype.is_float():
            columns.append(pl.when(pl.col(name).is_finite()).then(name).alias(name))
        elif dtype.is_decimal():
            columns.append(pl.col(name).cast(pl.Float64))
        elif dtype.is_temporal():
            columns.append(pl.col(name).dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
    return frame.with_columns(columns).to_dicts()


def time(field: str, title: str | None = None, **options: Any) -> alt.X:
    """Encode a field as a horizontal time axis in UTC."""
    return alt.X(f"{field}:T", title=title, scale=alt.Scale(type="utc"), axis=alt.Axis(labelExpr=_TIMES), **options)


def number(field: str, channel: type[Any] = alt.Y, *, title: str | None = None, zero: bool = False, **options: Any) -> Any:
    """Encode a field as numbers. The axis begins near the values, or at zero with `zero`; returns and shares, known by `title`, are in percent."""
    encoding = channel(f"{field}:Q", title=title, scale=alt.Scale(zero=zero, **options))
    return encoding.axis(format=PERCENT) if title in SHARES else encoding


def colour(names: Palette, *, legend: bool = False) -> alt.Color:
    """Encode the field `name` by the palette's colours. An empty palette gives Vega's default colours and a legend."""
    legend_style: Any = alt.Legend(title=None, symbolOpacity=1, symbolStrokeWidth=2)
    if not names:
        return alt.Color("name:N", legend=legend_style)
    scale = alt.Scale(domain=[name for name, _ in names], range=[one for _, one in names])
    return alt.Color("name:N", scale=scale, legend=legend_style if legend else None)


def dashes(names: Palette) -> dict[str, alt.StrokeDash]:
    """Encode the field `name` by dashes, which tell apart names with equal colours; empty if all lines are solid."""
    return (
        {"strokeDash": _by_round(alt.StrokeDash, names, _DASHES)} if len(names) > 1 and any(round_of(colour) for _, colour in names) else {}
    )


def points(names: Palette) -> dict[str, alt.Shape]:
    """Encode the field `name` by point shapes, which tell apart names with equal colours; empty if all points are circles."""
    return {"shape": _by_round(alt.Shape, names, _POINTS)} if len(names) > 1 and any(round_of(colour) for _, colour in names) else {}


def _by_round(channel: type[Any], names: Palette, kinds: Sequence[Any]) -> Any:
    scale = alt.Scale(domain=[name for name, _ in names], range=[kinds[round_of(one)] for _, one in names])
    return channel("name:N", scale=scale, legend=None)


def round_of(colour: str) -> int:
    """Return the line style of a colour in `STYLES`: 0 (solid), 1 (dashed) or 2 (dotted)."""
    return STYLES.index(colour) // len(PALETTE) if colour in STYLES else 0


def rule_at(value: float, channel: str = "y") -> Any:
    """Return a dotted line at a value. channel: the axis of the value, "x" or "y"."""
    chart = alt.Chart().mark_rule(strokeDash=[2, 3], color=GREY, size=1)
    return fill_chart(chart.encode(**{channel: alt.datum(value)}), [{}])
