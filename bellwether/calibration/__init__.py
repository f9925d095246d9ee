"""Calibration: proper scores, calibration errors, reliability and their intervals, for anyone with forecasts and outcomes.

    from bellwether.calibration import compare, evaluate

    scores = evaluate(p, y, clusters=series)
    scores["brier"]        # Estimate(value=0.197, lower=0.171, upper=0.225, replicates=10000)
    scores.frame()         # every metric as a Polars frame

    comparison = compare({"a": p_a, "b": p_b}, y, clusters=series)
    comparison.pairs       # differences of Brier scores with their tests
    comparison.ranking     # who is best, and how surely

The default rules are strict; `bellwether.calibration.compat` reproduces published KalshiBench numbers, defects included.
"""

from __future__ import annotations

from bellwether.calibration.bootstrap import Bootstrap
from bellwether.calibration.comparison import Comparison, compare
from bellwether.calibration.evaluation import Estimate, Scores, evaluate
from bellwether.calibration.metrics import METRICS, Better, Metric
from bellwether.calibration.reliability import reliability_bins

__all__ = ["METRICS", "Better", "Bootstrap", "Comparison", "Estimate", "Metric", "Scores", "compare", "evaluate", "reliability_bins"]
