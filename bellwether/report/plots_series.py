"""Figures over an axis: the Brier score by month of resolution, and a metric by distance from the knowledge cutoff."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bellwether.report.plots_canvas import BLUE, GREY, INK, MOST_PANELS, PALE, Panels, dress, empty, line
from bellwether.report.plots_frames import answered, means
from bellwether.report.results import from_near

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Ticks of the horizontal axis of a panel alone and of one among many; the labels between them are left out.
_MOST_TICKS, _FEW_TICKS = 6, 4

_DISTANCE = "distance:"

#: Reference lines: the score of always saying 0.5, or of guessing.
_REFERENCE = {"brier": 0.25, "accuracy": 0.5}


def brier_over_time(forecasts: pl.DataFrame, questions: pl.DataFrame, title: str, *, names: Sequence[str] = ()) -> bytes:
    """Brier score by the month in which a question was resolved, with intervals, one panel per forecaster, as a PNG below 100 kB.

    `forecasts` and `questions` are rows of benchmark/forecasts and benchmark/questions. Intervals are cluster bootstraps within the month; a
    month from one cluster has none. The pale line is the median of all forecasters, the numbers below count the forecasts of the month.
    `names` are the forecasters in the order of their panels; all of them by name when left out.
    """
    rows = answered(forecasts, questions).with_columns(month=pl.col("resolved").dt.strftime("%Y-%m"))
    series = means(rows, "month", "squared_error").rename({"month": "label"})
    months = questions.select(pl.coalesce("settled_at", "close_time").dt.strftime("%Y-%m")).to_series().unique().sort().to_list()
    shown = names or forecasts["forecaster"].unique().sort().to_list()
    return _panels(series, months, shown, title, metric="brier", along="month of resolution")


def score_by_distance(scores: pl.DataFrame, title: str, *, metric: str = "brier", names: Sequence[str] = ()) -> bytes:
    """A metric by the days from a forecaster's knowledge cutoff to the resolution, one panel per forecaster, as a PNG below 100 kB.

    `scores` are rows of benchmark/scores; the scopes distance:<days> are drawn, in the order of their first number. A metric that gets better
    close to the cutoff hints at remembered outcomes. `names` as in `brier_over_time`; forecasters without a cutoff have no panel.
    """
    rows = scores.filter(
        pl.col("scope").str.starts_with(_DISTANCE) & (pl.col("metric") == metric) & pl.col("value").is_not_null()
    ).with_columns(label=pl.col("scope").str.slice(len(_DISTANCE)))
    labels = sorted(rows["label"].unique(), key=from_near)
    dated = set(rows["forecaster"])
    shown = [name for name in names or sorted(dated) if name in dated]
    return _panels(rows, labels, shown, title, metric=metric, along="days from the knowledge cutoff to the resolution")


def _panels(series: pl.DataFrame, labels: list[str], names: Sequence[str], title: str, *, metric: str, along: str) -> bytes:
    sheet = Panels(names, title, alone=(6.4, 4.6), each=(3.1, 2.6))
    at = {label: index for index, label in enumerate(labels)}
    placed = series.with_columns(at=pl.col("label").replace_strict(at, return_dtype=pl.Int64)).sort("forecaster", "at")
    ends = [
        value for name in ("value", "lower", "upper") for value in placed.filter(pl.col("forecaster").is_in(sheet.names))[name].drop_nulls()
    ]
    low, high = min([*ends, 0.2]), max([*ends, 0.27])
    first = None
    for name, cell, left, bottom in sheet.cells(hspace=0.5):
        axes = sheet.figure.add_subplot(cell)
        first = first or axes
        _series(axes, placed, name, metric)
        axes.set_xlim(-0.5, max(len(labels), 1) - 0.5)
        # the counts stand below the curves: no score is negative, and neither is a tick
        axes.set_ylim(low - 0.14 * (high - low), high + 0.12 * (high - low))
        _ticks(axes, labels, _MOST_TICKS if sheet.alone else _FEW_TICKS)
        sheet.head(axes, name)
        if left:
            axes.set_ylabel(_NAMES.get(metric, metric), fontsize=8, color=INK)
        if bottom:
            axes.set_xlabel(along, fontsize=8, color=INK)
        dress(axes)
    if first is not None:
        sheet.key(first)
    sheet.note(len(names) - MOST_PANELS)
    return sheet.png()


_NAMES = {"brier": "Brier score"}


def _series(axes: Axes, placed: pl.DataFrame, name: str, metric: str) -> None:
    reference = _REFERENCE.get(metric)
    if reference is not None:
        axes.axhline(
            reference, color=GREY, linewidth=0.9, linestyle=":", label=f"{reference:g}: {'always 0.5' if metric == 'brier' else 'a coin'}"
        )
    middle = placed.group_by("at").agg(pl.col("value").median()).sort("at")
    if placed["forecaster"].n_unique() > 1:
        axes.plot(middle["at"], middle["value"], color=PALE, linewidth=1.6, zorder=1, label="median of all forecasters")
    own = placed.filter(pl.col("forecaster") == name)
    if own.is_empty():
        empty(axes, "no forecast")
        return
    value = own["value"].to_numpy()
    sure = own["lower"].is_not_null().to_numpy()
    below, above = (np.where(sure, np.abs(own[end].fill_null(0.0).to_numpy() - value), 0.0) for end in ("lower", "upper"))
    axes.plot(own["at"], value, color=BLUE, linewidth=1.2, zorder=2)
    axes.errorbar(
        own["at"], value, yerr=(below, above), fmt="o", color=BLUE, markersize=4, elinewidth=1.1, capsize=2, label="95 % interval", zorder=3
    )
    for x, n in zip(own["at"], own["n"], strict=True):
        axes.text(x, 0.01, n, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=6, color=GREY)


def _ticks(axes: Axes, labels: list[str], most: int) -> None:
    step = max(1, -(-len(labels) // most))
    axes.set_xticks(range(0, len(labels), step), [line(label, 12) for label in labels[::step]], parse_math=False)
