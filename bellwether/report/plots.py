"""Figures of the benchmark as PNG bytes, each below 100 kB and the same each time; frames of the benchmark's tables in."""

from __future__ import annotations

from bellwether.report.plots_canvas import MOST_BYTES, MOST_LINES, MOST_PANELS
from bellwether.report.plots_frames import calibration_overlays
from bellwether.report.plots_reliability import confidence_histograms, reliability_diagram
from bellwether.report.plots_scores import coverage_bars, score_comparison
from bellwether.report.plots_series import brier_over_time, score_by_distance

__all__ = [
    "MOST_BYTES",
    "MOST_LINES",
    "MOST_PANELS",
    "brier_over_time",
    "calibration_overlays",
    "confidence_histograms",
    "coverage_bars",
    "reliability_diagram",
    "score_by_distance",
    "score_comparison",
]
