"""Figures of calibration: reliability diagrams with counts and bands, and histograms of confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bellwether.report.plots_canvas import BAND, BLUE, GREY, INK, MOST_PANELS, ORANGE, PALE, Panels, dress, empty, short
from bellwether.report.plots_frames import answered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Confidence lies in [0.5, 1]: ten bins of 5 %, the last one closed.
_CONFIDENCE_BINS = 10


def reliability_diagram(
    reliability: pl.DataFrame, title: str, *, bands: pl.DataFrame | None = None, curves: pl.DataFrame | None = None
) -> bytes:
    """Observed frequency of yes against the forecast, one panel per forecaster, as a PNG below 100 kB.

    `reliability` holds rows of benchmark/reliability. Each point has its interval, a bar shows the gap to perfect calibration, and
    the counts of the bins stand below. `bands` (forecaster, bin, lower, upper) is where a calibrated forecaster's points would lie 95 times of
    100; `curves` (forecaster, forecast, recalibrated) is a calibration curve that needs no bins. `calibration_overlays` makes both. `title` and the names
    of forecasters are drawn as they are, without markup.
    """
    names = reliability["forecaster"].unique().sort().to_list()
    sheet = Panels(names, title, alone=(5.4, 6.5), each=(3.1, 3.75))
    first = None
    for name, cell, left, bottom in sheet.cells():
        panel = cell.subgridspec(2, 1, height_ratios=(4, 1), hspace=0.08)
        diagram = sheet.figure.add_subplot(panel[0])
        counts = sheet.figure.add_subplot(panel[1], sharex=diagram)
        first = first or diagram
        bins = reliability.filter((pl.col("forecaster") == name) & (pl.col("n") > 0)).sort("bin")
        if bands is not None:
            _bands(diagram, bins.join(bands.filter(pl.col("forecaster") == name), on="bin", suffix="_band").sort("bin"))
        _diagram(diagram, bins)
        if curves is not None:
            curve = curves.filter(pl.col("forecaster") == name)
            diagram.plot(curve["forecast"], curve["recalibrated"], color=INK, linewidth=1.2, label="isotonic curve (CORP)", zorder=2.5)
        _counts(counts, bins)
        sheet.head(diagram, name)
        if left:
            diagram.set_ylabel("observed frequency of yes", fontsize=8, color=INK)
            counts.set_ylabel("count", fontsize=8, color=INK)
        if bottom:
            counts.set_xlabel("forecast probability of yes", fontsize=8, color=INK)
    if first is not None:
        sheet.key(first)
    sheet.note(len(names) - MOST_PANELS)
    return sheet.png()


def confidence_histograms(forecasts: pl.DataFrame, questions: pl.DataFrame, title: str) -> bytes:
    """How often each forecaster was right at each confidence, one panel per forecaster, as a PNG below 100 kB.

    `forecasts` and `questions` are rows of benchmark/forecasts and benchmark/questions of one release. Confidence is max(p, 1 - p);
    a stack is the count of right and wrong decisions, and its number the share of right ones in percent.
    """
    rows = answered(forecasts, questions).with_columns(confidence=pl.max_horizontal("p", 1 - pl.col("p")))
    names = forecasts["forecaster"].unique().sort().to_list()
    sheet = Panels(names, title, alone=(5.4, 4.6), each=(3.1, 2.6))
    first = None
    for name, cell, left, bottom in sheet.cells(hspace=0.42):
        axes = sheet.figure.add_subplot(cell)
        first = first or axes
        _stacks(axes, rows.filter(pl.col("forecaster") == name))
        sheet.head(axes, name)
        if left:
            axes.set_ylabel("forecasts", fontsize=8, color=INK)
        if bottom:
            axes.set_xlabel("confidence in the decision", fontsize=8, color=INK)
    if first is not None:
        sheet.key(first)
    sheet.note(len(names) - MOST_PANELS)
    return sheet.png()


def _bands(axes: Axes, bins: pl.DataFrame) -> None:
    middle, lower, upper = (bins[name].to_numpy() for name in ("mean_forecast", "lower", "upper"))
    axes.bar(
        middle,
        upper - lower,
        bottom=lower,
        width=0.06,
        color=BAND,
        label="where 95 % of calibrated ones would lie",
        zorder=0.5,
    )


def _diagram(axes: Axes, bins: pl.DataFrame) -> None:
    axes.plot((0, 1), (0, 1), color=GREY, linewidth=1, linestyle=(0, (4, 3)), label="perfect calibration", zorder=1)
    forecast, observed = bins["mean_forecast"].to_numpy(), bins["yes_rate"].to_numpy()
    axes.vlines(forecast, forecast, observed, color=ORANGE, linewidth=5, alpha=0.75, label="gap to perfect calibration", zorder=2)
    errors = (observed - bins["yes_rate_lower"].to_numpy(), bins["yes_rate_upper"].to_numpy() - observed)
    axes.errorbar(
        forecast,
        observed,
        yerr=errors,
        fmt="o",
        color=BLUE,
        markersize=4.5,
        elinewidth=1.1,
        capsize=2.5,
        label="observed, 95 % interval",
        zorder=3,
    )
    if bins.is_empty():
        empty(axes, "no forecast")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xticks([tick / 5 for tick in range(6)])
    axes.set_yticks([tick / 5 for tick in range(6)])
    axes.tick_params(labelbottom=False)
    dress(axes)


def _counts(axes: Axes, bins: pl.DataFrame) -> None:
    counts = bins["n"].to_list()
    middle = [(low + high) / 2 for low, high in zip(bins["lower_edge"], bins["upper_edge"], strict=True)]
    axes.bar(middle, counts, width=0.092, color=PALE, zorder=2)
    for x, count in zip(middle, counts, strict=True):
        axes.text(x, count, short(count), ha="center", va="bottom", fontsize=6.5, color=GREY)
    axes.set_ylim(0, max(counts, default=1) * 1.45)
    axes.set_yticks([])
    dress(axes)


def _stacks(axes: Axes, rows: pl.DataFrame) -> None:
    width = 0.5 / _CONFIDENCE_BINS
    position = np.minimum(((rows["confidence"].to_numpy() - 0.5) / width + 1e-9).astype(int), _CONFIDENCE_BINS - 1)
    right, wrong = (np.bincount(position[rows["right"].to_numpy() == is_right], minlength=_CONFIDENCE_BINS) for is_right in (True, False))
    middle = 0.5 + width * (np.arange(_CONFIDENCE_BINS) + 0.5)
    axes.bar(middle, right, width=0.9 * width, color=BLUE, label="right", zorder=2)
    axes.bar(middle, wrong, width=0.9 * width, bottom=right, color=ORANGE, label="wrong", zorder=2)
    for x, good, bad in zip(middle, right, wrong, strict=True):
        if good + bad:
            axes.text(x, good + bad, f"{good / (good + bad):.0%}", ha="center", va="bottom", fontsize=6, color=GREY)
    if rows.is_empty():
        empty(axes, "no forecast")
    axes.set_xlim(0.49, 1.01)
    axes.set_ylim(0, max(*(right + wrong), 1) * 1.35)
    axes.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    dress(axes)
