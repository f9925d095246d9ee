"""Altair charts of reliability, scores and paired differences, and their PNG files.

from bellwether.scoring import plot_reliability

chart = plot_reliability(p, y, clusters=series, label="mine") + plot_reliability(q, y, label="other")
chart.save("reliability.png")
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from bellwether.calibration import METRICS, Better, corp_curve, reliability_bands, reliability_bins
from bellwether.calibration.clusters import Labels
from bellwether.calibration.consistency import bands_and_curve
from bellwether.calibration.forecasts import BINS
from bellwether.calibration.inference import Inference
from bellwether.errors import ScoringError
from bellwether.files import atomic_file
from bellwether.scoring.forecast_sheet import build_arrays
from bellwether.scoring.result import LOSSES, format_metric

if TYPE_CHECKING:
    import altair as alt

    from bellwether.scoring.result import Progress, ScoreTables


def plot_reliability(
    p: ArrayLike,
    y: ArrayLike,
    clusters: Labels | None = None,
    *,
    weights: ArrayLike | None = None,
    bins: int | ArrayLike = BINS,
    level: float = Inference().level,
    label: str | None = None,
    band: bool = True,
    curve: bool = False,
) -> alt.LayerChart:
    """Draw the reliability diagram of forecasts `p` of yes against outcomes `y` as an Altair chart; `+` layers charts of several forecasters.

    Points are the observed frequency of yes per bin, with intervals if `clusters` are given. band: add the range of a calibrated forecaster's points.
    curve: draw the CORP curve instead of points. The other parameters are as in `evaluate`. Raises `ScoringError` for forecasts that cannot be
    scored.
    """
    from bellwether.figures import reliability
    from bellwether.figures.canvas import chart_rows, fill_chart

    if not np.size(p):
        raise ScoringError("plotting reliability: there are no rows; give forecasts")
    name = pl.lit("forecasts" if label is None else label).alias("name")
    if curve:
        ends = ["lower", "upper"] if band else []
        frame = corp_curve(p, y, clusters, weights=weights, level=level).select(name, "forecast", "recalibrated", *ends)
        return fill_chart(reliability.curves((), banded=band), chart_rows(frame)).properties(width=380, height=380)
    rows = reliability_bins(p, y, clusters, weights=weights, bins=bins, level=level).with_columns(name)
    if band:
        bands = reliability_bands(p, clusters, weights=weights, bins=bins, level=level)
        rows = rows.join(bands.select("bin", low="lower", high="upper"), on="bin", how="left", maintain_order="left")
    return fill_chart(reliability.diagram((), banded=band), reliability.diagram_rows(rows, "name")).properties(width=380, height=380)


def plot_scores(result: ScoreTables, metric: str = "brier") -> alt.LayerChart:
    """Draw a metric of every forecaster with its interval, best first, as an Altair chart. Raises `ScoringError` for an unknown metric."""
    from bellwether.figures.intervals import interval_list

    if metric not in METRICS:
        raise ScoringError(f"plotting scores: there is no metric {metric!r}; give one of {', '.join(METRICS)}")
    better = METRICS[metric].better
    rows = result.scores.filter((pl.col("metric") == metric) & pl.col("value").is_not_null())
    rows = rows.sort("value", descending=better is Better.HIGHER, maintain_order=True).select("value", "lower", "upper", name="forecaster")
    direction = {Better.LOWER: "; lower is better", Better.HIGHER: "; higher is better", Better.NEITHER: ""}[better]
    return interval_list(rows.to_dicts(), f"{format_metric(metric)} and {100 * result.plan.level:.4g} % interval{direction}")


def plot_differences(result: ScoreTables) -> alt.LayerChart:
    """Draw the paired differences of all pairs of forecasters with their intervals as an Altair chart."""
    from bellwether.figures.intervals import differences

    axis = f"difference of {LOSSES[result.loss]} and {100 * result.plan.level:.4g} % interval; below 0 the first is better"
    return differences(result.pairs, axis)


def write_figures(result: ScoreTables, folder: Path, progress: Progress | None = None) -> list[Path]:
    """Write reliability.png, scores.png and, for several forecasters, differences.png, each atomically. Returns their paths."""
    from bellwether.figures.canvas import FILE_BYTES, add_title, png
    from bellwether.figures.reliability import reliability_diagram

    bands, curves = bands_and_curves(result, progress)
    charts = {
        "reliability.png": reliability_diagram(result.reliability, "Reliability", bands=bands, curves=curves, level=result.plan.level),
        "scores.png": add_title(plot_scores(result), "Scores"),
    }
    if result.pairs["difference"].count():
        charts["differences.png"] = add_title(plot_differences(result), "Paired differences")
    for name, chart in charts.items():
        picture = png(chart, FILE_BYTES)
        with atomic_file(folder / name) as draft:
            draft.write_bytes(picture)
    return [folder / name for name in charts]


_BANDS: WeakKeyDictionary[ScoreTables, tuple[pl.DataFrame, pl.DataFrame]] = WeakKeyDictionary()


def bands_and_curves(result: ScoreTables, progress: Progress | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compute two frames for all forecasters: consistency bands (forecaster, bin, lower, upper) and CORP curves (forecaster and the columns
    of `corp_curve`).

    They are cached for each result, so that figures and page agree.
    """
    if result not in _BANDS:
        _BANDS[result] = _compute_bands(result, progress or (lambda done, of, what: None))
    return _BANDS[result]


def _compute_bands(result: ScoreTables, report: Progress) -> tuple[pl.DataFrame, pl.DataFrame]:
    bands, curves = [], []
    for finished, name in enumerate(result.forecasters):
        report(finished, len(result.forecasters), f"consistency bands of {name}")
        forecasts, clusters = build_arrays(result.forecasts.filter(pl.col("forecaster") == name))
        bins, curve = bands_and_curve(forecasts, clusters, result.bins, level=result.plan.level, seed=result.plan.seed)
        forecaster = pl.lit(name).alias("forecaster")
        bands.append(bins.select(forecaster, "bin", "lower", "upper").drop_nulls())
        curves.append(curve.select(forecaster, pl.all()))
    report(len(result.forecasters), len(result.forecasters), "")
    return pl.concat(bands), pl.concat(curves)
