"""Vega-Lite charts of the site. Names appear in their data only, never in an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bellwether.site.model import Chart

Rows = list[dict[str, Any]]
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
#: Sixteen colours with a contrast of 3 on white and on the dark page, as far apart as that allows.
PALETTE = (
    "#3a7fc1", "#d9703f", "#4a9d74", "#9573c4", "#d8006c", "#909c00", "#846060", "#009018",
    "#b430a8", "#a89054", "#247884", "#d86c84", "#0c78f0", "#c08400", "#cc2430", "#547824",
)  # fmt: skip
LINE, GREY = "#3a7fc1", "#8a949c"


class Colours:
    """One colour per name, given in the order in which names first appeared, so that a new name changes no other's."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def add(self, names: Sequence[str]) -> None:
        """Give the names that have none the next colours."""
        for name in names:
            self._of.setdefault(name, PALETTE[len(self._of) % len(PALETTE)])

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """The colours of names."""
        return {name: self._of.get(name, GREY) for name in names}


def _chart(
    title: str,
    description: str,
    rows: Rows,
    colours: Mapping[str, str],
    *,
    body: Mapping[str, Any],
    by: str = "",
    first: Sequence[str] = (),
) -> Chart:
    spec = {
        "$schema": _SCHEMA,
        "data": {"values": rows},
        "usermeta": {"colours": dict(colours)},
        **body,
    }
    return Chart(title, description, spec, by, first)


def _colour(colours: Mapping[str, str]) -> dict[str, Any]:
    return {"field": "name", "type": "nominal", "scale": {"domain": list(colours), "range": list(colours.values())}, "legend": None}


def _quantity(field: str, title: str, **more: Any) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False}, **more}


_TIP: dict[str, Any] = {"field": "name", "type": "nominal", "title": "name"}


def intervals(title: str, axis: str, rows: Rows, colours: Mapping[str, str]) -> Chart:
    """Points with intervals, one line per name, in the order of the rows. rows: name, value, lower, upper."""
    y: dict[str, Any] = {"field": "name", "type": "nominal", "sort": None, "title": None}
    tips: list[dict[str, Any]] = [_TIP, *({"field": name, "type": "quantitative", "format": ".4f"} for name in ("value", "lower", "upper"))]
    body = {
        "height": max(44, 22 * len(rows)),
        "encoding": {"y": y, "color": _colour(colours), "tooltip": tips},
        "layer": [
            {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"x": _quantity("lower", axis), "x2": {"field": "upper"}}},
            {"mark": {"type": "point", "filled": True, "size": 70, "opacity": 1}, "encoding": {"x": _quantity("value", axis)}},
        ],
    }
    return _chart(title, f"{title}: a point and its 95 % interval per name; the table has the numbers", rows, colours, body=body)


def reliability(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str] = ()) -> Chart:
    """Observed frequency against forecast probability. rows: name, forecast, observed, lower, upper, n; and low, high where there is a band."""
    unit: dict[str, Any] = {"domain": [0, 1]}
    x: dict[str, Any] = {"field": "forecast", "type": "quantitative", "title": "mean forecast", "scale": unit}
    tips: list[dict[str, Any]] = [
        _TIP,
        *({"field": name, "type": "quantitative", "format": ".3f"} for name in ("forecast", "observed", "lower", "upper")),
    ]
    tips.append({"field": "n", "type": "quantitative", "title": "forecasts"})
    own: dict[str, Any] = {"x": x, "color": _colour(colours), "tooltip": tips}
    y: dict[str, Any] = {"field": "observed", "type": "quantitative", "title": "share that came true", "scale": unit}
    band = {"mark": {"type": "area", "opacity": 0.16}, "encoding": {**own, "y": {**y, "field": "low"}, "y2": {"field": "high"}}}
    banded = any(row.get("low") is not None for row in rows)
    body = {
        "height": 320,
        "layer": [
            *([band] if banded else []),
            {
                "data": {"values": [{"at": 0}, {"at": 1}]},
                "mark": {"type": "line", "strokeDash": [4, 4], "color": GREY},
                "encoding": {"x": {"field": "at", "type": "quantitative"}, "y": {"field": "at", "type": "quantitative"}},
            },
            {"mark": {"type": "rule"}, "encoding": {**own, "y": {**y, "field": "lower"}, "y2": {"field": "upper"}}},
            {"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": {**own, "y": y}},
            {
                "mark": {"type": "point", "filled": True, "opacity": 1},
                "encoding": {**own, "y": y, "size": {"field": "n", "type": "quantitative", "legend": None, "scale": {"range": [20, 220]}}},
            },
        ],
    }
    bars = "bars are 95 % intervals over clusters"
    shade = "; shaded: where 95 % of the points would lie if the forecasts were calibrated" if banded else ""
    description = f"{title}: the closer to the dashed diagonal, the better calibrated; {bars}{shade}"
    return _chart(title, description, rows, colours, body=body, by="name", first=first)


