"""Charts of pages: the figures of `bellwether.figures` with rows, titles and descriptions. Names are passed as data, never within a Vega
expression.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any

from bellwether.figures import books, costs, equity
from bellwether.figures import intervals as interval_charts
from bellwether.figures import reliability as reliability_charts
from bellwether.figures.canvas import PALETTE, STYLES, Rows, spec
from bellwether.pages.model import Chart

#: Colours of a single line, and of names without a colour of their own.
LINE, GREY = PALETTE[0], "#8a949c"
#: Distance of two labels of a scatter chart below which the second is left out, as a share of the width.
_APART = 0.25
#: Spreads of the values that an axis of intervals may span.
_MOST_SPREADS = 40
__all__ = [
    "GREY",
    "LINE",
    "PALETTE",
    "Colours",
    "book_heat_map",
    "curves",
    "depths",
    "intervals",
    "lines",
    "matrix",
    "reliability",
    "scatter",
]


class Colours:
    """Colours of names, which stay the same over pages and publications. numbers: the permanent number of each name, which determines the colour."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = dict(numbers)

    def add(self, names: Sequence[str]) -> None:
        """Assign the next free numbers to the names that have no number, in their order."""
        for name in names:
            self._numbers.setdefault(name, max(self._numbers.values(), default=-1) + 1)

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """Return the colour of each name, grey without a number. Numbers from 16 on get a variant of an earlier colour that charts draw dashed or
        dotted.
        """
        return {name: STYLES[self._numbers[name] % len(STYLES)] if name in self._numbers else GREY for name in names}


def intervals(title: str, axis: str, rows: Rows, colours: Mapping[str, str], *, reference: float | None = None, step: int = 22) -> Chart:
    """Build a chart of values with intervals, one line per name, in the order of the rows.

    rows: name, value, lower, upper. reference: value at which a dotted line is drawn. step: height of a line in pixels.
    """
    domain = _visible_domain(rows)
    form = spec(interval_charts.intervals, axis, tuple(colours.items()), reference=reference, domain=domain)
    described = f"{title}: a point and its bar per name; the table has the numbers" + "; longer bars are cut" * (domain is not None)
    return Chart(title, described, {**form, "height": max(110, step * len(rows))}, rows, colours=colours)


def _visible_domain(rows: Rows) -> tuple[float, float] | None:
    """Return the range of the axis if some intervals are so long that they must be cut; None if all intervals fit."""
    values = [row["value"] for row in rows] or [0.0]
    ends = [row[end] for row in rows for end in ("lower", "upper") if row[end] is not None]
    low, high = min(values), max(values)
    spread = high - low
    if not spread or not ends or max(ends) - min(ends) < _MOST_SPREADS * spread:
        return None
    return max(low - spread, min(ends)), min(high + spread, max(ends))


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

    The options are passed to `bellwether.figures.costs.scatter`.
    """
    lowest, points, labelled = float("inf"), [], list[tuple[float, float]]()
    at = _unit_places(rows, is_log=bool(options.get("log")))
    for row, place in sorted(zip(rows, at, strict=True), key=lambda pair: (pair[0]["x"], pair[0]["y"])):
        is_frontier = row["y"] < lowest
        # A label next to another one would cover it.
        is_named = is_frontier and all(abs(place[0] - other[0]) > _APART or abs(place[1] - other[1]) > _APART / 4 for other in labelled)
        labelled += [place] if is_named else []
        points.append({**row, "frontier": row["y"] if is_frontier else None, "label": row["name"] if is_named else ""})
        lowest = min(lowest, row["y"])
    if options.get("log"):
        low, high = (math.floor(math.log10(limit([row["x"] for row in rows]))) for limit in (min, max))
        options["ticks"] = tuple(10.0**power for power in range(low, high + 2))
    form = spec(costs.scatter, x, y, tuple(colours.items()), **options)
    described = f"{title}: {y} against {x}, a point per name; dashed: the lowest so far"
    return Chart(title, described, form, points, colours=colours)


def _unit_places(rows: Rows, *, is_log: bool) -> list[tuple[float, float]]:
    """Return the position of each point of a scatter chart, as shares of the chart's width and height."""
    columns = []
    for values in ([_to_number(row["x"], is_log=is_log) for row in rows], [float(row["y"]) for row in rows]):
        low, high = min(values), max(values)
        columns.append([(value - low) / (high - low or 1) for value in values])
    return list(zip(*columns, strict=True))


def _to_number(x: str | float, *, is_log: bool) -> float:
    if isinstance(x, str):
        return float(date.fromisoformat(x).toordinal())
    return math.log(x) if is_log else float(x)


def matrix(title: str, value: str, rows: Rows, names: Sequence[str], others: Sequence[str], *, middle: float | None = None) -> Chart:
    """Build a chart of a matrix with a row per name and a column per other.

    value: title of the values. rows: name, other, value, note (tooltip) and mark (1 draws a dot). middle: value between the two colours.
    """
    form = spec(interval_charts.matrix, value, len(names), middle=middle)
    return Chart(title, f"{title}: {value} per pair; the table has the numbers", form, interval_charts.cells(rows, names, others))


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

    marks: x and text of labelled vertical lines. first: names shown at first. Other options are passed to `bellwether.figures.equity.lines`; with
    band=True, rows also need lower and upper.
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


def depths(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Build a chart of a book's contracts over time, bids above zero and asks below.

    rows: name, x, until, bid_depth, ask_depth. first: names shown at first.
    """
    return Chart(title, f"{title}; contracts over time", spec(books.depths, tuple(colours.items())), rows, "name", first, colours)
