"""Colours of the charts by the formulas of WCAG 2.2 (contrast) and CIE 1976 (distance in L*a*b*)."""

from __future__ import annotations

import json
import re
from importlib import resources
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from bellwether.pages import charts
from bellwether.pages.charts import GREY, PALETTE, place_labels
from bellwether.pages.values import visible_range

_TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
_WHITE = np.array([0.95047, 1.0, 1.08883])


def _xyz(colour: str) -> NDArray[np.float64]:
    encoded = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return _TO_XYZ @ np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((float(_xyz(one)[1]), float(_xyz(other)[1])))
    return (lighter + 0.05) / (darker + 0.05)


def _distance(one: str, other: str) -> float:
    def lab(colour: str) -> NDArray[np.float64]:
        part = _xyz(colour) / _WHITE
        x, y, z = np.where(part > (6 / 29) ** 3, np.cbrt(part), part * (29 / 6) ** 2 / 3 + 4 / 29)
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    return float(np.linalg.norm(lab(one) - lab(other)))


def test_colours_of_names_stand_out_from_both_papers_and_from_each_other() -> None:
    papers = re.findall(r"--paper: (#[0-9a-f]{6})", resources.files("bellwether.pages").joinpath("static/site.css").read_text())
    assert len(papers) >= 2 and len(set(PALETTE)) == 16
    assert min(_contrast(colour, paper) for colour in PALETTE for paper in papers) >= 3
    assert min(_distance(*pair) for pair in combinations((*PALETTE, GREY), 2)) >= 20


def test_an_axis_cuts_only_intervals_far_longer_than_the_spread_of_the_values() -> None:
    rows = [{"name": name, "value": value, "lower": value - 1, "upper": value + 1} for name, value in (("a", 0.0), ("b", 1.0))]
    assert "domain" not in json.dumps(charts.intervals("t", "x", rows, {}).spec["layer"][1]["encoding"]["x"])
    rows[0]["upper"] = 100.0
    chart = charts.intervals("t", "x", rows, {})
    assert [-1.0, 2.0] in [layer["encoding"]["x"]["scale"].get("domain") for layer in chart.spec["layer"] if layer["mark"].get("clip")]
    assert chart.description.endswith("longer bars are cut")
    assert not charts.intervals("t", "x", [], {}).rows


def test_points_of_a_scatter_chart_are_labelled_and_the_frontier_is_marked() -> None:
    places = {"a": (0.001, 0.3), "b": (0.0011, 0.299), "c": (0.1, 0.2), "d": (0.2, 0.5)}
    chart = charts.scatter("t", "cost", "score", [{"name": name, "x": x, "y": y} for name, (x, y) in places.items()], {}, log=True)
    assert {row["name"]: row["label"] for row in chart.rows} == {name: name for name in places}
    assert [row["frontier"] for row in chart.rows] == [0.3, 0.299, 0.2, None]
    assert len({row["align"] for row in chart.rows if row["name"] in "ab"}) == 2
    crowd = place_labels([{"name": f"name-{place}", "x": 1.0, "y": 0.1} for place in range(9)], (0.0, 1.0))
    assert 0 < sum(bool(row["label"]) for row in crowd) <= 4


def test_an_outlier_does_not_flatten_the_other_points() -> None:
    rows = [{"name": str(place), "x": float(place), "y": y} for place, y in enumerate([0.1, 0.12, 0.15, 0.2, 0.22, -26.7])]
    chart = charts.scatter("t", "x", "score", rows, {})
    (domain,) = {tuple(layer["encoding"]["y"]["scale"]["domain"]) for layer in chart.spec["layer"]}
    assert domain == pytest.approx((0.094, 0.226)) and chart.title.endswith("outliers are drawn at the edge")
    alone = charts.scatter("t", "x", "score", [{"name": "only", "x": 1.0, "y": 0.2}], {})
    assert all(layer["encoding"]["y"]["scale"]["domain"] == pytest.approx([0.178, 0.222]) for layer in alone.spec["layer"])
    assert visible_range([0.1, 0.2, 0.3]) == (0.1, 0.3, False) and visible_range([]) == (0.0, 1.0, False)


def test_colours_of_a_page_are_distinct() -> None:
    colours = charts.Colours({"first": 0, "same": 16, "second": 1})
    assert colours.of(["first", "same", "second"]) == {"first": PALETTE[0], "second": PALETTE[1], "same": PALETTE[2]}
    many = charts.Colours({str(place): place for place in range(40)})
    assert len(set(many.of([str(place) for place in range(40)]).values())) == 40
