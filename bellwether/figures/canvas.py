"""Style, colours, short labels of untrusted names, and rendering to PNG, for all figures."""

from __future__ import annotations

import math
import textwrap
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import altair as alt
import numpy as np
import polars as pl
import vl_convert

from bellwether.console import shortened
from bellwether.untrusted_text import one_line

Rows = list[dict[str, Any]]
#: Names with their colours, in order.
Palette = tuple[tuple[str, str], ...]

#: Maximum bytes of a picture in an event of the pipeline, and in a file.
MOST_BYTES, FILE_BYTES = 100_000, 400_000
#: Maximum number of panels or lines; the figure states how many are left out.
MOST_PANELS = 12
MOST_LINES = 40
#: Maximum of points of a curve; a longer curve is reduced to its extremes.
MOST_POINTS = 400

INK, GREY, RULE = "#22303c", "#6b7782", "#d5dbe0"
BLUE, ORANGE, PALE = "#1f5a91", "#d9703f", "#a9bccd"

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
_FONT = "Liberation Sans, DejaVu Sans, sans-serif"
_STYLE: dict[str, Any] = {
    "background": "white",
    "font": _FONT,
    "padding": 12,
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "frame": "group",
        "fontSize": 13,
        "color": INK,
        "offset": 10,
        "font": _FONT,
        "limit": 700,
        "subtitleColor": GREY,
        "subtitleFontSize": 10.5,
        "subtitleFont": _FONT,
        "subtitlePadding": 5,
    },
    "axis": {
        "labelColor": GREY,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "labelFontSize": 10,
        "titleFontSize": 10.5,
        "gridColor": RULE,
        "gridOpacity": 0.7,
        "domainColor": RULE,
        "tickColor": RULE,
        "labelLimit": 260,
        "labelOverlap": True,
        "labelSeparation": 6,
    },
    "legend": {"orient": "bottom", "title": None, "labelColor": INK, "labelFontSize": 10.5, "labelLimit": 240, "columns": 4},
    "concat": {"spacing": 22},
    "style": {"ink": {"fill": INK, "stroke": "white", "strokeWidth": 0.6}},
}
#: Labels of an axis of time: the hour, at midnight the day, at the first of a month the month.
_TIMES = "utcFormat(datum.value, {'seconds': '%H:%M:%S', 'minutes': '%H:%M', 'hours': '%H:%M', 'date': '%d %b', 'week': '%d %b', 'day': '%d %b', 'month': '%b %Y', 'quarter': '%b %Y', 'year': '%Y'})"
#: Scales of the picture; the first that keeps it below the limit is used.
_SCALES = (1.5, 1.25, 1.0, 0.75)


def palette(names: Iterable[str]) -> Palette:
    """Assign a colour to each distinct name, in order. After sixteen names the colours repeat."""
    return tuple((name, PALETTE[place % len(PALETTE)]) for place, name in enumerate(dict.fromkeys(names)))


def label(text: str, most: int = 48) -> str:
    """Return `text` on one line, cut to at most `most` characters."""
    return one_line(text, most)


def distinct_labels(names: Sequence[str], most: int = 44) -> dict[str, str]:
    """Return a label of at most `most` characters for each name. Labels of different names differ."""
    single = {name: label(name, 1_000) for name in names}
    short = shortened(list(single.values()), most)
    return {name: short[one] for name, one in single.items()}


def tail(name: str, most: int = 32) -> str:
    """Return the end of a long name; names of an event's markets and episodes begin alike."""
    return name if len(name) <= most else "…" + name[1 - most :]


def layer_charts(*charts: Any) -> alt.LayerChart:
    """Draw charts on top of each other, the first at the bottom."""
    return cast(alt.LayerChart, alt.layer(*charts))


def fill_chart(chart: Any, rows: Rows) -> Any:
    """Return a copy of a chart that contains `rows` as plain values. Altair's own validation would take seconds for thousands of rows."""
    copy = chart.copy(deep=False)
    copy.data = {"values": rows}
    return copy


