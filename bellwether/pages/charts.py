"""Charts of pages and reports: the forms of `bellwether.figures` with rows, titles and descriptions. Names are passed as data, never within a
Vega expression.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any

import vl_convert

from bellwether.figures import books, equity
from bellwether.figures import intervals as interval_charts
from bellwether.figures import reliability as reliability_charts
from bellwether.figures import scatter as scatter_charts
from bellwether.figures.canvas import PALETTE, STYLES, Rows, spec
from bellwether.formatting import one_line
from bellwether.pages.model import Chart
from bellwether.pages.values import visible_range

#: Colours of a single line, and of names without a colour of their own.
LINE, GREY = PALETTE[0], "#8a949c"
__all__ = [
    "GREY",
    "LINE",
    "PALETTE",
    "Colours",
    "book_heat_map",
    "curves",
    "intervals",
    "lines",
    "matrix",
    "png",
    "reliability",
    "scatter",
]


class Colours:
    """Colours of names, which stay the same over pages and publications. numbers: the permanent number of each name, which determines the colour."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = dict(numbers)

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """Return the colour of each name, grey without a number. Colours of a page are distinct: a name whose colour has a lower number takes the
        next free one. More than 16 names get variants of earlier colours that charts draw dashed or dotted.
        """
        free = list(STYLES)
        colours = dict.fromkeys(names, GREY)
        for name in sorted({*names} & {*self._numbers}, key=lambda one: self._numbers[one]):
            wanted = STYLES[self._numbers[name] % len(PALETTE)]
            colours[name] = wanted if wanted in free else free[0] if free else STYLES[self._numbers[name] % len(STYLES)]
            if free:
                free.remove(colours[name])
        return colours


def intervals(title: str, axis: str, rows: Rows, colours: Mapping[str, str], *, reference: float | None = None, step: int = 22) -> Chart:
    """Build a chart of values with intervals, one line per name, in the order of the rows.

    rows: name, value, lower, upper. reference: value at which a dotted line is drawn. step: height of a line in pixels.
    """
    low, high, is_cut = visible_range(row[name] for row in rows for name in ("value", "lower", "upper"))
    form = spec(interval_charts.intervals, axis, tuple(colours.items()), reference=reference, domain=(low, high) if is_cut else None)
    described = f"{title}: a point and its bar per name" + "; longer bars are cut" * is_cut
    return Chart(title, described, {**form, "height": max(110, step * len(rows))}, rows, colours=colours)


