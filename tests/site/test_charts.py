"""Colours of the charts by the formulas of WCAG 2.2 (contrast) and CIE 1976 (distance in L*a*b*)."""

from __future__ import annotations

import re
from importlib import resources
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bellwether.figures.canvas import STYLES, round_of
from bellwether.figures.equity import lines
from bellwether.figures.intervals import intervals
from bellwether.pages.charts import GREY, PALETTE, Colours

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


def test_forty_eight_names_have_different_styles_and_keep_them() -> None:
    colours = Colours({f"name {n}": n for n in range(40)})
    first = colours.of([f"name {n}" for n in range(40)])
    colours.add(["name 7", *(f"a new name {n}" for n in range(8))])
    assert len(set(colours.of([*first, *(f"a new name {n}" for n in range(8))]).values())) == len(set(STYLES)) == 48
    assert colours.of(list(first)) == first and colours.of(["unknown"]) == {"unknown": GREY}
    assert [round_of(first[f"name {n}"]) for n in (0, 15, 16, 31, 32)] == [0, 0, 1, 1, 2]
    assert max(_distance(one, PALETTE[place % len(PALETTE)]) for place, one in enumerate(STYLES)) < 2


def test_a_line_of_a_later_round_is_dashed_and_its_point_has_another_shape() -> None:
    names = (("a", STYLES[0]), ("b", STYLES[16]), ("c", STYLES[32]))
    drawn = lines("t", "y", names).to_dict(validate=False)["layer"][0]["encoding"]["strokeDash"]["scale"]
    assert drawn == {"domain": ["a", "b", "c"], "range": [[1, 0], [6, 3], [2, 2]]}
    dots = [
        layer["encoding"]["shape"]["scale"]["range"]
        for layer in intervals("axis", names).to_dict(validate=False)["layer"]
        if "shape" in layer["encoding"]
    ]
    assert dots == [["circle", "square", "triangle-up"]]
    assert "strokeDash" not in str(lines("t", "y", names[:1]).to_dict(validate=False))
