"""Figures are tested by themselves; where files are looked at they are bytes."""

from __future__ import annotations

import pytest

from bellwether.report import plots


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure of a report is a few bytes."""
    drawn = ("score_comparison", "coverage_bars", "brier_over_time", "score_by_distance", "reliability_diagram", "confidence_histograms")
    for name in drawn:
        monkeypatch.setattr(plots, name, lambda *_, **__: b"\x89PNG")