def reliability(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Build a chart of observed frequency against forecast.

    rows: name, forecast, observed, lower, upper, n, and optionally low and high, the band of calibrated forecasts. first: names shown at first.
    """
    banded = any(row.get("low") is not None for row in rows)
    form = spec(reliability_charts.diagram, tuple(colours.items()), banded=banded)
    shade = "; shaded: where 95 % of the points would lie if the forecasts were calibrated" if banded else ""
    described = f"{title}: the closer to the dashed diagonal, the better calibrated; bars are 95 % intervals over clusters{shade}"
    return Chart(title, described, {**form, "height": 320}, rows, "name", first, colours)


def distribution(title: str, rows: Rows, colour: str) -> Chart:
    """Build a chart of the number of forecasts per bin of probability. rows: low, high (edges of the bin), n."""
    return Chart(title, f"{title}: bars per tenth of the probability", spec(reliability_charts.distribution, colour), rows)


def curves(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Build a chart of calibration curves, which need no bins. rows: name, forecast, recalibrated, lower, upper. first: names shown at first."""
    form = spec(reliability_charts.curves, tuple(colours.items()))
    described = f"{title}: the closer to the dashed diagonal, the better calibrated; shaded: where calibrated forecasts would lie"
    return Chart(title, described, {**form, "height": 320}, rows, "name", first, colours)


def scatter(title: str, x: str, y: str, rows: Rows, colours: Mapping[str, str], **options: Any) -> Chart:
    """Build a chart of named points, with a dashed line through the lowest y so far from left to right. rows: name, x, y.

    Outliers are drawn at the edge. The options are passed to `bellwether.figures.scatter.scatter`.
    """
    low, high, is_cut = visible_range(row["y"] for row in rows)
    low, high = low - (high - low) / 20, high + (high - low) / 20
    lowest, points = float("inf"), []
    ordered = sorted(rows, key=lambda row: (row["x"], row["y"]))
    for row, place in zip(ordered, place_labels(ordered, (low, high), is_log=bool(options.get("log"))), strict=True):
        points.append({**row, "frontier": row["y"] if row["y"] < lowest else None, **place})
        lowest = min(lowest, row["y"])
    if options.get("log"):
        ends = (math.floor(math.log10(limit([row["x"] for row in rows]))) for limit in (min, max))
        options["ticks"] = tuple(10.0**power for power in range(next(ends), next(ends) + 2))
    form = spec(scatter_charts.scatter, x, y, tuple(colours.items()), domain=(low, high), **options)
    described = f"{title}: {y} against {x}, a point per name; dashed: the lowest so far"
    return Chart(title + _OUTLIERS * is_cut, described, form, points, colours=colours)


_OUTLIERS = "; outliers are drawn at the edge"
#: Size of a scatter chart, and of the letters of its labels, in pixels.
_WIDTH, _HEIGHT, _LETTER, _LINE = 560, 300, 6.0, 13
#: Longest label of a point.
_LABEL = 24
#: Sides of a point on which its label may be: alignment, and distance in pixels.
_SIDES = (("left", 9, 0), ("right", -9, 0), ("center", 0, -12), ("center", 0, 12))


def place_labels(rows: Rows, domain: tuple[float, float], *, is_log: bool = False) -> list[dict[str, Any]]:
    """Return the label of each point of a scatter chart with its alignment and distance, on the first side where it covers nothing.

    A point without such a side has an empty label. domain: range of y.
    """
    across = [_to_number(row["x"], is_log=is_log) for row in rows]
    left, right = min(across, default=0.0), max(across, default=1.0)
    low, high = domain
    points = [
        (_WIDTH * (x - left) / (right - left or 1), _HEIGHT * (1 - (min(max(row["y"], low), high) - low) / (high - low or 1)))
        for x, row in zip(across, rows, strict=True)
    ]
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    labels = []
    for (x, y), row in zip(points, rows, strict=True):
        name = row["name"] if len(row["name"]) <= _LABEL else f"{row['name'][: _LABEL - 1]}…"
        width, found = _LETTER * len(name), {"label": "", "align": "left", "dx": 0, "dy": 0}
        for align, dx, dy in _SIDES:
            start = x + dx - {"left": 0, "right": width, "center": width / 2}[align]
            box = (start, y + dy - _LINE / 2, start + width, y + dy + _LINE / 2)
            is_free = all(box[0] >= b[2] or box[2] <= b[0] or box[1] >= b[3] or box[3] <= b[1] for b in taken)
            if is_free and box[0] >= -_LETTER and box[2] <= _WIDTH:
                taken.append(box)
                found = {"label": name, "align": align, "dx": dx, "dy": dy}
                break
        labels.append(found)
    return labels


def _to_number(x: str | float, *, is_log: bool) -> float:
    if isinstance(x, str):
        return float(date.fromisoformat(x).toordinal())
    return math.log(x) if is_log else float(x)


def matrix(title: str, value: str, rows: Rows, names: Sequence[str], others: Sequence[str], *, middle: float | None = None) -> Chart:
    """Build a chart of a matrix with a row per name and a column per other. Outliers have the colour of the scale's end.

    value: title of the values. rows: name, other, value, note (tooltip) and mark (1 draws a dot). middle: value between the two colours.
    """
    low, high, is_cut = visible_range(row["value"] for row in rows)
    form = spec(interval_charts.matrix, value, len(names), middle=middle, domain=(low, high) if is_cut else None)
    shown = title + "; outliers have the colour of the scale's end" * is_cut
    return Chart(shown, f"{title}: {value} per pair", form, interval_charts.cells(rows, names, others))


def lines(
    title: str,
    x: str,
    y: str,
    rows: Rows,
    colours: Mapping[str, str],
    *,
    first: Sequence[str] = (),
    marks: Rows = (),  # type: ignore[assignment]
    time: bool = True,
    **options: Any,
) -> Chart:
    """Build a chart of curves. rows: name, x, y; x is a time (ISO text), or a number if `time` is False.

    marks: x and text of labelled vertical lines. first: names shown at first. Other options are passed to `bellwether.figures.equity.lines`.
    """
    form = spec(equity.lines, x, y, tuple(colours.items()), timed=time, **options)
    if marks:
        form = {**form, "layer": [*form["layer"], *_rules()], "datasets": {"marks": list(marks)}}
    described = "".join(f"; from {row['x']}: {row['text']}" for row in marks)
    return Chart(title, f"{title}: {y} over {x}{described}", form, rows, "name", first, colours)


@cache
def _rules() -> list[dict[str, Any]]:
    layers = (rule.to_dict(validate=False) for rule in equity.rules("marks"))
    return [{name: layer[name] for name in ("data", "mark", "encoding")} for layer in layers]


def book_heat_map(title: str, rows: Rows, first: Sequence[str] = ()) -> Chart:
    """Build a heat map of the contracts at each price over time. rows: as for `bellwether.figures.books.heat_map`. first: markets shown at first."""
    description = (
        f"{title}: blue bids and orange asks, more opaque for more contracts; dots are trades, triangles fills, up where YES was bought"
    )
    return Chart(title, description, spec(books.heat_map), rows, "name", first)


#: Style of a picture. Pages have their own, in the script.
_STYLE: dict[str, Any] = {
    "background": "white",
    "font": "Liberation Sans, DejaVu Sans, sans-serif",
    "padding": 12,
    "view": {"stroke": None},
    "title": {"anchor": "start", "frame": "group"},
    "axis": {"titleFontWeight": "normal", "labelLimit": 260, "labelOverlap": True},
}


def png(chart: Chart) -> bytes:
    """Render a chart as PNG. Equal charts give equal bytes."""
    data = {"data": {"values": list(chart.rows)}, "width": _WIDTH, "title": one_line(chart.title, 100), "config": _STYLE}
    return vl_convert.vegalite_to_png({**chart.spec, **data})
