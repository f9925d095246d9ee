"""Scores of anyone's forecasts in two lines: from files, frames or columns to every metric with its interval.

    from bellwether.scoring import score

    print(score("forecasts.csv"))

The result holds Polars frames (`scores`, `pairs`, `ranking`, `reliability`, `groups`, `forecasts`), and writes figures and a page. `plot_reliability`,
`plot_scores` and `plot_differences` return Altair charts. docs/scoring.md explains the files that are understood.
"""

from __future__ import annotations

from bellwether.scoring.plotting import plot_differences, plot_reliability, plot_scores
from bellwether.scoring.score import ScoreResult, score

__all__ = ["ScoreResult", "plot_differences", "plot_reliability", "plot_scores", "score"]
