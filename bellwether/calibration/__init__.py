"""Calibration: proper scores, calibration errors, reliability and their intervals for any forecasts with outcomes.

    from bellwether.calibration import compare, evaluate

    scores = evaluate(p, y, clusters=series)
    scores["brier"]        # Estimate(value=0.197, lower=0.171, upper=0.225)
    scores.frame()         # every metric as a Polars frame
    reliability_bins(p, y, clusters=series)   # reliability diagram with intervals, as a Polars frame
    corp_curve(p, y)       # reliability curve with its consistency band, as a Polars frame

    comparison = compare({"a": p_a, "b": p_b}, y, clusters=series)
    comparison.pairs       # differences of Brier scores with their tests
    comparison.ranking     # confidence set and significance groups

`bellwether.kalshibench` reproduces published KalshiBench numbers, including their defects.
"""

from __future__ import annotations

from bellwether.calibration.bootstrap import Inference
from bellwether.calibration.comparison import Comparison, compare
from bellwether.calibration.evaluation import Estimate, Scores, evaluate
from bellwether.calibration.metrics import METRICS, Better, Metric
from bellwether.calibration.reliability import corp_curve, reliability_bands, reliability_bins

__all__ = [
    "METRICS",
    "Better",
    "Comparison",
    "Estimate",
    "Inference",
    "Metric",
    "Scores",
    "compare",
    "corp_curve",
    "evaluate",
    "reliability_bands",
    "reliability_bins",
]
