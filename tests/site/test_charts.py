"""The colours of the charts, by the formulas of WCAG 2.2 (contrast) and CIE 1976 (distance in L*a*b*)."""

from __future__ import annotations

import re
from importlib import resources
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

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


def test_names_of_an_area_have_different_colours_and_keep_them() -> None:
    colours = Colours()
    forecasters, families = [f"forecaster {n}" for n in range(14)], ["forecaster 3", *(f"family {n}" for n in range(11))]
    colours.add(forecasters)
    first = colours.of(forecasters)
    colours.add(families)
    assert len(set(first.values())) == 14
    assert len(set(colours.of(families).values())) == 12
    assert colours.of(forecasters) == first
