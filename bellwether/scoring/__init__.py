"""Scoring of forecasts in files, frames or columns: every metric with its interval.

    from bellwether.scoring import score

    print(score("forecasts.csv"))

The result contains Polars frames (`scores`, `pairs`, `ranking`, `reliability`, `groups`, `forecasts`), and writes a page. `plot_reliability`,
`plot_scores` and `plot_differences` return Altair charts. docs/scoring.md describes the accepted files.
"""

from __future__ import annotations

from bellwether.scoring.plotting import plot_differences, plot_reliability, plot_scores
from bellwether.scoring.score import ScoreResult, score

__all__ = ["ScoreResult", "plot_differences", "plot_reliability", "plot_scores", "score"]