def add_title(chart: Any, title: str, *notes: str) -> Any:
    """Return a copy of a chart with a title, remarks in grey below the title, and the style of all figures."""
    lines = [line for note in notes for line in textwrap.wrap(label(note, 1_000), 105)]
    copy = chart.copy(deep=False)
    copy.title = alt.TitleParams(label(title, 100), subtitle=lines) if lines else alt.TitleParams(label(title, 100))
    copy.config = _STYLE
    return copy


def empty_figure(title: str, why: str) -> Any:
    """Return a figure that shows only a title and why there is no data."""
    chart = alt.Chart().mark_text(color=GREY, fontSize=13).encode(text=alt.value(why)).properties(width=380, height=120)
    return add_title(fill_chart(chart, [{}]), title)


def panels(charts: Sequence[tuple[str, Any]], title: str, *notes: str, left_out: int = 0) -> Any:
    """Arrange charts in a grid, each under its own name, or show a single chart under the figure's title only. left_out: number of charts not
    shown, stated below the title.
    """
    more = f"and {left_out} more" if left_out > 0 else ""
    if len(charts) == 1:
        return add_title(charts[0][1], title, *notes, more)
    named = [chart.properties(title=alt.TitleParams(label(name, 36), fontSize=11.5, frame="bounds")) for name, chart in charts]
    columns = min(math.ceil(math.sqrt(len(named))), 4)
    return add_title(alt.concat(*named, columns=columns), title, *notes, more)


def png(chart: Any, most: int = MOST_BYTES) -> bytes:
    """Render a chart as PNG, at the highest resolution that stays below `most` bytes (else the lowest). Equal charts give equal bytes."""
    spec = chart.to_dict(validate=False)
    picture = b""
    for scale in _SCALES:
        picture = _indexed(vl_convert.vegalite_to_png(spec, scale=scale))
        if len(picture) < most:
            break
    return picture


#: The nearest of 16 levels to a value of 0 to 255.
_LEVELS = ((np.arange(256) + 8) // 17).astype(np.uint16)


def _indexed(picture: bytes) -> bytes:
    """Reduce a PNG to 16 levels per colour channel, which makes it four times smaller; unchanged if more than 256 colours would remain."""
    chunks, at = [], 8
    while at < len(picture):
        size = int.from_bytes(picture[at : at + 4])
        chunks.append((picture[at + 4 : at + 8], picture[at + 8 : at + 8 + size]))
        at += 12 + size
    width, height = (int.from_bytes(chunks[0][1][start : start + 4]) for start in (0, 4))
    data = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    rows = np.frombuffer(data, np.uint8).reshape(height, 1 + 4 * width)
    if (rows[:, 0] != 1).any():  # every row holds differences from the pixel at the left
        return picture
    pixels = np.cumsum(rows[:, 1:].reshape(height, width, 4), axis=1, dtype=np.uint8)[..., :3]
    red, green, blue = (_LEVELS[pixels[..., channel]] for channel in range(3))
    codes = (red << 8) | (green << 4) | blue
    colours = np.flatnonzero(np.bincount(codes.ravel(), minlength=4096))
    if len(colours) > 256:
        return picture
    places = np.zeros(4096, np.uint8)
    places[colours] = np.arange(len(colours))
    table = np.stack([colours // 256, colours // 16 % 16, colours % 16], axis=1).astype(np.uint8) * 17
    lines = np.zeros((height, 1 + width), np.uint8)
    lines[:, 1:] = places[codes]
    header = chunks[0][1][:8] + bytes([8, 3, 0, 0, 0])
    parts = ((b"IHDR", header), (b"PLTE", table.tobytes()), (b"IDAT", zlib.compress(lines.tobytes(), 7)), (b"IEND", b""))
    written = (len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4) for kind, data in parts)
    return picture[:8] + b"".join(written)


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