def scatter(title: str, x: str, y: str, rows: Rows, colours: Mapping[str, str], *, log: bool = False) -> Chart:
    """Points with their names. rows: name, x, y."""
    scale: dict[str, Any] = {"type": "log"} if log else {"zero": False}
    tips: list[dict[str, Any]] = [
        _TIP,
        {"field": "x", "type": "quantitative", "title": x},
        {"field": "y", "type": "quantitative", "title": y, "format": ".4f"},
    ]
    place = {"x": {"field": "x", "type": "quantitative", "title": x, "scale": scale}, "y": _quantity("y", y)}
    body = {
        "height": 300,
        "encoding": {**place, "tooltip": tips},
        "layer": [
            {"mark": {"type": "point", "filled": True, "size": 90, "opacity": 1}, "encoding": {"color": _colour(colours)}},
            {"mark": {"type": "text", "dy": -10, "fontSize": 10, "limit": 140}, "encoding": {"text": {"field": "name"}}},
        ],
    }
    return _chart(title, f"{title}: {y} against {x}, a point per name", rows, colours, body=body)


def matrix(title: str, value: str, rows: Rows, names: Sequence[str], others: Sequence[str], *, middle: float | None = None) -> Chart:
    """Cells by name and other. rows: name, other, value, and note, which is shown on pointing and as a dot where it is not empty."""
    scale: dict[str, Any] = {"scheme": "blues"} if middle is None else {"scheme": "blueorange", "domainMid": middle}
    # Not as an array of names: Vega-Lite would write them into an expression.
    down, across = ({name: place for place, name in enumerate(dict.fromkeys(order))} for order in (names, others))
    rows = [{**row, "row": down.get(row["name"], len(down)), "column": across.get(row["other"], len(across))} for row in rows]
    axes = {
        "x": {"field": "other", "type": "nominal", "sort": {"field": "column", "op": "min"}, "title": None, "axis": {"labelAngle": -60}},
        "y": {"field": "name", "type": "nominal", "sort": {"field": "row", "op": "min"}, "title": None},
    }
    tips: list[dict[str, Any]] = [
        _TIP,
        {"field": "other", "type": "nominal"},
        {"field": "value", "type": "quantitative", "title": value, "format": ".4f"},
    ]
    tips.append({"field": "note", "type": "nominal"})
    body = {
        "height": max(36, 18 * len(names)),
        "encoding": {**axes, "tooltip": tips},
        "layer": [
            {
                "mark": "rect",
                "encoding": {
                    "color": {"field": "value", "type": "quantitative", "title": value, "scale": scale, "legend": {"orient": "top"}}
                },
            },
            {
                "transform": [{"filter": {"field": "mark", "equal": 1}}],
                "mark": {"type": "point", "filled": True, "size": 14, "color": "#14191e", "opacity": 1},
            },
        ],
    }
    return _chart(title, f"{title}: {value} per pair; the table has the numbers", rows, {}, body=body)


def lines(
    title: str,
    x: str,
    y: str,
    rows: Rows,
    colours: Mapping[str, str],
    *,
    first: Sequence[str] = (),
    time: bool = True,
    step: bool = False,
    band: bool = False,
    height: int = 300,
    marks: Sequence[Mapping[str, Any]] = (),
) -> Chart:
    """Curves over time (ISO text) or a number. rows: name, x, y, with `band` also lower and upper. marks: x and text of labelled rules."""
    axis: dict[str, Any] = {"field": "x", "type": "temporal" if time else "quantitative", "title": x}
    if time:
        axis["scale"] = {"type": "utc"}
    mark = {"type": "line", "strokeWidth": 1.8, **({"interpolate": "step-after"} if step else {})}
    tips = [
        _TIP,
        {**axis, **({"format": "%Y-%m-%d %H:%M"} if time else {})},
        {"field": "y", "type": "quantitative", "title": y, "format": ",.4~f"},
    ]
    layers: list[dict[str, Any]] = []
    if band:
        area = {"type": "area", "opacity": 0.22, **({"interpolate": "step-after"} if step else {})}
        layers.append({"mark": area, "encoding": {"y": _quantity("lower", y), "y2": {"field": "upper"}}})
    layers.append({"mark": mark, "encoding": {"y": _quantity("y", y), "tooltip": tips}})
    layers.append(
        {"mark": {"type": "point", "filled": True, "size": 12, "opacity": 0.9}, "encoding": {"y": _quantity("y", y), "tooltip": tips}}
    )
    if marks:
        layers += _rules(axis, marks)
    body = {"height": height, "encoding": {"x": axis, "color": _colour(colours)}, "layer": layers}
    described = "".join(f"; from {row['x']}: {row['text']}" for row in marks)
    return _chart(title, f"{title}: {y} over {x}{described}", rows, colours, body=body, by="name", first=first)


