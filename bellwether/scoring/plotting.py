"""Altair charts of reliability, scores and paired differences.

from bellwether.scoring import plot_reliability

chart = plot_reliability(p, y, clusters=series, label="mine") + plot_reliability(q, y, label="other")
chart.save("reliability.png")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from bellwether.calibration import METRICS, Better, reliability_bands, reliability_bins
from bellwether.calibration.clusters import Labels
from bellwether.errors import ScoringError
from bellwether.scoring.result import ScoreTables
from bellwether.scoring.text_tables import LOSSES, format_metric

if TYPE_CHECKING:
    import altair as alt


def plot_reliability(
    p: ArrayLike, y: ArrayLike, clusters: Labels | None = None, *, weights: ArrayLike | None = None, label: str = "forecasts"
) -> alt.LayerChart:
    """Draw the reliability diagram of forecasts `p` of yes against outcomes `y` as an Altair chart; `+` layers charts of several forecasters.

    Points are the observed frequency of yes per bin, with intervals if `clusters` are given, and the range of a calibrated forecaster's points. The
    parameters are those of `evaluate`. Raises `ScoringError` for forecasts that cannot be scored.
    """
    from bellwether.figures import reliability
    from bellwether.figures.canvas import fill_chart

    if not np.size(p):
        raise ScoringError("plotting reliability: there are no rows; give forecasts")
    bands = reliability_bands(p, clusters, weights=weights).select("bin", low="lower", high="upper")
    rows = reliability_bins(p, y, clusters, weights=weights).join(bands, on="bin", how="left", maintain_order="left")
    named = rows.with_columns(name=pl.lit(label))
    return fill_chart(reliability.diagram((), banded=True), reliability.diagram_rows(named, "name")).properties(width=380, height=380)


def plot_scores(result: ScoreTables, metric: str = "brier") -> alt.LayerChart:
    """Draw a metric of every forecaster with its interval, best first, as an Altair chart. Raises `ScoringError` for an unknown metric."""
    if metric not in METRICS:
        raise ScoringError(f"plotting scores: there is no metric {metric!r}; give one of {', '.join(METRICS)}")
    better = METRICS[metric].better
    rows = result.scores.filter((pl.col("metric") == metric) & pl.col("value").is_not_null())
    rows = rows.sort("value", descending=better is Better.HIGHER, maintain_order=True).select("value", "lower", "upper", name="forecaster")
    direction = {Better.LOWER: "; lower is better", Better.HIGHER: "; higher is better", Better.NEITHER: ""}[better]
    axis = f"{format_metric(metric)} and {100 * result.plan.level:.4g} % interval{direction}"
    return _draw_intervals(axis, rows)


def plot_differences(result: ScoreTables) -> alt.LayerChart:
    """Draw the paired differences of all pairs of forecasters with their intervals as an Altair chart."""
    axis = f"difference of {LOSSES[result.loss]} and {100 * result.plan.level:.4g} % interval; below 0 the first is better"
    known = result.pairs.filter(pl.col("difference").is_not_null())
    rows = known.select("lower", "upper", name=pl.format("{} – {}", "forecaster", "other"), value="difference")
    return _draw_intervals(axis, rows, reference=0.0)


def _draw_intervals(axis: str, rows: pl.DataFrame, **options: Any) -> alt.LayerChart:
    """Draw values with intervals. axis: title of the values. rows: name, value, lower, upper."""
    from bellwether.figures.canvas import PALETTE, fill_chart
    from bellwether.figures.intervals import intervals

    return fill_chart(intervals(axis, tuple((name, PALETTE[0]) for name in rows["name"]), **options).properties(width=380), rows.to_dicts())
