"""Figures are tested by themselves; where files are looked at they are bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
from matplotlib.figure import Figure

from bellwether.report import calibration_pictures, plots


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure of a report is a few bytes."""
    drawn = ("score_comparison", "coverage_bars", "brier_over_time", "score_by_distance", "reliability_diagram", "confidence_histograms")
    for name in drawn:
        monkeypatch.setattr(plots, name, lambda *_, **__: b"\x89PNG")
    monkeypatch.setattr(calibration_pictures, "_kept", OrderedDict())


@pytest.fixture
def drawn_texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every text that a figure draws."""
    drawn: list[str] = []
    original = Figure.draw

    def draw(self: Figure, renderer: Any) -> None:
        drawn.extend(artist.get_text() for artist in self.findobj(lambda artist: hasattr(artist, "get_parse_math")))  # type: ignore[attr-defined]
        original(self, renderer)

    monkeypatch.setattr(Figure, "draw", draw)
    yield drawn
