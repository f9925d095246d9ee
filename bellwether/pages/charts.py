"""Charts of pages: the figures of `bellwether.figures` with their rows, titles and descriptions. Names are in their data only, never in an expression."""

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
#: Points up to which each has its name next to it; of more, those of the frontier.
_NAMED = 5
__all__ = ["GREY", "LINE", "PALETTE", "Colours", "curves", "depths", "intervals", "lines", "matrix", "quotes", "reliability", "scatter"]


class Colours:
    """One colour and dash per name, by its number in the warehouse; names without a number come after all others."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = dict(numbers)

    def add(self, names: Sequence[str]) -> None:
        """Number the names that have no number, in their order."""
        for name in names:
            self._numbers.setdefault(name, max(self._numbers.values(), default=-1) + 1)

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """The styles of names."""
        return {name: STYLES[self._numbers[name] % len(STYLES)] if name in self._numbers else GREY for name in names}


def intervals(title: str, axis: str, rows: Rows, colours: Mapping[str, str], *, reference: float | None = None) -> Chart:
    """Points with intervals, one line per name, in the order of the rows. rows: name, value, lower, upper. reference: of a dotted line."""
    form = spec(interval_charts.intervals, axis, tuple(colours.items()), reference=reference)
    described = f"{title}: a point and its 95 % interval per name; the table has the numbers"
    return Chart(title, described, {**form, "height": max(44, 22 * len(rows))}, rows, colours=colours)


def reliability(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Observed frequency against forecast probability. rows: name, forecast, observed, lower, upper, n; and low, high where there is a band."""
    banded = any(row.get("low") is not None for row in rows)
    form = spec(reliability_charts.diagram, tuple(colours.items()), banded=banded)
    shade = "; shaded: where 95 % of the points would lie if the forecasts were calibrated" if banded else ""
    described = f"{title}: the closer to the dashed diagonal, the better calibrated; bars are 95 % intervals over clusters{shade}"
    return Chart(title, described, {**form, "height": 320}, rows, "name", first, colours)


def distribution(title: str, rows: Rows, colour: str) -> Chart:
    """Forecasts per bin of their probability. rows: low, high, n."""
    return Chart(title, f"{title}: bars per tenth of the probability", spec(reliability_charts.distribution, colour), rows)


def curves(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Calibration without bins. rows: name, forecast, recalibrated, lower, upper."""
    form = spec(reliability_charts.curves, tuple(colours.items()))
    described = f"{title}: the closer to the dashed diagonal, the better calibrated; shaded: where calibrated forecasts would lie"
    return Chart(title, described, {**form, "height": 320}, rows, "name", first, colours)


def scatter(title: str, x: str, y: str, rows: Rows, colours: Mapping[str, str], **options: Any) -> Chart:
    """Points with their names, and a dashed line through those with the lowest y up to their x. rows: name, x, y.

    The options are those of `bellwether.figures.costs.scatter`.
    """
    lowest, shown = float("inf"), []
    for row in sorted(rows, key=lambda row: (row["x"], row["y"])):
        first = row["y"] < lowest
        shown.append({**row, "frontier": row["y"] if first else None, "label": row["name"] if first or len(rows) <= _NAMED else ""})
        lowest = min(lowest, row["y"])
    form = spec(costs.scatter, x, y, tuple(colours.items()), **options)
    described = f"{title}: {y} against {x}, a point per name; dashed: the lowest so far"
    return Chart(title, described, form, shown, colours=colours)


def matrix(title: str, value: str, rows: Rows, names: Sequence[str], others: Sequence[str], *, middle: float | None = None) -> Chart:
    """Cells by name and other. rows: name, other, value, and note, which is shown on pointing and as a dot where `mark` is 1."""
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
    """Curves over time (ISO text) or a number. rows: name, x, y, with `band_cell` also lower and upper. marks: x and text of labelled rules.

    The other options are those of `bellwether.figures.equity.lines`.
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
    """Heat map of the best bid and ask, and fills. rows: those of `bellwether.figures.books.quotes`."""
    description = f"{title}: bid and ask in dollars over time, darker for more contracts; fills are triangles, up where YES was bought"
    return Chart(title, description, spec(books.quotes, tuple(colours.items())), rows, "name", first, colours)


def depths(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Contracts of both sides as steps, bids above zero and asks below. rows: name, x, until, bid_depth, ask_depth."""
    return Chart(title, f"{title}; contracts over time", spec(books.depths, tuple(colours.items())), rows, "name", first, colours)
