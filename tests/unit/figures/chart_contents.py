"""Contents of charts: texts of the SVG, rows of data, and the PNG."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import vl_convert

from bellwether.figures.canvas import MOST_BYTES, png


def chart_texts(chart: Any) -> list[str]:
    """Return every text of the SVG."""
    root = ElementTree.fromstring(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))
    return ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]


def chart_rows(chart: Any) -> list[dict[str, Any]]:
    """Return every row of data of a chart and its parts."""
    spec = chart.to_dict()
    return [row for values in spec.get("datasets", {}).values() for row in values]


def chart_strings(value: Any) -> Iterator[str]:
    """Return every text of a specification outside its data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            if key != "datasets":
                yield from chart_strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from chart_strings(one)


def chart_png(chart: Any) -> bytes:
    """Return the PNG, which must be small."""
    drawn = png(chart)
    assert drawn.startswith(b"\x89PNG") and drawn.endswith(b"IEND\xaeB`\x82")
    assert len(drawn) < MOST_BYTES
    return drawn
