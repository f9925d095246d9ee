"""Figures of the benchmark as PNG bytes: reliability diagrams and the comparison of Brier scores."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Larger pictures do not belong into an event of the pipeline.
MOST_BYTES = 100_000

#: More panels or lines than this are left out, with a note that says how many.
MOST_PANELS = 12
MOST_LINES = 40

_INK, _GREY, _RULE = "#22303c", "#7a8691", "#d5dbe0"
_POINT, _GAP, _COUNT = "#1f5a91", "#e08a4f", "#a9bccd"
_KINDS = ("#1f5a91", "#c2562e", "#3d8361", "#7a5aa6", "#a8862b", "#4c9aa8", "#9c4a6d", "#5f6b76")


def reliability_diagram(reliability: pl.DataFrame, title: str) -> bytes:
    """Observed frequency of yes against the forecast, one panel per forecaster, as a PNG below 100 kB.

    `reliability` holds rows of benchmark/reliability. Each point has its Wilson interval, a bar shows the gap to perfect calibration, and
    the counts of the bins stand below. `title` and the names of forecasters are drawn as they are, without markup.
    """
    names = reliability["forecaster"].unique().sort().to_list()
    shown = names[:MOST_PANELS] or [""]
    columns = min(math.ceil(math.sqrt(len(shown))), 4)
    rows = math.ceil(len(shown) / columns)
    alone = len(shown) == 1
    width, height = (5.4, 5.9) if alone else (3.1 * columns + 0.3, 3.75 * rows + 0.8)
    figure = _figure(width, height, title)
    grid = figure.add_gridspec(
        rows,
        columns,
        left=0.65 / width,
        right=1 - 0.25 / width,
        top=1 - (0.55 if alone else 0.85) / height,
        bottom=(0.55 if alone else 0.9) / height,
        hspace=0.36,
        wspace=0.22,
    )
    for index, name in enumerate(shown):
        panel = grid[index // columns, index % columns].subgridspec(2, 1, height_ratios=(4, 1), hspace=0.08)
        diagram = figure.add_subplot(panel[0])
        counts = figure.add_subplot(panel[1], sharex=diagram)
        bins = reliability.filter((pl.col("forecaster") == name) & (pl.col("n") > 0)).sort("bin")
        _diagram(diagram, bins)
        _counts(counts, bins)
        if not alone:
            diagram.set_title(_line(name, 32), fontsize=9, color=_INK, loc="left", pad=5, parse_math=False)
        if index % columns == 0:
            diagram.set_ylabel("observed frequency of yes", fontsize=8, color=_INK)
            counts.set_ylabel("count", fontsize=8, color=_INK)
        if index + columns >= len(shown):
            counts.set_xlabel("forecast probability of yes", fontsize=8, color=_INK)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    style = {"fontsize": 7.5, "frameon": False, "labelcolor": _INK}
    if alone:
        figure.axes[0].legend(handles, labels, loc="upper left", **style)
    else:
        figure.legend(handles, labels, loc="lower center", ncols=3, **style)
    _note(figure, len(names) - MOST_PANELS)
    return _png(figure)


def score_comparison(leaderboard: pl.DataFrame) -> bytes:
    """Brier scores with their intervals, best first, as a PNG below 100 kB.

    `leaderboard` holds rows of benchmark/leaderboard. Unranked forecasters stand last in grey with their coverage; the dotted line is the
    score of always saying 0.5.
    """
    table = leaderboard.sort("release", "rank", "brier", "forecaster", nulls_last=True)
    shown = table.head(MOST_LINES)
    width, height = 8.0, 1.6 + 0.32 * max(shown.height, 1)
    figure = _figure(width, height, "Brier score: " + ", ".join(table["release"].unique().sort()))
    axes = figure.add_axes((0.31, 0.55 / height, 0.47, 1 - 1.45 / height))
    kinds = shown.filter(pl.col("rank").is_not_null())["kind"].unique().sort().to_list()
    colours = {kind: _KINDS[index % len(_KINDS)] for index, kind in enumerate(kinds)}
    for line, row in enumerate(shown.iter_rows(named=True)):
        _score_line(axes, line, row, colours[row["kind"]] if row["rank"] is not None else _GREY)
    if shown.is_empty():
        axes.text(0.5, 0.5, "no forecaster", transform=axes.transAxes, ha="center", va="center", fontsize=9, color=_GREY)
    _score_axes(axes, shown)
    _kinds(figure, axes, colours)
    _note(figure, table.height - MOST_LINES)
    return _png(figure)


def _diagram(axes: Axes, bins: pl.DataFrame) -> None:
    axes.plot((0, 1), (0, 1), color=_GREY, linewidth=1, linestyle=(0, (4, 3)), label="perfect calibration", zorder=1)
    forecast, observed = bins["mean_forecast"].to_numpy(), bins["yes_rate"].to_numpy()
    axes.vlines(forecast, forecast, observed, color=_GAP, linewidth=5, alpha=0.75, label="gap to perfect calibration", zorder=2)
    errors = (observed - bins["yes_rate_lower"].to_numpy(), bins["yes_rate_upper"].to_numpy() - observed)
    axes.errorbar(
        forecast,
        observed,
        yerr=errors,
        fmt="o",
        color=_POINT,
        markersize=4.5,
        elinewidth=1.1,
        capsize=2.5,
        label="observed, 95 % Wilson interval",
        zorder=3,
    )
    if bins.is_empty():
        axes.text(0.5, 0.5, "no forecast", ha="center", va="center", fontsize=9, color=_GREY, backgroundcolor="white")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xticks([tick / 5 for tick in range(6)])
    axes.set_yticks([tick / 5 for tick in range(6)])
    axes.tick_params(labelbottom=False)
    _dress(axes)


def _counts(axes: Axes, bins: pl.DataFrame) -> None:
    counts = bins["n"].to_list()
    middle = [(low + high) / 2 for low, high in zip(bins["lower_edge"], bins["upper_edge"], strict=True)]
    axes.bar(middle, counts, width=0.092, color=_COUNT, zorder=2)
    for x, count in zip(middle, counts, strict=True):
        axes.text(x, count, _short(count), ha="center", va="bottom", fontsize=6.5, color=_GREY)
    axes.set_ylim(0, max(counts, default=1) * 1.45)
    axes.set_yticks([])
    _dress(axes)


def _score_line(axes: Axes, line: int, row: dict[str, Any], colour: str) -> None:
    if row["rank"] is not None:
        ink, name = _INK, _line(row["forecaster"], 32)
    else:
        ink, name = _GREY, f"{_line(row['forecaster'], 20)} ({row['coverage']:.0%} answered)"
    beside = axes.get_yaxis_transform()
    axes.text(-0.02, line, name, transform=beside, ha="right", va="center", fontsize=8.5, color=ink, parse_math=False)
    axes.text(1.03, line, _interval(row), transform=beside, ha="left", va="center", fontsize=8, color=ink)
    if row["brier_lower"] is not None:
        ends = (row["brier_lower"], row["brier_upper"])
        axes.plot(ends, (line, line), color=colour, linewidth=2.4, alpha=0.45, solid_capstyle="butt", zorder=2)
    if row["brier"] is not None:
        axes.plot(row["brier"], line, "o", color=colour, markersize=6, zorder=3)


def _interval(row: dict[str, Any]) -> str:
    if row["brier"] is None:
        return "no score"
    return f"{row['brier']:.4f}" + ("" if row["brier_lower"] is None else f"  [{row['brier_lower']:.3f}, {row['brier_upper']:.3f}]")


def _score_axes(axes: Axes, shown: pl.DataFrame) -> None:
    ends = [value for name in ("brier", "brier_lower", "brier_upper") for value in shown[name].drop_nulls()]
    low, high = min([*ends, 0.2]), max([*ends, 0.27])
    lines = max(shown.height, 1)
    axes.set_xlim(max(low - 0.05 * (high - low), -0.005), high + 0.05 * (high - low))
    axes.set_ylim(lines - 0.5, -0.5)
    axes.set_yticks([])
    axes.axvline(0.25, color=_GREY, linewidth=0.9, linestyle=":", zorder=1)
    axes.text(0.25, -0.55, "always 0.5", ha="center", va="bottom", fontsize=7, color=_GREY)
    axes.set_xlabel("Brier score and 95 % cluster-bootstrap interval; lower is better", fontsize=8, color=_INK)
    axes.grid(axis="x", color=_RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    _dress(axes)


def _kinds(figure: Figure, axes: Axes, colours: dict[str, str]) -> None:
    """A line below the title that says which colour is which kind of forecaster."""
    handles = [axes.plot([], [], "o", color=colour, markersize=5)[0] for colour in colours.values()]
    below_title = (0.0, 1 - 0.36 / figure.get_figheight())
    legend = figure.legend(
        handles,
        [_line(kind, 24) for kind in colours],
        loc="upper left",
        bbox_to_anchor=below_title,
        ncols=8,
        fontsize=7.5,
        frameon=False,
        labelcolor=_INK,
    )
    for entry in legend.get_texts():
        entry.set_parse_math(False)


def _figure(width: float, height: float, title: str) -> Figure:
    """An empty figure of its own, in inches, that no global state of the plotting library knows of."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    figure.text(
        0.15 / width,
        1 - 0.12 / height,
        _line(title, int(10 * width)),
        ha="left",
        va="top",
        fontsize=11.5,
        color=_INK,
        fontweight="bold",
        parse_math=False,
    )
    return figure


def _dress(axes: Axes) -> None:
    axes.tick_params(labelsize=7.5, colors=_GREY, length=2.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_RULE)


def _line(text: str, most: int) -> str:
    """`text` on one line of at most `most` characters, control characters as spaces."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _short(count: int) -> str:
    """A count in at most four characters up to a billion: 999, 12k, 3.4M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + unit if count < 10 * size else f"{count // size}{unit}"
    return str(count)


def _note(figure: Figure, left_out: int) -> None:
    if left_out > 0:
        figure.text(0.98, 0.005, f"and {left_out} more", ha="right", va="bottom", fontsize=7, color=_GREY)


def _png(figure: Figure) -> bytes:
    """The figure in 64 colours at the highest resolution that stays below the limit; the same figure gives the same bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    picture = b""
    for dpi in (130, 100, 80, 60):
        figure.set_dpi(dpi)
        canvas.draw()
        buffer = io.BytesIO()
        Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(64).save(buffer, format="png", optimize=True)
        picture = buffer.getvalue()
        if len(picture) < MOST_BYTES:
            break
    return picture
