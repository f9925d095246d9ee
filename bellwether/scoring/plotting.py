"""Plots on a matplotlib axis: reliability, scores with intervals, and paired differences.

import matplotlib.pyplot as plt
from bellwether.scoring import plot_reliability

ax = plot_reliability(p, y, clusters=series, label="mine")
plt.show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from bellwether.calibration import METRICS, Better, corp_curve, reliability_bands, reliability_bins
from bellwether.calibration.binning import BINS
from bellwether.calibration.clusters import Labels
from bellwether.calibration.inference import Inference
from bellwether.errors import ScoringError
from bellwether.pages import GREY
from bellwether.scoring.sheet import floats
from bellwether.scoring.words import LOSSES, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bellwether.scoring.score import ScoreResult


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
    ax: Axes | None = None,
) -> Axes:
    """Draw a reliability diagram of forecasts `p` of yes against outcomes `y`; call it again with `ax` to lay another forecaster over it.

    Points are the observed frequency of yes per bin, with intervals where `clusters` are given. `band`: where the points of a calibrated forecaster
    would lie. `curve`: the CORP curve instead of points. The other parameters are those of `evaluate`. Returns the axis, a new one where none
    is given. Raises `ScoringError` for what cannot be scored.
    """
    axes = _axes(ax)
    first = not axes.lines
    if first:
        axes.plot((0, 1), (0, 1), color=GREY, linewidth=1, linestyle="--", label="perfect calibration", zorder=1)
    (handle,) = axes.plot([], [])
    colour = handle.get_color()
    handle.remove()
    if curve:
        drawn = corp_curve(p, y, clusters, weights=weights, level=level)
        axes.plot(drawn["forecast"], drawn["recalibrated"], color=colour, label=label, drawstyle="steps-mid", zorder=3)
        if band:
            axes.fill_between(drawn["forecast"], drawn["lower"], drawn["upper"], color=colour, alpha=0.15, linewidth=0, zorder=0.5)
    else:
        rows = reliability_bins(p, y, clusters, weights=weights, bins=bins, level=level).filter(pl.col("n") > 0)
        forecast, observed = rows["mean_forecast"].to_numpy(), rows["yes_rate"].to_numpy()
        ends = np.array([observed - floats(rows["yes_rate_lower"]), floats(rows["yes_rate_upper"]) - observed])
        axes.errorbar(
            forecast, observed, yerr=np.nan_to_num(ends), fmt="o-", color=colour, markersize=4.5, linewidth=1, capsize=2, label=label
        )
        if band:
            where = reliability_bands(p, clusters, weights=weights, bins=bins, level=level).drop_nulls("mean_forecast")
            axes.fill_between(where["mean_forecast"], where["lower"], where["upper"], color=colour, alpha=0.15, linewidth=0, zorder=0.5)
    axes.set(
        xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="forecast probability of yes", ylabel="observed frequency of yes", aspect="equal"
    )
    _legend(axes)
    return axes


def plot_scores(result: ScoreResult, metric: str = "brier", *, ax: Axes | None = None) -> Axes:
    """Draw a metric of every forecaster with its interval, best first. Returns the axis, a new one where none is given.

    Raises `ScoringError` for an unknown metric.
    """
    if metric not in METRICS:
        raise ScoringError(f"plotting scores: there is no metric {metric!r}; give one of {', '.join(METRICS)}")
    rows = result.scores.filter((pl.col("metric") == metric) & pl.col("value").is_not_null())
    rows = rows.sort("value", descending=METRICS[metric].better is Better.HIGHER, maintain_order=True)
    axes = _axes(ax)
    _intervals(axes, rows["forecaster"].to_list(), rows["value"], rows["lower"], rows["upper"])
    better = {Better.LOWER: "; lower is better", Better.HIGHER: "; higher is better", Better.NEITHER: ""}[METRICS[metric].better]
    axes.set_xlabel(f"{words(metric)} and {100 * result.plan.level:.4g} % interval{better}")
    return axes


def plot_differences(result: ScoreResult, *, ax: Axes | None = None) -> Axes:
    """Draw the paired difference of every pair of forecasters with its interval. Returns the axis, a new one where none is given."""
    rows = result.pairs.filter(pl.col("difference").is_not_null())
    axes = _axes(ax)
    names = [f"{first} – {second}" for first, second in rows.select("forecaster", "other").iter_rows()]
    _intervals(axes, names, rows["difference"], rows["lower"], rows["upper"])
    axes.axvline(0, color=GREY, linewidth=1, linestyle="--", zorder=1)
    axes.set_xlabel(f"difference of {LOSSES[result.loss]} and {100 * result.plan.level:.4g} % interval; below 0 the first is better")
    return axes


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _intervals(axes: Axes, names: list[str], value: pl.Series, lower: pl.Series, upper: pl.Series) -> None:
    position = np.arange(len(names))
    centre = floats(value)
    ends = np.nan_to_num(np.array([centre - floats(lower), floats(upper) - centre]))
    axes.errorbar(centre, position, xerr=ends, fmt="o", markersize=5, capsize=3)
    axes.set_yticks(position, names, parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.3)


def _legend(axes: Axes) -> None:
    legend: Any = axes.legend(loc="upper left", fontsize="small", frameon=False)
    for entry in legend.get_texts():
        entry.set_parse_math(False)
