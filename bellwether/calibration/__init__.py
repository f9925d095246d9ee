"""Calibration: proper scores, calibration errors, reliability and their intervals for any forecasts with outcomes.

    from bellwether.calibration import compare, evaluate

    scores = evaluate(p, y, clusters=series)
    scores["brier"]        # Estimate(value=0.197, lower=0.171, upper=0.225, replicates=10000)
    scores.frame()         # every metric as a Polars frame

    murphy(p, y), corp(p, y), yates(p, y)   # decompositions of the Brier score
    smooth_ece(p, y)                        # calibration error without bins
    corp_curve(p, y)                        # reliability curve with its consistency band, as a Polars frame

    comparison = compare({"a": p_a, "b": p_b}, y, clusters=series)
    comparison.pairs       # differences of Brier scores with their tests
    comparison.ranking     # shares ranked first, confidence set and significance groups

`bellwether.kalshibench` reproduces published KalshiBench numbers, including their defects.
"""

from __future__ import annotations

from bellwether.calibration.comparison import Comparison, compare
from bellwether.calibration.consistency import corp_curve, reliability_bands
from bellwether.calibration.decomposition import Corp, Murphy, Yates, corp, murphy, yates
from bellwether.calibration.estimates import Estimate, Scores
from bellwether.calibration.evaluation import evaluate
from bellwether.calibration.inference import Inference
from bellwether.calibration.metrics import METRICS, Better, Metric
from bellwether.calibration.reliability import reliability_bins
from bellwether.calibration.smooth_calibration import smooth_ece

__all__ = [
    "METRICS",
    "Better",
    "Comparison",
    "Corp",
    "Estimate",
    "Inference",
    "Metric",
    "Murphy",
    "Scores",
    "Yates",
    "compare",
    "corp",
    "corp_curve",
    "evaluate",
    "murphy",
    "reliability_bands",
    "reliability_bins",
    "smooth_ece",
    "yates",
]
