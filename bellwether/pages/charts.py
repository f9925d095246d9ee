"""Charts of pages: figures of `bellwether.figures` with rows, titles and descriptions. Names are data, never part of an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from bellwether.figures import books, costs, equity
from bellwether.figures import intervals as interval_charts
from bellwether.figures import reliability as reliability_charts
from bellwether.figures.canvas import PALETTE, STYLES, Rows, spec
from bellwether.pages.model import Chart

#: Colours of a single line, and of names without a colour of their own.
LINE, GREY = PALETTE[0], "#8a949c"
#: Maximum of points that are all labelled; of more, only the frontier is.
_NAMED = 5
__all__ = ["GREY", "LINE", "PALETTE", "Colours", "curves", "depths", "intervals", "lines", "matrix", "quotes", "reliability", "scatter"]


class Colours:
    """Colours of names. A colour depends on the number of the name in the warehouse; names without a number are numbered last."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = dict(numbers)

    def add(self, names: Sequence[str]) -> None:
        """Assign the next numbers to names that have none."""
        for name in names:
            self._numbers.setdefault(name, max(self._numbers.values(), default=-1) + 1)

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """Return the colour of each name; from the seventeenth number on it also selects a dash."""
        return {name: STYLES[self._numbers[name] % len(STYLES)] if name in self._numbers else GREY for name in names}


def intervals(title: str, axis: str, rows: Rows, colours: Mapping[str, str], *, reference: float | None = None) -> Chart:
    """Build a chart of values with intervals, a line per name in the order of the rows.

    rows: name, value, lower, upper. reference: value of a dotted line.
    """
    form = spec(interval_charts.intervals, axis, tuple(colours.items()), reference=reference)
    described = f"{title}: a point and its 95 % interval per name; the table has the numbers"
    return Chart(title, described, {**form, "height": max(44, 22 * len(rows))}, rows, colours=colours)


def reliability(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Build a chart of observed frequency against forecast. rows: name, forecast, observed, lower, upper, n, and low and high of the band, if any."""
    banded = any(row.get("low") is not None for row in rows)
    form = spec(reliability_charts.diagram, tuple(colours.items()), banded=banded)
    shade = "; shaded: where 95 % of the points would lie if the forecasts were calibrated" if banded else ""
    described = f"{title}: the closer to the dashed diagonal, the better calibrated; bars are 95 % intervals over clusters{shade}"
    return Chart(title, described, {**form, "height": 320}, rows, "name", first, colours)


def distribution(title: str, rows: Rows, colour: str) -> Chart:
    """Build a chart of the number of forecasts per bin of probability. rows: low, high, n."""
    return Chart(title, f"{title}: bars per tenth of the probability", spec(reliability_charts.distribution, colour), rows)


def curves(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Build a chart of calibration curves, which need no bins. rows: name, forecast, recalibrated, lower, upper."""
    form = spec(reliability_charts.curves, tuple(colours.items()))
    described = f"{title}: the closer to the dashed diagonal, the better calibrated; shaded: where calibrated forecasts would lie"
    return Chart(title, described, {**form, "height": 320}, rows, "name", first, colours)


def scatter(title: str, x: str, y: str, rows: Rows, colours: Mapping[str, str], **options: Any) -> Chart:
    """Build a chart of named points with a dashed frontier, the lowest y up to each x. rows: name, x, y.

    The options are passed to `bellwether.figures.costs.scatter`.
    """
    lowest, points = float("inf"), []
    for row in sorted(rows, key=lambda row: (row["x"], row["y"])):
        first = row["y"] < lowest
        points.append({**row, "frontier": row["y"] if first else None, "label": row["name"] if first or len(rows) <= _NAMED else ""})
        lowest = min(lowest, row["y"])
    form = spec(costs.scatter, x, y, tuple(colours.items()), **options)
    described = f"{title}: {y} against {x}, a point per name; dashed: the lowest so far"
    return Chart(title, described, form, points, colours=colours)


def matrix(title: str, value: str, rows: Rows, names: Sequence[str], others: Sequence[str], *, middle: float | None = None) -> Chart:
    """Build a chart of a matrix of `name` by `other`. rows: name, other, value, note (tooltip) and mark (1 draws a dot)."""
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
    """Build a chart of curves over time (ISO text) or a number. rows: name, x, y; with `band`, lower and upper. marks: x and text of labelled rules.

    The other options are passed to `bellwether.figures.equity.lines`.
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


def quotes(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Build a heat map of the best bid and ask with fills. rows: as for `bellwether.figures.books.quotes`."""
    description = f"{title}: bid and ask in dollars over time, darker for more contracts; fills are triangles, up where YES was bought"
    return Chart(title, description, spec(books.quotes, tuple(colours.items())), rows, "name", first, colours)


def depths(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Build a chart of the contracts of both sides as steps, bids above zero and asks below. rows: name, x, until, bid_depth, ask_depth."""
    return Chart(title, f"{title}; contracts over time", spec(books.depths, tuple(colours.items())), rows, "name", first, colours)