def _rules(axis: Mapping[str, Any], marks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rules across a chart with their texts along them. marks: x, text."""
    own = {"data": {"values": list(marks)}}
    place = {"x": axis, "color": {"value": GREY}, "tooltip": [{"field": "text", "type": "nominal"}, axis]}
    written = {"type": "text", "angle": -90, "align": "right", "baseline": "top", "dx": -4, "dy": 3, "fontSize": 10, "limit": 180}
    return [
        {**own, "mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": place},
        {**own, "mark": written, "encoding": {**place, "y": {"value": 0}, "text": {"field": "text"}}},
    ]


def _stretches(colours: Mapping[str, str], layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What holds from x until `until`, by name."""
    axis: dict[str, Any] = {"field": "x", "type": "temporal", "title": "UTC", "scale": {"type": "utc"}}
    return {"height": 280, "encoding": {"x": axis, "color": _colour(colours)}, "layer": layers}


def _stretch(mark: Mapping[str, Any], y: Mapping[str, Any], *known: str, **more: Any) -> dict[str, Any]:
    """A layer of the stretches of which fields are known."""
    only = [{"filter": {"field": name, "valid": True}} for name in known]
    return {"transform": [*only, *more.pop("then", ())], "mark": mark, "encoding": {"x2": {"field": "until"}, "y": y, **more}}


def quotes(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str]) -> Chart:
    """Best bid and ask as steps with the spread between them, and fills. rows: name, x, until, bid, ask, bid_size, ask_size, fill, way, what.

    A row has either what the book showed from x until `until`, or a fill: its price, bought or sold, and what it was.
    """
    y = "dollars"
    numbers = [{"field": name, "type": "quantitative", "title": name.replace("_", " ")} for name in ("bid", "bid_size", "ask", "ask_size")]
    at = {"field": "x", "type": "temporal", "title": "UTC", "format": "%Y-%m-%d %H:%M:%S", "scale": {"type": "utc"}}
    way = {
        "field": "way",
        "type": "nominal",
        "scale": {"domain": ["bought", "sold"], "range": ["triangle-up", "triangle-down"]},
        "legend": None,
    }
    layers = [
        _stretch({"type": "rect", "opacity": 0.22}, _quantity("bid", y), "bid", "ask", y2={"field": "ask"}, tooltip=[_TIP, at, *numbers]),
        *(
            _stretch({"type": "rule", "strokeWidth": 1.6}, _quantity(side, y), side, tooltip=[_TIP, at, *numbers])
            for side in ("bid", "ask")
        ),
        {
            "transform": [{"filter": {"field": "fill", "valid": True}}],
            "mark": {"type": "point", "filled": True, "size": 44, "opacity": 0.9},
            "encoding": {
                "y": _quantity("fill", y),
                "shape": way,
                "tooltip": [_TIP, at, {"field": "fill", "type": "quantitative"}, {"field": "what", "type": "nominal"}],
            },
        },
    ]
    said = f"{title}: bid and ask in dollars over time with the spread between them, and fills as triangles, up where YES was bought"
    return _chart(title, said, rows, colours, body=_stretches(colours, layers), by="name", first=first)


def depths(title: str, rows: Rows, colours: Mapping[str, str], first: Sequence[str]) -> Chart:
    """Contracts of both sides as steps, bids above zero and asks below. rows: name, x, until, bid_depth, ask_depth."""
    y = {"type": "quantitative", "title": "contracts", "axis": {"labelExpr": "format(abs(datum.value), ',')"}}
    tips = [_TIP, {"field": "x", "type": "temporal", "title": "UTC", "format": "%Y-%m-%d %H:%M:%S", "scale": {"type": "utc"}}]
    tips += [{"field": f"{side}_depth", "type": "quantitative", "title": f"{side}s"} for side in ("bid", "ask")]
    below = [{"calculate": "-datum.ask_depth", "as": "below"}]
    layers = [
        _stretch({"type": "rect", "opacity": 0.7}, {**y, "field": "bid_depth"}, "bid_depth", y2={"datum": 0}, tooltip=tips),
        _stretch({"type": "rect", "opacity": 0.4}, {**y, "field": "below"}, "ask_depth", y2={"datum": 0}, tooltip=tips, then=below),
    ]
    said = f"{title}; contracts over time"
    return _chart(title, said, rows, colours, body=_stretches(colours, layers), by="name", first=first)


def points(title: str, x: str, y: str, rows: Rows, colours: Mapping[str, str], *, line: str = "") -> Chart:
    """Points over time by name; the rows named `line` are drawn as a line. rows: name, x, y, what."""
    axis: dict[str, Any] = {"field": "x", "type": "temporal", "title": x, "scale": {"type": "utc"}}
    tips = [
        _TIP,
        {**axis, "format": "%Y-%m-%d %H:%M:%S"},
        {"field": "y", "type": "quantitative", "title": y},
        {"field": "what", "type": "nominal"},
    ]
    is_line: dict[str, Any] = {"field": "name", "equal": line}
    body = {
        "height": 280,
        "encoding": {"x": axis, "y": _quantity("y", y), "color": _colour(colours)},
        "layer": [
            {"transform": [{"filter": is_line}], "mark": {"type": "line", "strokeWidth": 1, "interpolate": "step-after"}},
            {
                "transform": [{"filter": {"not": is_line}}],
                "mark": {"type": "point", "filled": True, "size": 40, "opacity": 0.9},
                "encoding": {"tooltip": tips},
            },
        ],
    }
    return _chart(title, f"{title}: {y} over {x}", rows, colours, body=body, by="name")
